"""The exact engine: the loss is a quadratic form of the model's coefficients, so the data enters through moments, once.

The form is one of three: the second moments of the features over P prompts, streamed here in bounded memory
(`core.forms.Moments`), or their expectation over infinitely many prompts, which feature maps give
(`tasks.expectations.KroneckerForm`, `tasks.gram_moments.GramForm`). A step costs the same for any P.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.drawn_normals import keep_draws
from ..core.forms import AbstractForm, Moments, as_array
from ..core.kept_programs import compile_ahead, kept
from ..core.prompt import Batch, FeatureBatch
from ..core.sharding import sum_blocks
from ..core.task import AbstractSource, AbstractTask
from ..models.base import AbstractFeatureModel
from ..models.features import AbstractFeatureMap
from .base import AbstractEngine, stack_losses


class QuadraticEngine(AbstractEngine[AbstractFeatureModel]):
    """Exact full-batch training of a model whose loss is a quadratic form, test losses included.

    For an example see `AbstractEngine`.

    Args:
        train: the form of the training set.
        tests: the forms of the test sets.
        reduced: whether they act on the coefficients of the model without its zero blocks.
    """

    train: AbstractForm
    tests: tuple[AbstractForm, ...]
    reduced: bool = eqx.field(static=True, default=False)

    @property
    def stochastic(self) -> bool:
        return False

    def _coefficients(self, model: AbstractFeatureModel) -> Float[Array, "feature output"]:
        return (model.reduced() if self.reduced else model).coefficients()

    def loss(self, model: AbstractFeatureModel, key: Key[Array, ""]) -> Float[Array, ""]:
        return self.train(self._coefficients(model))

    def test_losses(self, model: AbstractFeatureModel) -> Float[Array, " test_set"]:
        coefficients = self._coefficients(model)
        return stack_losses([test(coefficients) for test in self.tests])

    def minimum(self) -> Any:
        return self.train.minimum()


def batch_moments(features: AbstractFeatureMap, batch: Batch | FeatureBatch) -> Moments:
    """The moments of one batch, accumulated in double precision.

    Args:
        features: the feature map.
        batch: prompts (or their features) with targets and weights.

    Returns:
        M = Σ_p weight_p φ_p φ_pᵀ, b = Σ_p weight_p φ_p y_pᵀ and c = Σ_p weight_p ‖y_p‖²/outputs.
    """
    phi = batch.features if isinstance(batch, FeatureBatch) else jax.vmap(features)(batch.prompt)
    phi, target = phi.astype(jnp.float64), batch.target.astype(jnp.float64)
    weighted = phi * batch.weight.astype(jnp.float64)[:, None]
    energy = jnp.sum(batch.weight[:, None] * target**2) / target.shape[1]
    return Moments(weighted.T @ phi, weighted.T @ target, energy)


@kept
def _streamed(source: AbstractSource, features: AbstractFeatureMap, out_dim: int, contexts: int | range) -> Moments:
    """`stream_moments` as a program."""
    zero = Moments(jnp.zeros((features.size, features.size)), jnp.zeros((features.size, out_dim)), jnp.zeros(()))

    def part(index: Array) -> Moments:
        if contexts == 0:
            return batch_moments(features, source.block(index))

        def add_prefix(context: Array, sums: Moments) -> Moments:
            one = batch_moments(features, source.prefix_block(index, context))
            return jax.tree.map(jnp.add, sums, one)

        lengths = _lengths(contexts, 0)
        total = jax.lax.fori_loop(lengths.start, lengths.stop, add_prefix, zero)
        return jax.tree.map(lambda a: a / len(lengths), total)

    return sum_blocks(part, source.num_blocks, zero)


def stream_moments(
    source: AbstractSource, features: AbstractFeatureMap, out_dim: int, contexts: int | range
) -> Moments:
    """The moments over all prompts of a source, block by block in bounded memory.

    Args:
        source: the prompts.
        features: the feature map.
        out_dim: number of outputs.
        contexts: 0 for the prompts as they are; above 0 for the mean over their prefixes of 1..contexts pairs; a range
            for that over their prefixes of these numbers of pairs.

    Returns:
        The moments, in double precision.

    >>> import iclearn as icl
    >>> from iclearn.models import Cubic
    >>> source = icl.LinearRegression(dim=2, context_len=4, num_prompts=50).source(0, "float64")
    >>> stream_moments(source, Cubic(2, 1, "context"), 1, 0).second.shape
    (4, 4)
    """
    host = host_moments(source, features, out_dim, contexts)
    return _streamed(source, features, out_dim, contexts) if host is None else host


@np.errstate(all="ignore")  # as JAX: what overflows is infinite
def host_moments(
    source: AbstractSource, features: AbstractFeatureMap, out_dim: int, contexts: int | range
) -> Moments | None:
    """`stream_moments` by numpy, for which nothing is compiled but the one program that draws.

    Args:
        source: the prompts.
        features: the feature map.
        out_dim: number of outputs.
        contexts: as `stream_moments` has them.

    Returns:
        The moments, arrays of JAX, equal to those of the program to rounding; None where source or features have no
        form for numpy (`AbstractSource.host_blocks`, `AbstractFeatureMap.has_host_form`).
    """
    blocks = source.host_blocks() if features.has_host_form else None
    if blocks is None:
        return None
    second, cross, energy = np.zeros((features.size, features.size)), np.zeros((features.size, out_dim)), 0.0
    total, enough = 0, max(1, features.size // 4)  # prompts; adding up a product costs as much as that of so many
    waiting: list[tuple[np.ndarray, np.ndarray]] = []

    def add() -> None:
        nonlocal second, cross
        phi, target = waiting[0] if len(waiting) == 1 else (np.concatenate(p, 1) for p in zip(*waiting, strict=True))
        second += phi @ phi.T
        cross += phi @ target.T
        waiting.clear()

    for block in blocks:
        for length in _lengths(contexts, len(block.truth) - 1):
            phi = features.on_host(block.tokens[:length], block.tokens[length, : features.dim])
            target = block.truth[length].astype(np.float64, copy=False)
            waiting.append((phi.astype(np.float64, copy=False), target))
            energy, total = energy + float(np.vdot(target, target)), total + target.shape[1]
            if sum(one.shape[1] for one, _ in waiting) >= enough:
                add()
    if waiting:
        add()
    return Moments(as_array(second / total), as_array(cross / total), as_array(energy / (total * out_dim)))


def _lengths(contexts: int | range, whole: int) -> range:
    """The numbers of pairs of the prefixes that count (`stream_moments`), of prompts of so many pairs."""
    if isinstance(contexts, range):
        return contexts
    return range(1, contexts + 1) if contexts else range(whole, whole + 1)


def moments_engine(task: AbstractTask, features: AbstractFeatureMap, seed: int | Array, dtype: str) -> QuadraticEngine:
    """The engine of a fixed training set: it and every test set are streamed once.

    Args:
        task: the task.
        features: the feature map of the model.
        seed: the root seed; may be traced.
        dtype: name of the precision.

    Returns:
        The engine.
    """

    def collect(which: str) -> Moments:
        contexts = task.context_lengths() if task.prefixes and which == "train" else 0
        like = task.like_source(seed, dtype, which)
        if like is not None and not (features.has_host_form and like.host_blocks() is not None):
            compile_ahead(_streamed, like, features, task.out_dim, contexts)
        with keep_draws(features.has_host_form):  # for those that are centered or whitened first
            moments = stream_moments(task.source(seed, dtype, which), features, task.out_dim, contexts)
        return jax.tree.map(lambda a: a.astype(dtype), moments)

    return QuadraticEngine(collect("train"), tuple(collect(which) for which in task.tests))


class RememberedEngines:
    """`moments_engine` with a memory: the engines last asked for, as many as fit into `limit` bytes, and the last one.

    Threads that ask for the same one wait for the first of them.

    Args:
        limit: bytes of arrays that are held.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._engines: dict[tuple[Any, ...], Future[QuadraticEngine]] = {}  # those asked for last come last
        self._lock = threading.Lock()

    def __call__(
        self, task: AbstractTask, features: AbstractFeatureMap, seed: int | Array, dtype: str
    ) -> QuadraticEngine:
        """As `moments_engine`."""
        name = (task, features, seed, dtype)
        with self._lock:
            known = self._engines.pop(name, None)
            future = self._engines[name] = known or Future()
        if known is None:
            try:
                future.set_result(moments_engine(task, features, seed, dtype))
            except BaseException as error:
                future.set_exception(error)
                with self._lock:
                    self._engines.pop(name, None)
            self._forget()
        return future.result()

    def _forget(self) -> None:
        with self._lock:
            held = 0
            for index, (name, future) in enumerate(reversed(list(self._engines.items()))):
                if future.done() and future.exception() is None:
                    held += sum(leaf.nbytes for leaf in jax.tree.leaves(future.result()))
                    if index and held > self.limit:
                        del self._engines[name]

    def cache_clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._engines.clear()


remembered_moments_engine = RememberedEngines(1 << 26)


def population_engine(
    task: AbstractTask, model: AbstractFeatureModel, seed: int | Array, dtype: Any
) -> QuadraticEngine:
    """The engine of infinitely many prompts, for weights of which it is known that they stay in the reduced model.

    Args:
        task: the task.
        model: the model, whose features count and whose weights do not.
        seed: the root seed; may be traced.
        dtype: the precision.

    Returns:
        The engine.
    """
    features = model.reduced().feature_map
    assert features is not None
    forms = [features.population_form(task, seed, dtype, which) for which in ("train", *task.tests)]
    return QuadraticEngine(forms[0], tuple(forms[1:]), bool(model.zero_blocks()))
