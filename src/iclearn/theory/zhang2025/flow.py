"""Gradient flow of the reduced models under the population loss, and what it conserves.

The equations are written out, not obtained by differentiating a loss: that they are its gradient is a test.
"""

from __future__ import annotations

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.errors import IclearnError
from .population import check_sizes, force
from .weights import MergedWeights, SeparateWeights

MAX_STEPS = 1_000_000
_WeightsT = TypeVar("_WeightsT", MergedWeights, SeparateWeights)


def velocity(
    weights: _WeightsT, covariance: Float[Array, "dim dim"], context_len: float, *, gain: float = 1.0
) -> _WeightsT:
    """τ dθ/dt of every weight. With F = g Λ² − g² E[Λ̂²] W Λ:

    merged:            v̇_h = tr(U_hᵀ F),              U̇_h = v_h F
    separate (14a-c):  v̇_h = Σ_r k_{h,r}ᵀ F q_{h,r},  k̇_{h,r} = v_h F q_{h,r},  q̇_{h,r} = v_h Fᵀ k_{h,r}
    """
    drive = force(weights.effective(), jnp.asarray(covariance), context_len, gain)
    if isinstance(weights, MergedWeights):
        return MergedWeights(jnp.einsum("hji,ij->h", weights.kq, drive), weights.value[:, None, None] * drive.T[None])
    value = weights.value[:, None, None]
    return SeparateWeights(
        jnp.einsum("hri,ij,hrj->h", weights.key, drive, weights.query),
        value * (weights.query @ drive.T),
        value * (weights.key @ drive),
    )


def _field(_: Any, weights: Any, args: tuple[Array, Array, Array]) -> Any:
    covariance, context_len, gain = args
    return velocity(weights, covariance, context_len, gain=gain)  # type: ignore[arg-type]


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

    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Dopri8(),
        t0=0.0,
        t1=times[-1],
        dt0=None,
        y0=start,
        args=args,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
        max_steps=MAX_STEPS,
        adjoint=diffrax.ForwardMode(),
        throw=False,
    )
    return solution.ys, solution.result, solution.stats["num_steps"]


def check_times(times: np.ndarray | Array) -> Float[Array, " time"]:
    """Times as a float array; they must increase from 0 or later and the last must be positive."""
    array = np.asarray(times, float)
    if array.ndim != 1 or len(array) == 0 or array[0] < 0 or (np.diff(array) < 0).any() or not array[-1] > 0:
        raise IclearnError("times must be a list of increasing numbers, the first at least 0 and the last positive")
    return jnp.asarray(array)


def gradient_flow(
    weights: _WeightsT,
    covariance: np.ndarray | Array,
    context_len: float,
    times: np.ndarray | Array,
    *,
    gain: float = 1.0,
    rtol: float = 1e-9,
    atol: float = 1e-13,
) -> _WeightsT:
    """The weights at `times` (t/τ) under gradient flow from `weights` at time 0: a leading time axis.

    The flow is that of the whole reduced model, all heads interacting; no theory of plateaus enters.

    Args:
        rtol, atol: tolerances of the integrator. Keep `atol` well below the initial weights.
    """
    check_sizes(context_len, gain)
    covariance = jnp.asarray(covariance, float)
    args = (covariance, jnp.asarray(float(context_len)), jnp.asarray(float(gain)))
    return integrate(_field, weights, args, check_times(times), rtol, atol)


def conserved_merged(weights: MergedWeights) -> Float[Array, "*time head head"]:
    """w₂w₂ᵀ − W₁W₁ᵀ of the equal two-layer network: v_h v_g − ⟨U_h, U_g⟩, constant under gradient flow."""
    outer = jnp.einsum("...h,...g->...hg", weights.value, weights.value)
    return outer - jnp.einsum("...hji,...gji->...hg", weights.kq, weights.kq)


def conserved_separate(
    weights: SeparateWeights,
) -> tuple[Float[Array, "*time head"], Float[Array, "*time head rank rank"]]:
    """v_h² − Σ_r ‖k_{h,r}‖² per head, and k_{h,r}·k_{h,s} − q_{h,r}·q_{h,s} per pair of pairs: constant.

    The diagonal of the second is the paper's ‖k_{h,r}‖² − ‖q_{h,r}‖²; the rest is conserved just as well.
    """
    keys = jnp.einsum("...hri,...hsi->...hrs", weights.key, weights.key)
    queries = jnp.einsum("...hri,...hsi->...hrs", weights.query, weights.query)
    return weights.value**2 - jnp.trace(keys, axis1=-2, axis2=-1), keys - queries


def random_merged(dim: int, num_heads: int, init: float, seed: int) -> MergedWeights:
    """Random merged weights to try the theory on: all N(0, init²)."""
    keys = jax.random.split(jax.random.key(seed))
    kq = init * jax.random.normal(keys[1], (num_heads, dim, dim), float)
    return MergedWeights(init * jax.random.normal(keys[0], (num_heads,), float), kq)


def random_separate(dim: int, num_heads: int, rank: int, init: float, seed: int) -> SeparateWeights:
    """Random separate weights to try the theory on: v N(0, init²), entries of k and q N(0, init²/(R(D+1)))."""
    keys = jax.random.split(jax.random.key(seed), 3)
    shape, scale = (num_heads, rank, dim), init / (rank * (dim + 1)) ** 0.5
    return SeparateWeights(
        init * jax.random.normal(keys[0], (num_heads,), float),
        scale * jax.random.normal(keys[1], shape, float),
        scale * jax.random.normal(keys[2], shape, float),
    )
