"""Gradient flow of the reduced models under the population loss, and what it conserves.

The equations are written out rather than obtained by differentiating a loss; a test compares the two.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.errors import IclearnError
from .population import Matrix, Number, Size, check_sizes, force
from .weights import MergedWeights, SeparateWeights

MAX_STEPS = 1_000_000
_WeightsT = TypeVar("_WeightsT", MergedWeights, SeparateWeights)


def velocity(
    weights: _WeightsT, covariance: Matrix, context_len: Number, *, gain: Number = 1.0, noise: Number = 0.0
) -> _WeightsT:
    """The time derivative of every weight under gradient flow, τ dθ/dt = −½ ∂L/∂θ.

    With F = g Λ² − g² E[β̂β̂ᵀ] W Λ (`force`):

    merged:            v̇_h = tr(U_hᵀ F),              U̇_h = v_h F
    separate (14a-c):  v̇_h = Σ_r k_{h,r}ᵀ F q_{h,r},  k̇_{h,r} = v_h F q_{h,r},  q̇_{h,r} = v_h Fᵀ k_{h,r}

    Args:
        weights: `MergedWeights` or `SeparateWeights`, without a time axis.
        covariance: (dim, dim) Λ.
        context_len: N.
        gain: g, see `gain_of`.
        noise: σ², see `second_moment`.

    Returns:
        The derivatives, in the shape of the weights.

    >>> velocity(MergedWeights(jnp.ones(1), jnp.zeros((1, 1, 1))), np.eye(1) / 2, 31).kq.tolist()  # v λ²
    [[[0.25]]]
    """
    drive = force(weights.effective(), jnp.asarray(covariance), context_len, gain, noise)
    value = weights.value[:, None, None]
    if isinstance(weights, MergedWeights):
        return MergedWeights(jnp.einsum("hji,ij->h", weights.kq, drive), value * drive.T[None])
    pulled = jnp.einsum("hri,ij,hrj->h", weights.key, drive, weights.query)
    return SeparateWeights(pulled, value * (weights.query @ drive.T), value * (weights.key @ drive))


def _field(_: Any, weights: Any, args: tuple[Array, Array, Array, Array]) -> Any:
    covariance, context_len, gain, noise = args
    return velocity(weights, covariance, context_len, gain=gain, noise=noise)


def integrate(field: Any, start: Any, args: Any, times: Float[Array, " time"], rtol: Any, atol: Any) -> Any:
    """The solution of dy/dt = field(t, y, args), y(0) = start, at increasing `times` (diffrax, adaptive)."""
    import diffrax  # a second of import time that only flows need

    path, result, steps = _integrate(field, start, args, times, jnp.asarray(rtol), jnp.asarray(atol))
    if not bool(result == diffrax.RESULTS.successful):
        raise IclearnError(
            f"the flow up to time {float(times[-1]):g} did not finish in {int(steps)} solver steps: "
            "ask for a shorter time, or a larger rtol"
        )
    return path


@eqx.filter_jit
def _integrate(field: Any, start: Any, args: Any, times: Array, rtol: Array, atol: Array) -> tuple[Any, Any, Array]:
    import diffrax

    term, rule = diffrax.ODETerm(field), diffrax.Dopri8()
    how = {"saveat": diffrax.SaveAt(ts=times), "stepsize_controller": diffrax.PIDController(rtol=rtol, atol=atol)}
    limits = {"max_steps": MAX_STEPS, "adjoint": diffrax.ForwardMode(), "throw": False}
    solution = diffrax.diffeqsolve(term, rule, 0.0, times[-1], None, start, args, **how, **limits)
    return solution.ys, solution.result, solution.stats["num_steps"]


def check_times(times: np.ndarray | Array) -> Float[Array, " time"]:
    """Times as a float array; they must increase from 0 or later and the last must be positive."""
    array = np.asarray(times, float)
    if array.ndim != 1 or len(array) == 0 or array[0] < 0 or (np.diff(array) < 0).any() or not array[-1] > 0:
        raise IclearnError("times must be a list of increasing numbers, the first at least 0 and the last positive")
    return jnp.asarray(array)


def gradient_flow(
    weights: _WeightsT,
    covariance: Matrix,
    context_len: Size,
    times: np.ndarray | Array,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
    rtol: float = 1e-9,
    atol: float = 1e-13,
) -> _WeightsT:
    """The weights over time under gradient flow of the population loss (`velocity`), integrated numerically.

    The flow is that of the whole reduced model, all heads interacting; no theory of plateaus enters.

    Args:
        weights: at time 0.
        covariance: (dim, dim) Λ.
        context_len: N.
        times: (time) t/τ, increasing.
        gain: g, see `gain_of`.
        noise: σ², see `second_moment`.
        rtol, atol: tolerances of the integrator. Keep `atol` well below the initial weights.

    Returns:
        The weights with a leading time axis.

    >>> start = random_merged(dim=2, num_heads=1, init=0.1, seed=0)
    >>> path = gradient_flow(start, np.eye(2) / 2, 31, np.array([0.0, 100.0]))
    >>> round(float(path.effective()[1, 0, 0]), 3)  # (11): 1/(λ a) = 1/(0.5 + 1.5/31)
    1.824
    """
    check_sizes(context_len, gain, noise)
    args = (jnp.asarray(covariance, float), *(jnp.asarray(float(v)) for v in (context_len, gain, noise)))
    return integrate(_field, weights, args, check_times(times), rtol, atol)


def conserved_merged(weights: MergedWeights) -> Float[Array, "*time head head"]:
    """What gradient flow of merged attention keeps constant: v_h v_g − ⟨U_h, U_g⟩ for every two heads.

    It is w₂w₂ᵀ − W₁W₁ᵀ of the two-layer linear network that merged attention is. By `velocity`,
    d(v_h v_g)/dt = v_g tr(U_hᵀF) + v_h tr(U_gᵀF) = d⟨U_h, U_g⟩/dt.

    Args:
        weights: with any leading axes.

    Returns:
        (…, head, head).

    >>> conserved_merged(MergedWeights(jnp.array([2.0]), jnp.ones((1, 1, 1)))).tolist()
    [[3.0]]
    """
    outer = jnp.einsum("...h,...g->...hg", weights.value, weights.value)
    return outer - jnp.einsum("...hji,...gji->...hg", weights.kq, weights.kq)


def conserved_separate(
    weights: SeparateWeights,
) -> tuple[Float[Array, "*time head"], Float[Array, "*time head rank rank"]]:
    """What gradient flow of separate attention keeps constant, by (14a-c).

    The diagonal of the second is the paper's ‖k_{h,r}‖² − ‖q_{h,r}‖²; the other entries are conserved just as well.

    Args:
        weights: with any leading axes.

    Returns:
        v_h² − Σ_r ‖k_{h,r}‖² for each head (…, head), and k_{h,r}·k_{h,s} − q_{h,r}·q_{h,s} for every two pairs of a
        head (…, head, rank, rank).

    >>> pair = jnp.ones((1, 1, 1))
    >>> [part.tolist() for part in conserved_separate(SeparateWeights(jnp.array([2.0]), pair, 2 * pair))]
    [[3.0], [[[-3.0]]]]
    """
    keys = jnp.einsum("...hri,...hsi->...hrs", weights.key, weights.key)
    queries = jnp.einsum("...hri,...hsi->...hrs", weights.query, weights.query)
    return weights.value**2 - jnp.trace(keys, axis1=-2, axis2=-1), keys - queries


def random_merged(dim: int, num_heads: int, init: float, seed: int) -> MergedWeights:
    """Random merged weights to try the theory on: every entry N(0, init²).

    Args:
        dim: D.
        num_heads: H.
        init: standard deviation.
        seed: of the random numbers.

    Returns:
        Weights with axes (head) and (head, dim, dim).

    >>> random_merged(4, 3, 0.01, seed=0).kq.shape
    (3, 4, 4)
    """
    keys = jax.random.split(jax.random.key(seed))
    kq = init * jax.random.normal(keys[1], (num_heads, dim, dim), float)
    return MergedWeights(init * jax.random.normal(keys[0], (num_heads,), float), kq)


def random_separate(dim: int, num_heads: int, rank: int, init: float, seed: int) -> SeparateWeights:
    """Random separate weights to try the theory on: v_h N(0, init²), entries of k and q N(0, init²/(R(D+1))).

    Args:
        dim: D.
        num_heads: H.
        rank: R.
        init: standard deviation of the values.
        seed: of the random numbers.

    Returns:
        Weights with axes (head) and, for keys and queries, (head, rank, dim).

    >>> random_separate(4, 5, 2, 0.01, seed=0).key.shape
    (5, 2, 4)
    """
    keys = jax.random.split(jax.random.key(seed), 3)
    shape, scale = (num_heads, rank, dim), init / (rank * (dim + 1)) ** 0.5
    value = init * jax.random.normal(keys[0], (num_heads,), float)
    return SeparateWeights(value, *(scale * jax.random.normal(key, shape, float) for key in keys[1:]))
