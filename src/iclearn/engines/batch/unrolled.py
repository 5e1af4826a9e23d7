"""Training of small reduced models written out number by number: every weight is a vector over runs.

For separate keys and queries ŷ = βᵀ U x_q with U = Σ_h v_h Σ_r k_hr q_hrᵀ, the loss is a quadratic form of U and a step
of gradient descent is a few hundred multiplications and additions:

    G = 2·lr·(½ ∂L/∂U),  v_h ← v_h − Σ_r k_hr·G q_hr,  k_hr ← k_hr − v_h G q_hr,  q_hr ← q_hr − v_h Gᵀ k_hr.

Under infinitely many prompts with isotropic tasks the form is diagonal in the eigenbasis of the inputs,
½ ∂L/∂U_ij = a_i λ_j U_ij − b_i δ_ij, and gradient descent commutes with the rotation there. For P prompts it is full:
½ ∂L/∂U = M U − b with the second moments M of β x_qᵀ.

The same expressions run as an XLA loop and inside a Pallas kernel (`pallas`), and are tested against the engines.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...core.forms import Moments
from ...core.model import AbstractModel
from ...core.task import AbstractTask
from ...models.base import AbstractFeatureModel, HeadFactors
from ...tasks.expectations import KroneckerForm
from ..base import AbstractEngine
from ..quadratic import QuadraticEngine
from .inputs import RunInputs

MAX_WEIGHTS = 160  # vectors a run keeps; beyond, registers run out and vmap is as good
MAX_PRODUCTS = 1200  # multiplications of one step


class Sizes(NamedTuple):
    """What the unrolled step depends on.

    Args:
        dim: D.
        num_heads: H.
        rank: R of separate keys and queries; 0 for merged key-query weights.
        full: whether the form is that of P prompts (second moments) instead of a diagonal one.
    """

    dim: int
    num_heads: int
    rank: int
    full: bool

    @property
    def num_weights(self) -> int:
        """Weights of a run."""
        return self.num_heads * (1 + (2 * self.rank * self.dim if self.rank else self.dim**2))

    @property
    def num_numbers(self) -> int:
        """Numbers of a run's form: 2·lr and constant first, then the cross term, then the second moments."""
        d = self.dim
        return 2 + (d * d + len(pair_indices(d)) ** 2 if self.full else d + d * d)

    @property
    def products(self) -> int:
        """Multiplications of a step."""
        d = self.dim
        step = self.num_heads * (3 * max(1, self.rank) * d * d)
        return step + (d**4 if self.full else d * d)


def pair_indices(dim: int) -> list[tuple[int, int]]:
    """All (i, j) with i ≤ j < dim, in order."""
    return [(i, j) for i in range(dim) for j in range(i, dim)]


class Unrolled(eqx.Module):
    """Runs ready to be trained number by number.

    Args:
        weights: (weight, run) values, then keys and queries (or key-query matrices).
        numbers: (number, run) of the form: 2·lr and constant, the cross term, the second moments.
        sizes: what the step depends on.
    """

    weights: Float[Array, "weight run"]
    numbers: Float[Array, "number run"]
    sizes: Sizes = eqx.field(static=True)


def trained_factors(model: AbstractModel, engine: AbstractEngine) -> HeadFactors | None:
    """The heads of what an engine trains.

    Args:
        model: the model.
        engine: its training loss.

    Returns:
        The factors, or None where the loss is not a quadratic form of such heads.
    """
    if not isinstance(engine, QuadraticEngine) or not isinstance(model, AbstractFeatureModel):
        return None
    return (model.reduced() if engine.reduced else model).head_factors()


def sizes_of(task: AbstractTask, model: AbstractModel, engine: AbstractEngine, rule: str) -> Sizes | None:
    """The sizes of the unrolled form of runs.

    Args:
        task: of one run.
        model: of the same.
        engine: of the same.
        rule: the update rule.

    Returns:
        The sizes, or None where there is no unrolled form, or it is too large.
    """
    factors = trained_factors(model, engine)
    if rule not in ("gd", "sgd") or task.out_dim != 1 or task.tests or factors is None:
        return None
    assert isinstance(engine, QuadraticEngine)
    diagonal = isinstance(engine.train, KroneckerForm) and task.isotropic
    if not diagonal and not isinstance(engine.train, Moments):
        return None
    rank = 0 if factors.key is None else factors.key.shape[1]
    sizes = Sizes(task.dim, factors.value.shape[0], rank, not diagonal)
    return sizes if sizes.num_weights <= MAX_WEIGHTS and sizes.products <= MAX_PRODUCTS else None


