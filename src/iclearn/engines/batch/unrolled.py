"""Training of small reduced models written out number by number: every weight is a vector over runs.

For separate keys and queries ŷ = βᵀ U x_q with U = Σ_h v_h Σ_r k_hr q_hrᵀ, the loss is a quadratic form of U and a step
of gradient descent is a few hundred multiplications and additions:

    G = 2·lr·(½ ∂L/∂U),  v_h ← v_h − Σ_r k_hr·G q_hr,  k_hr ← k_hr − v_h G q_hr,  q_hr ← q_hr − v_h Gᵀ k_hr.

Under infinitely many prompts with isotropic tasks the form is diagonal in the eigenbasis of the inputs,
½ ∂L/∂U_ij = a_i λ_j U_ij − b_i δ_ij, and gradient descent commutes with the rotation there. For P prompts it is full:
½ ∂L/∂U = M U − b with the second moments M of β x_qᵀ.

The expressions are those of `engines.contractions`, written out. They run as an XLA loop here, inside a Pallas kernel
(`pallas`), and are what `engines.compiled` prints; all are tested against the engines.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ...core.model import AbstractModel
from ...core.task import AbstractTask
from ..base import AbstractEngine
from ..contractions import (
    Contraction,
    Sizes,
    backward,
    forward,
    kronecker_force,
    pair_indices,
    pair_places,
    weight_axes,
)
from .rows import Unrolled, sizes_of_run

MAX_WEIGHTS = 160  # vectors a run keeps; beyond, registers run out and vmap is as good
MAX_PRODUCTS = 1200  # multiplications of one step


def sizes_of(task: AbstractTask, model: AbstractModel, engine: AbstractEngine, rule: str) -> Sizes | None:
    """The sizes of the unrolled form of runs.

    Args:
        task: of one run.
        model: of the same.
        engine: of the same.
        rule: the update rule.

    Returns:
        The sizes, or None where XLA and Pallas have no unrolled form of it, or it is too large.
    """
    sizes = sizes_of_run(task, model, engine)
    if rule not in ("gd", "sgd") or sizes is None or sizes.gram or sizes.form == "kronecker":
        return None
    return sizes if sizes.num_weights <= MAX_WEIGHTS and sizes.products <= MAX_PRODUCTS else None


Vector = Any
Vectors = Sequence[Vector]
Table = dict[tuple[int, ...], Vector]  # place → number


def contract(step: Contraction, sizes: Sizes, arrays: Mapping[str, Table]) -> Table:
    """One contraction, number by number.

    Args:
        step: the contraction.
        sizes: what the lengths of its axes depend on.
        arrays: name → operand.

    Returns:
        The result.
    """
    first, second, out = step.parts
    summed = "".join(dict.fromkeys(letter for letter in first + second if letter not in out))
    left, right = arrays[step.left], arrays[step.right]

    def entry(place: tuple[int, ...]) -> Vector:
        terms = []
        for inner in np.ndindex(*sizes.shape(summed)):
            at = dict(zip(out + summed, (*place, *inner), strict=True))
            terms.append(left[tuple(at[c] for c in first)] * right[tuple(at[c] for c in second)])
        return _sum(terms)

    return {place: entry(place) for place in np.ndindex(*sizes.shape(out))}


def _sum(terms: Vectors) -> Vector:
    return functools.reduce(operator.add, terms)


def _form(sizes: Sizes, number: Callable[[int], Vector]) -> tuple[Callable[[Table], Table], Table]:
    """Coefficients ↦ M·coefficients − cross (scaled by number 0), and the cross term (where it is zero: nothing)."""
    d, rows = sizes.dim, sizes.rows
    grid = list(np.ndindex(rows, d))
    cross: Table
    if sizes.form == "diagonal":
        cross = {(i, i): number(2 + i) for i in range(d)}

        def product(u: Table) -> Table:
            return {(i, j): number(2 + d + i * d + j) * u[i, j] for i, j in grid}
    elif sizes.form == "kronecker":
        start = 2 + d * d
        cross = {(i, j): number(2 + i * d + j) for i, j in grid}
        given = {"second": start, "inputs": start + d * d}
        constants = {name: {(i, j): number(at + i * d + j) for i, j in grid} for name, at in given.items()}

        def product(u: Table) -> Table:
            arrays = {"table": u, **constants}
            for step in kronecker_force():
                arrays[step.out] = contract(step, sizes, arrays)
            return arrays["force"]
    else:
        start = 2 + rows * d
        cross = {(p, j): number(2 + p * d + j) for p, j in grid}
        inputs, pairs, count = pair_places(d), pair_places(rows), len(pair_indices(rows))

        def product(u: Table) -> Table:
            def moment(j: int, l: int, p: int, q: int) -> Vector:
                return number(start + inputs[j, l] * count + pairs[p, q])

            return {(p, j): _sum([moment(j, l, p, q) * u[q, l] for q, l in grid]) for p, j in grid}

    def force(u: Table) -> Table:
        return {at: value - cross[at] if at in cross else value for at, value in product(u).items()}

    return force, cross


def unrolled_gradient(sizes: Sizes, number: Callable[[int], Vector]) -> tuple[Callable, Callable]:
    """The gradient times number 0, halved (2·lr there makes it lr times the gradient), and the loss.

    Args:
        sizes: what they depend on.
        number: index → that row of `Unrolled.numbers`.

    Returns:
        weights ↦ gradient in the order of `Unrolled.weights`, and weights ↦ loss, of tuples of vectors over runs.
    """
    force, cross = _form(sizes, number)
    axes = weight_axes(sizes)
    places = pair_places(sizes.dim + 1)

    def made(w: Vectors) -> dict[str, Table]:
        arrays, start = {}, 0
        for name, letters in axes.items():
            arrays[name] = {at: w[start + n] for n, at in enumerate(np.ndindex(*sizes.shape(letters)))}
            start += len(arrays[name])
        for step in forward(sizes):
            arrays[step.out] = contract(step, sizes, arrays)
        return arrays

    def coefficients(table: Table) -> Table:
        if not sizes.gram:
            return table
        folded: dict[tuple[int, ...], list[Vector]] = {}
        for (a, b, j), value in table.items():  # only T_ab + T_ba counts
            folded.setdefault((places[a, b], j), []).append(value)
        return {at: _sum(values) for at, values in folded.items()}

    def gradient(w: Vectors) -> tuple[Vector, ...]:
        arrays = made(w)
        pulled = force(coefficients(arrays["table"]))
        if sizes.gram:
            pulled = {(a, b, j): pulled[places[a, b], j] for a, b, j in np.ndindex(*sizes.shape("abj"))}
        arrays["force"] = pulled
        for step in backward(sizes):
            arrays[step.out] = contract(step, sizes, arrays)
        return tuple(value for name in axes for value in arrays[f"d_{name}"].values())

    def loss(w: Vectors) -> Vector:
        u = coefficients(made(w)["table"])
        g = force(u)
        squared = _sum([u[at] * g[at] for at in u])
        linear = _sum([value * u[at] for at, value in cross.items()])
        return number(1) + (squared - linear) / number(0)

    return gradient, loss


def unrolled_step(sizes: Sizes, number: Callable[[int], Vector]) -> tuple[Callable, Callable]:
    """One step of gradient descent and the loss, as functions of tuples of vectors over runs.

    Args:
        sizes: what the step depends on.
        number: index → that row of `Unrolled.numbers`.

    Returns:
        weights ↦ weights after one step, and weights ↦ loss, in the order of `Unrolled.weights`.
    """
    gradient, loss = unrolled_gradient(sizes, number)
    return lambda w: tuple(value - move for value, move in zip(w, gradient(w), strict=True)), loss


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
