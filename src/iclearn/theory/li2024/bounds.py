"""How far a shift of weights or data moves the softmax: the tight constant, and the paper's in logs.

The bounds, like the paper's theorems, are on each shift alone; they do not bound the distance between two models.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from .softmax_loss import Data, Weights, prediction

Scalar = Float[Array, ""]
Number = float | Scalar

_P = (15 - 33**0.5) / 24
LARGEST_CURVATURE = 4 * _P**2 * (1 - _P) * (2 - 3 * _P)
"""0.30812, the largest ‖D² + N‖ there seems to be for targets in the simplex (so ‖∇²L‖ ≤ 0.30812‖A‖²).

Two words attain it: 4p²(1−p)(2−3p) at its maximum in p, the probability of the word that is not the target. The norm is
convex in b, so that targets at corners suffice; that more words never exceed it is observed by numerical search, not
proved.
"""


def spectral_norm(matrix: Float[Array, "row col"]) -> Scalar:
    """The largest singular value of a matrix (row, col).

    >>> round(float(spectral_norm(jnp.array([[3.0, 0.0], [0.0, 4.0]]))), 6)
    4.0
    """
    return jnp.linalg.norm(matrix, 2)


def weight_shift_bound(data: Data, change: Weights) -> Scalar:
    """The tight bound on a shift of the weights: ‖f(A(x+Δx)) − f(Ax)‖ ≤ ½‖A‖‖Δx‖ for every x.

    It follows from ‖diag f − ffᵀ‖ ≤ ½; `tight_instance` attains it, so ½ cannot be lowered.

    Args:
        data: (word, dim) A.
        change: (dim) Δx.

    Returns:
        The bound.

    >>> round(float(weight_shift_bound(jnp.array([[3.0], [4.0]]), jnp.array([2.0]))), 6)
    5.0
    """
    return 0.5 * spectral_norm(data) * jnp.linalg.norm(change)


def data_shift_bound(weights: Weights, change: Data) -> Scalar:
    """The tight bound on a shift of the data: ‖f((A+ΔA)x) − f(Ax)‖ ≤ ½‖x‖‖ΔA‖ (spectral norm) for every A.

    Args:
        weights: (dim) x.
        change: (word, dim) ΔA.

    Returns:
        The bound.

    >>> round(float(data_shift_bound(jnp.array([2.0]), jnp.array([[3.0], [4.0]]))), 6)
    5.0
    """
    return 0.5 * jnp.linalg.norm(weights) * spectral_norm(change)


def hessian_bound(data: Data) -> Scalar:
    """A bound on the curvature of the loss, ‖∇²L‖ ≤ 1.25‖A‖², for a target in the simplex.

    Proved, and far from tight: see `LARGEST_CURVATURE`.

    Args:
        data: (word, dim) A.

    Returns:
        The bound.

    >>> round(float(hessian_bound(jnp.array([[2.0]]))), 6)
    5.0
    """
    return 1.25 * spectral_norm(data) ** 2


def log_paper_constant(context_len: Number, radius: Number) -> Scalar:
    """log M = 1.5 log n + 10R² of the constant M = n^{1.5} exp(10R²) in the paper's theorems, for norms ≤ R, R ≥ 4.

    In logs because M ≥ e^160. R/2 is enough in its place (`weight_shift_bound` with ‖A‖ ≤ R).

    Args:
        context_len: n, the number of words.
        radius: R.

    Returns:
        log M.

    >>> round(float(log_paper_constant(200, 4.0)), 3)
    167.947
    """
    return 1.5 * jnp.log(jnp.asarray(context_len, float)) + 10 * jnp.asarray(radius, float) ** 2


class ShiftReport(NamedTuple):
    """A shift of the target beside its bounds, in natural logs; −inf where nothing moved. See `weight_shift_report`.

    Args:
        log_measured: log ‖b̃ − b‖.
        log_tight: log of the tight bound.
        log_paper: log of the paper's bound.
    """

    log_measured: Scalar
    log_tight: Scalar
    log_paper: Scalar


def _report(
    moved: Float[Array, " word"], tight: Scalar, size: Scalar, data_norm: Scalar, weight_norm: Scalar
) -> ShiftReport:
    radius = jnp.maximum(jnp.maximum(data_norm, weight_norm), 4.0)
    paper = log_paper_constant(moved.shape[0], radius) + jnp.log(size)
    return ShiftReport(jnp.log(jnp.linalg.norm(moved)), jnp.log(tight), paper)


def weight_shift_report(data: Data, weights: Weights, new_weights: Weights) -> ShiftReport:
    """‖b̃ − b‖ of a weight shift x → x', beside its two bounds; R is the largest norm of A, x and x', at least 4.

    Args:
        data: (word, dim) A.
        weights: (dim) x.
        new_weights: (dim) x'.

    Returns:
        Logs of the shift and its bounds.

    >>> report = weight_shift_report(jnp.array([[1.0], [-1.0]]), jnp.zeros(1), jnp.ones(1))
    >>> bool(report.log_measured < report.log_tight < report.log_paper)
    True
    """
    change = new_weights - weights
    moved = prediction(data, weights) - prediction(data, new_weights)
    largest = jnp.maximum(jnp.linalg.norm(weights), jnp.linalg.norm(new_weights))
    tight = weight_shift_bound(data, change)
    return _report(moved, tight, jnp.linalg.norm(change), spectral_norm(data), largest)


def data_shift_report(data: Data, new_data: Data, weights: Weights) -> ShiftReport:
    """‖b̃ − b‖ of a data shift A → A', beside its two bounds; R is the largest norm of A, A' and x, at least 4.

    Args:
        data: (word, dim) A.
        new_data: (word, dim) A'.
        weights: (dim) x.

    Returns:
        Logs of the shift and its bounds; see `weight_shift_report` for an example.
    """
    change = new_data - data
    moved = prediction(data, weights) - prediction(new_data, weights)
    largest = jnp.maximum(spectral_norm(data), spectral_norm(new_data))
    tight = data_shift_bound(weights, change)
    return _report(moved, tight, spectral_norm(change), largest, jnp.linalg.norm(weights))


class TightInstance(NamedTuple):
    """Two words in one dimension that attain the factor ½ of both bounds; see `tight_instance`.

    Args:
        data, weights, new_weights: the shift of weights, A and x → x'.
        zero_data, unit, new_data: the shift of data, 0 → A' at the weight 1.
    """

    data: Float[Array, "2 1"]
    weights: Float[Array, " 1"]
    new_weights: Float[Array, " 1"]
    zero_data: Float[Array, "2 1"]
    unit: Float[Array, " 1"]
    new_data: Float[Array, "2 1"]


def tight_instance(radius: Number, size: Number) -> TightInstance:
    """Where both bounds are attained in the limit of a small shift, so that ½ cannot be lowered.

    Weights: A = [r; −r], x = 0 → s. Data: A = 0 → s·[r; −r] at x = 1 (at x = 0 data do not matter). In both,
    measured/bound = tanh(rs)/(rs) → 1.

    Args:
        radius: r.
        size: s.

    Returns:
        Both instances.

    >>> case = tight_instance(1.0, 0.5)
    >>> report = weight_shift_report(case.data, case.weights, case.new_weights)
    >>> round(float(jnp.exp(report.log_measured - report.log_tight)), 4)  # tanh(1/2)/(1/2)
    0.9242
    """
    column = jnp.asarray(radius, float) * jnp.array([[1.0], [-1.0]])
    zero, one = jnp.zeros(1), jnp.ones(1)
    return TightInstance(column, zero, size * one, jnp.zeros((2, 1)), one, size * column)


class StepInstance(NamedTuple):
    """One document of two words and the weights a gradient step starts from."""

    data: Float[Array, "2 1"]
    target: Float[Array, " 2"]
    weights: Float[Array, " 1"]


def tight_step(radius: float | Float[Array, ""]) -> StepInstance:
    """Where (ηR²/4)‖f − b‖ is attained in the limit of a small η, so that ¼ cannot be lowered.

    A = [r; −r], x = 0, b = (1, 0): the softmax is flat, so ‖Dc‖ = ½‖c‖, and c lies along A. For a step of length η,
    measured/bound = tanh(ηr²/2)/(ηr²/2) → 1.
    """
    column = jnp.asarray(radius, float) * jnp.array([[1.0], [-1.0]])
    return StepInstance(column, jnp.array([1.0, 0.0]), jnp.zeros(1))


def sharpest_curvature(radius: float | Float[Array, ""]) -> StepInstance:
    """Where ‖∇²L‖ = `LARGEST_CURVATURE` ‖A‖²: the word that is not the target has the probability (15 − √33)/24."""
    column = jnp.asarray(radius, float) * jnp.array([[1.0], [-1.0]])
    weights = jnp.log(_P / (1 - _P)) / (2 * jnp.asarray(radius, float)) * jnp.ones(1)
    return StepInstance(column, jnp.array([0.0, 1.0]), weights)