@eqx.filter_jit
def unroll(runs: RunInputs, sizes: Sizes, rotate: bool) -> Unrolled:
    """Runs as rows of scalars.

    Args:
        runs: with a leading axis.
        sizes: what the step depends on.
        rotate: whether to go to the eigenbasis of each run's inputs.

    Returns:
        The runs, ready to be trained.
    """

    def one(run: RunInputs) -> tuple[Array, Array]:
        factors, train = trained_factors(run.model, run.engine), run.engine.train  # type: ignore[attr-defined]
        assert factors is not None
        twice = 2 * run.hyper.lr
        dim = sizes.dim
        basis = jnp.eye(dim, dtype=twice.dtype)
        if sizes.full:
            table = train.second.reshape(dim, dim, dim, dim)  # (j i),(l k): x_j β_i x_l β_k
            pairs = pair_indices(dim)
            first, last = jnp.array([p[0] for p in pairs]), jnp.array([p[1] for p in pairs])
            second = table[first[:, None], first[None], last[:, None], last[None]]  # x_j x_l, β_i β_k
            cross = train.cross.reshape(dim, dim).T  # β_i x_j
            form = jnp.concatenate([twice * cross.ravel(), twice * second.ravel()])
        else:
            inputs = train.inputs
            if rotate:
                basis = jnp.linalg.eigh(inputs)[1]
            matrices = (train.second[0, :, 0, :], train.cross[0, :, :, 0], inputs)
            diagonal = [jnp.einsum("ia,ij,ja->a", basis, m, basis) for m in matrices]
            form = jnp.concatenate([twice * diagonal[1], (twice * jnp.outer(diagonal[0], diagonal[2])).ravel()])
        numbers = jnp.concatenate([jnp.stack([twice, train.constant]), form])
        if factors.kq is not None:
            rows = [jnp.einsum("ja,hji,ib->hba", basis, factors.kq, basis)]  # U[i, j]
        else:
            assert factors.key is not None
            assert factors.query is not None
            rows = [factors.key @ basis, factors.query @ basis]
        return jnp.concatenate([factors.value, *(row.ravel() for row in rows)]), numbers

    weights, numbers = jax.vmap(one, out_axes=1)(runs)
    return Unrolled(weights, numbers, sizes)


Vector = Any
Vectors = Sequence[Vector]


def _form(sizes: Sizes, number: Callable[[int], Vector]) -> tuple[Callable, Callable]:
    """U ↦ G (scaled by 2·lr), and (U, G) ↦ the loss."""
    d = sizes.dim
    span = range(d)
    if sizes.full:
        cross = [[number(2 + i * d + j) for j in span] for i in span]
        start = 2 + d * d
        pairs = pair_indices(d)
        place = {pair: n for n, pair in enumerate(pairs)} | {(j, i): n for n, (i, j) in enumerate(pairs)}

        def moment(j: int, l: int, i: int, k: int) -> Vector:
            return number(start + place[j, l] * len(pairs) + place[i, k])

        def force(u: list[list[Vector]]) -> list[list[Vector]]:
            return [
                [_sum([moment(j, l, i, k) * u[k][l] for k in span for l in span]) - cross[i][j] for j in span]
                for i in span
            ]
    else:
        diagonal = [number(2 + i) for i in span]
        cross = [[diagonal[i] if i == j else None for j in span] for i in span]
        slopes = [[number(2 + d + i * d + j) for j in span] for i in span]

        def force(u: list[list[Vector]]) -> list[list[Vector]]:
            return [
                [slopes[i][j] * u[i][j] - diagonal[i] if i == j else slopes[i][j] * u[i][j] for j in span] for i in span
            ]

    def loss(u: list[list[Vector]], g: list[list[Vector]]) -> Vector:
        squared = _sum([u[i][j] * g[i][j] for i in span for j in span])
        linear = _sum([cross[i][j] * u[i][j] for i in span for j in span if cross[i][j] is not None])
        return number(1) + (squared - linear) / number(0)

    return force, loss


def _sum(terms: Vectors) -> Vector:
    return functools.reduce(operator.add, terms)


