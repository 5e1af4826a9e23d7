"""The prompts of a `FunctionClass`: points with labels, their queries, and answers of a model at every position."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..core.prompt import Batch, Prompt, SequenceBatch
from ..core.rng import normal, normal_rows
from ..core.task import AbstractBlockSource
from .function_laws import AbstractFunctions, Parameters
from .prompt_shifts import (
    line_inputs,
    orthogonal_queries,
    overlapping_queries,
    quadrant_inputs,
    renormalizing_factor,
)

GROUP = 64  # prompts whose labels are renormalized together: the batch of Garg et al. 2022
_FUNCTION, _NOISE, _CHOICE, _QUERY, _SHIFT, _INPUT = 1, 2, 3, 4, 5, 6  # what else is drawn from the key of a block


class Points(eqx.Module):
    """Prompts as sequences of points. Position i means: the i pairs before point i are seen, and its query is asked.

    Args:
        x: (prompt, point, dim) the inputs as shown.
        y: (prompt, point, 1) the labels as shown.
        truth: (prompt, point, 1) the labels without noise.
        parameters: of the function of each prompt.
        query: (prompt, point, dim) what is asked at each position (None: the point itself).
        query_y: (prompt, point, 1) labels of the queries, with noise.
        query_truth: (prompt, point, 1) the same without.
    """

    x: Float[Array, "prompt point dim"]
    y: Float[Array, "prompt point 1"]
    truth: Float[Array, "prompt point 1"]
    parameters: Parameters
    query: Float[Array, "prompt point dim"] | None = None
    query_y: Float[Array, "prompt point 1"] | None = None
    query_truth: Float[Array, "prompt point 1"] | None = None

    def asked(self) -> Float[Array, "prompt point dim"]:
        """(prompt, point, dim) the queries."""
        return self.x if self.query is None else self.query

    def targets(self, clean: bool = False) -> Float[Array, "prompt point 1"]:
        """(prompt, point, 1) the labels of the queries, without noise where `clean`."""
        shown, truth = (self.y, self.truth) if self.query_y is None else (self.query_y, self.query_truth)
        return truth if clean and truth is not None else shown

    def prompts(self, positions: Int[Array, " position"]) -> Prompt:
        """The prompts of some positions.

        Args:
            positions: (position) which.

        Returns:
            Prompts with axes (position, prompt).
        """

        def one(position: Array) -> Prompt:
            mask = jnp.broadcast_to(jnp.arange(self.x.shape[1] - 1) < position, (self.x.shape[0], self.x.shape[1] - 1))
            return Prompt(self.x[:, :-1], self.y[:, :-1], self.asked()[:, position], mask)

        return jax.vmap(one)(positions)

    @eqx.filter_jit
    def answers(self, model: AbstractModel) -> Float[Array, "prompt point"]:
        """The answers of a model at every position.

        Args:
            model: any that reads prompts of this dimension.

        Returns:
            (prompt, point) the answers: by one pass over each sequence where its points are the queries, else prompt
            by prompt.
        """
        if self.query is None:
            return model.predict_sequences(self.x, self.y)[..., 0]

        def at(position: Array) -> Array:  # one position at a time: all prompts of all positions may be many
            asked = jax.tree.map(lambda a: a[0], self.prompts(position[None]))
            return jax.vmap(model.predict)(asked)[:, 0]

        return jax.lax.map(at, jnp.arange(self.x.shape[1])).T

    def squared_errors(self, model: AbstractModel, clean: bool = False) -> Float[Array, "prompt point"]:
        """The squared errors of a model at every position, not normalized.

        Args:
            model: any that reads prompts of this dimension.
            clean: against the labels without noise.

        Returns:
            (prompt, point) the errors.
        """
        return (self.answers(model) - self.targets(clean)[..., 0]) ** 2


class FunctionSource(AbstractBlockSource):
    """The prompts of a `FunctionClass` under one seed.

    Args:
        functions: the law of functions.
        shift: name of the shift of the prompts (none: empty).
        amount: () of that shift; traced, so that all amounts share one program.
        noise_std: () standard deviation of the noise.
        transform: (dim, dim) inputs are rows g·transform (None: g).
        pool_key: from which the functions of the pool are drawn.
        num_tasks: size of the pool (None: every prompt has a new function).
        points: of a prompt.
        dim: of the inputs.
        renormalize: whether labels are scaled to variance dim, group by group.
        noisy: whether there may be noise.
        clean: whether targets have no noise.
        dims: () coordinates from this one on are 0 (None: none).
        loss_points: () positions from this one on do not count in the loss of prefixes (None: all count).
    """

    functions: AbstractFunctions = eqx.field(static=True)
    shift: str = eqx.field(static=True)
    amount: Float[Array, ""]
    noise_std: Float[Array, ""]
    transform: Float[Array, "dim dim"] | None
    pool_key: Key[Array, ""]
    num_tasks: int | None = eqx.field(static=True)
    points: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    renormalize: bool = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    clean: bool = eqx.field(static=True)
    dims: Int[Array, ""] | None = None
    loss_points: Int[Array, ""] | None = None

    def _named(self, *names: str) -> bool:
        return self.shift in names

    @property
    def _amount(self) -> Float[Array, ""]:
        return self.amount.astype(self.dtype)

    def parameters_of(self, index: Any) -> Parameters:
        """The functions of a block's prompts; those of a pool are distinct within a block where it is large enough.

        Args:
            index: of the block; may be traced.

        Returns:
            Name → (prompt, …) array.
        """
        key = jax.random.fold_in(self.key, index)
        numbers, start = jnp.arange(self.block_size), jax.random.fold_in(key, _FUNCTION)
        if self.num_tasks is not None:
            order = jax.random.permutation(jax.random.fold_in(key, _CHOICE), self.num_tasks)
            numbers, start = order[numbers % self.num_tasks], self.pool_key
        keys = jax.vmap(lambda n: jax.random.fold_in(start, n))(numbers)
        drawn = jax.vmap(lambda k: self.functions.draw(k, self.dim, self.dtype, self.dims))(keys)
        if self._named("prior_mean"):
            drawn["w"] = drawn["w"] + self._amount
        if self._named("prior_scale"):
            drawn["w"] = drawn["w"] * self._amount
        return drawn

    def inputs_of(self, index: Any, parameters: Parameters) -> tuple[Array, Array | None]:
        """The inputs of a block's prompts and their queries.

        Args:
            index: of the block; may be traced.
            parameters: of its functions.

        Returns:
            (prompt, point, dim) inputs, and queries or None where the points themselves are asked.
        """
        key, size = jax.random.fold_in(self.key, index), self.block_size
        other = jax.random.fold_in(key, _SHIFT)
        if not self.functions.normal_inputs:
            keys = jax.random.split(jax.random.fold_in(key, _INPUT), size)
            draw = self.functions.inputs
            x = jax.vmap(lambda k, p: draw(k, p, self.points, self.dim, self.dtype))(keys, parameters)
        else:
            factor = jnp.eye(self.dim) if self.transform is None else self.transform
            x = normal_rows(key, size * self.points, factor, self.dtype).reshape(size, self.points, self.dim)
        query = None
        if self._named("scale_x"):
            x = self._amount * x
        elif self._named("input_mean"):
            x = x + self._amount
        elif self._named("input_tails"):
            x = self._student(other, x.shape)
            x = x if self.transform is None else x @ self.transform.astype(x.dtype)
        elif self._named("random_quadrants", "opposite_quadrants"):
            pattern = jax.random.rademacher(other, (size, 1, self.dim), jnp.int32).astype(x.dtype)
            x, gaussian = quadrant_inputs(x, pattern), x
            query = gaussian if self._named("random_quadrants") else -x
        elif self._named("orthogonal_train_test"):
            query = jax.vmap(orthogonal_queries)(x)
        elif self._named("overlapping_train_test"):
            place = jax.random.uniform(other, (size, self.points), jnp.float32)
            index_ = jnp.floor(place * jnp.arange(self.points)).astype(int)
            query = jax.vmap(overlapping_queries)(x, index_)
        elif self._named("orthogonal_line"):
            x, query = jax.vmap(line_inputs)(x, normal(other, (size, self.dim), x.dtype))
        if self.dims is not None:
            kept = (jnp.arange(self.dim) < self.dims).astype(x.dtype)
            x, query = x * kept, None if query is None else query * kept
        return x, query

    def _student(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
        freedom = self.amount
        unit = jnp.sqrt((freedom - 2) / freedom).astype(jnp.float32)
        return (unit * jax.random.t(key, freedom.astype(jnp.float32), shape, jnp.float32)).astype(self.dtype)

    def _noise(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
        std = self.noise_std.astype(self.dtype)
        return std * (self._student(key, shape) if self._named("noise_tails") else normal(key, shape, self.dtype))

    def _present(self, index: Any) -> Bool[Array, " prompts"]:
        return self.positions(index) < self.num_prompts

    def sequences_of(self, index: Any) -> Points:
        """The prompts of one block.

        Args:
            index: of the block; may be traced.

        Returns:
            The prompts; those beyond `num_prompts` are there too.
        """
        parameters = self.parameters_of(index)
        x, query = self.inputs_of(index, parameters)
        key, size = jax.random.fold_in(self.key, index), self.block_size

        def labels(inputs: Array, what: int) -> tuple[Array, Array]:
            own = jax.random.fold_in(key, what)
            clean = jax.vmap(self.functions.labels)(parameters, inputs)
            if self.functions.sampled_labels:
                return jax.vmap(self.functions.shown)(jax.random.split(own, size), parameters, inputs, clean), clean
            return clean + self._noise(own, clean.shape) if self.noisy else clean, clean

        y, truth = labels(x, _NOISE)
        asked = None if query is None else labels(query, _QUERY)
        factor = jnp.full((size, 1), self._amount if self._named("scale_y") else 1.0, x.dtype)
        if self.renormalize:
            group, present = min(GROUP, size), self._present(index).astype(x.dtype)
            rows = y.reshape(-1, group, self.points)
            found = jax.vmap(lambda a, b: renormalizing_factor(a, self.dim, b))(rows, present.reshape(-1, group))
            factor = factor * jnp.repeat(found, group)[:, None]
        if self._named("input_noise"):
            first, second = jax.random.split(jax.random.fold_in(key, _SHIFT))
            x = x + self._amount * normal(first, x.shape, x.dtype)
            query = None if query is None else query + self._amount * normal(second, x.shape, x.dtype)
        shaped = [(factor * label)[..., None] for label in (y, truth, *(asked or ()))]
        return Points(x, shaped[0], shaped[1], parameters, query, *shaped[2:])

    @eqx.filter_jit
    def sequences(self) -> Points:
        """All prompts of the set."""
        blocks = jax.vmap(self.sequences_of)(jnp.arange(self.num_blocks))
        return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[: self.num_prompts], blocks)

    @eqx.filter_jit
    def everything(self, contexts: int | range = 0) -> Batch:
        drawn = self.sequences()  # once for all positions
        lengths = range(1, contexts + 1) if isinstance(contexts, int) and contexts else contexts
        counts = jnp.asarray(lengths or [self.points - 1])
        target = jnp.swapaxes(drawn.targets(self.clean)[:, counts], 0, 1)
        weight = jnp.ones(target.shape[:2], self.dtype)
        if self.loss_points is not None:
            weight = weight * (counts < self.loss_points).astype(self.dtype)[:, None]
        prompts = (drawn.prompts(counts), target, weight / weight.sum())
        prompts, target, weight = jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:])), prompts)
        return Batch(prompts, target, weight)

    @eqx.filter_jit
    def whole_sequences(self, first: int) -> SequenceBatch:
        drawn, share = self.sequences(), None
        if drawn.query is not None:
            raise IclearnError("queries that are not points of the sequence are asked prompt by prompt")
        if self.loss_points is not None:
            counted = (jnp.arange(self.points) >= first) & (jnp.arange(self.points) < self.loss_points)
            share = (counted / counted.sum()).astype(self.dtype)
        weight = jnp.full(self.num_prompts, 1 / self.num_prompts, self.dtype)
        return SequenceBatch(drawn.x, drawn.y, drawn.targets(self.clean), weight, first, share)

    def block(self, index: Any) -> Batch:
        return self.prefix_block(index, self.points - 1)

    def prefix_block(self, index: Any, context: Array | int) -> Batch:
        drawn = self.sequences_of(index)
        prompts = jax.tree.map(lambda a: a[0], drawn.prompts(jnp.asarray(context)[None]))
        weight = (self._present(index) / self.num_prompts).astype(self.dtype)
        return Batch(prompts, drawn.targets(self.clean)[:, context], weight)