def unrolled_step(sizes: Sizes, number: Callable[[int], Vector]) -> tuple[Callable, Callable]:
    """One step of gradient descent and the loss, as functions of tuples of vectors over runs.

    Args:
        sizes: what the step depends on.
        number: index → that row of `Unrolled.numbers`.

    Returns:
        weights ↦ weights after one step, and weights ↦ loss, in the order of `Unrolled.weights`.
    """
    d, heads, rank = sizes.dim, sizes.num_heads, sizes.rank
    span = range(d)
    force, loss_of = _form(sizes, number)

    def split(w: Vectors) -> tuple[list[Vector], list[Vector]]:
        return list(w[:heads]), list(w[heads:])

    def separate(w: Vectors) -> tuple[list, list, list]:
        values, rest = split(w)
        half = heads * rank * d
        keys = [rest[n * d : n * d + d] for n in range(heads * rank)]
        queries = [rest[half + n * d : half + n * d + d] for n in range(heads * rank)]
        return values, keys, queries

    def weighted(w: Vectors) -> list[list[Vector]]:
        """v k of every pair."""
        values, keys, _ = separate(w)
        return [[values[n // rank] * key for key in keys[n]] for n in range(heads * rank)]

    def product(w: Vectors) -> list[list[Vector]]:
        if rank == 0:
            values, rest = split(w)
            at = lambda h, i, j: rest[h * d * d + i * d + j]  # noqa: E731
            return [[_sum([values[h] * at(h, i, j) for h in range(heads)]) for j in span] for i in span]
        _, _, queries = separate(w)
        left = weighted(w)
        return [[_sum([left[n][i] * queries[n][j] for n in range(heads * rank)]) for j in span] for i in span]

    def step(w: Vectors) -> tuple[Vector, ...]:
        g = force(product(w))
        if rank == 0:
            values, rest = split(w)
            new_values, new_rest = [], []
            for h in range(heads):
                own = rest[h * d * d : (h + 1) * d * d]
                new_values.append(values[h] - _sum([own[i * d + j] * g[i][j] for i in span for j in span]))
                new_rest += [own[i * d + j] - values[h] * g[i][j] for i in span for j in span]
            return (*new_values, *new_rest)
        values, keys, queries = separate(w)
        left = weighted(w)  # as in `product`: the compiler computes it once
        new_values, new_keys, new_queries = [], [], []
        for h in range(heads):
            value = values[h]
            for n in range(h * rank, (h + 1) * rank):
                key, query = keys[n], queries[n]
                pulled = [_sum([g[i][j] * query[j] for j in span]) for i in span]  # G q
                pushed = [_sum([g[i][j] * left[n][i] for i in span]) for j in span]  # v Gᵀ k
                new_keys += [key[i] - values[h] * pulled[i] for i in span]
                new_queries += [query[j] - pushed[j] for j in span]
                value = value - _sum([key[i] * pulled[i] for i in span])
            new_values.append(value)
        return (*new_values, *new_keys, *new_queries)

    def loss(w: Vectors) -> Vector:
        u = product(w)
        return loss_of(u, force(u))

    return step, loss


def lengths_of(steps: Int[np.ndarray, " sample"], end: int) -> Int[np.ndarray, " sample"]:
    """How many steps lie between samples.

    Args:
        steps: (sample) the sampled steps.
        end: steps of the run.

    Returns:
        (sample) steps from each sampled one to the next, and from the last to the end.
    """
    return np.diff(np.append(steps, end)).astype(np.int32)


@eqx.filter_jit
def train_unrolled(
    written: Unrolled, lengths: Int[Array, " sample"]
) -> tuple[Float[Array, "sample run"], Float[Array, "weight run"]]:
    """Train by the unrolled step in an XLA loop.

    Args:
        written: the runs.
        lengths: (sample) steps from each sampled one to the next.

    Returns:
        (sample, run) the losses at every sampled step, and (weight, run) the final weights.
    """
    step, loss = unrolled_step(written.sizes, lambda i: written.numbers[i])

    def segment(now: tuple[Array, ...], length: Array) -> tuple[tuple[Array, ...], Array]:
        return jax.lax.fori_loop(0, length, lambda _, x: step(x), now), loss(now)

    final, curve = jax.lax.scan(segment, tuple(written.weights), lengths)
    return curve, jnp.stack(final)
