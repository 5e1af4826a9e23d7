"""Attention with merged keys and queries: two fixed points and one drop (zhang2025, (9)-(11))."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp

from ...core.errors import IclearnError
from .flow import check_times
from .population import Spectrum, check_sizes, inflation, spectrum
from .saddles import fixed_point_weights, pcr_matrix
from .weights import MergedWeights


def merged_fixed_points(
    eigenvalues: Spectrum, context_len: float, *, basis: np.ndarray | None = None, gain: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices W can rest at (9), (11): 0, and the optimum W* = (Λ + (Λ + tr(Λ) I)/N)⁻¹/g."""
    best = pcr_matrix(len(spectrum(eigenvalues)), eigenvalues, context_len, basis=basis, gain=gain)
    return np.zeros_like(best), best


def merged_index_at_zero(num_heads: int) -> int:
    """Negative Hessian eigenvalues at zero weights: one per head, −2g‖Λ²‖_F each. Zero is a strict saddle."""
    return num_heads


def growing_modes(weights: MergedWeights, eigenvalues: Spectrum, *, basis: np.ndarray | None = None) -> np.ndarray:
    """(v_h + u_h)/2 of each head, u_h = ⟨Λ², U_h⟩/‖Λ²‖_F: the part of the initial weights that grows.

    Near zero, v̇_h = g⟨Λ², U_h⟩ and U̇_h = g v_h Λ²: only v and the part u of U along the first singular
    direction Λ²/‖Λ²‖ are coupled, v + u grows as e^{g‖Λ²‖t} and v − u dies out.
    """
    values = spectrum(eigenvalues)
    vectors = np.eye(len(values)) if basis is None else np.asarray(basis, float)
    direction = vectors * (values**2 / np.linalg.norm(values**2)) @ vectors.T
    along = np.einsum("hji,ij->h", np.asarray(weights.kq), direction)
    return (np.asarray(weights.value) + along) / 2


def effective_init(weights: MergedWeights, eigenvalues: Spectrum, *, basis: np.ndarray | None = None) -> float:
    """w_init of (10) for given initial weights: ‖v + u‖/2, the size of the growing mode (see `growing_modes`).

    Then Σ v_h u_h → w_init² e^{2g‖Λ²‖t}, as (10) begins. Expected size for entries N(0, init²): init·√(H/2).
    """
    return float(np.linalg.norm(growing_modes(weights, eigenvalues, basis=basis)))


def typical_effective_init(init: float, num_heads: int) -> float:
    """Root mean square of w_init over initial weights N(0, init²): init·√(H/2)."""
    return init * (num_heads / 2) ** 0.5


def is_white(eigenvalues: Spectrum) -> bool:
    """Whether all eigenvalues are equal (to rounding)."""
    values = spectrum(eigenvalues)
    return bool(np.allclose(values, values[0], rtol=1e-12, atol=0))


def _white(eigenvalues: Spectrum) -> float:
    values = spectrum(eigenvalues)
    if not is_white(values):
        raise IclearnError(
            f"formula (10) needs equal eigenvalues, not {values.tolist()}: merged_course takes any spectrum"
        )
    return float(values[0])


def _check_init(w_init: float, fraction: float = 0.5) -> None:
    if not w_init > 0:
        raise IclearnError(f"w_init must be positive, not {w_init}")
    if not 0 < fraction < 1:
        raise IclearnError(f"fraction must lie between 0 and 1, not {fraction}")


def white_course(
    times: np.ndarray, eigenvalues: Spectrum, context_len: float, w_init: float, *, gain: float = 1.0
) -> np.ndarray:
    """σ(t) of W = σ(t) I for white covariance Λ = λI and vanishing initialization (10).

    σ(t) = λ² e^{2gBt/τ} / (g A (e^{2gBt/τ} − 1) + B/w_init²),  B = λ²√D, A = λ³(1 + (1 + D)/N).
    """
    check_sizes(context_len, gain)
    _check_init(w_init)
    lam, dim = _white(eigenvalues), len(spectrum(eigenvalues))
    big_b, big_a = lam**2 * dim**0.5, lam**3 * inflation(eigenvalues, context_len)[0]
    decay = np.exp(-2 * gain * big_b * np.asarray(times, float))
    return lam**2 / (gain * big_a * (1 - decay) + big_b / w_init**2 * decay)


def white_drop_time(
    eigenvalues: Spectrum, context_len: float, w_init: float, *, gain: float = 1.0, fraction: float = 0.5
) -> float:
    """When (10) has done `fraction` of its drop in the loss, ∝ (1 − σ/σ(∞))²; 0 if it starts beyond."""
    check_sizes(context_len, gain)
    _check_init(w_init, fraction)
    lam, dim = _white(eigenvalues), len(spectrum(eigenvalues))
    big_b, big_a = lam**2 * dim**0.5, lam**3 * inflation(eigenvalues, context_len)[0]
    share = 1 - (1 - fraction) ** 0.5
    start = gain * big_a * w_init**2 / big_b
    if start >= share:
        return 0.0
    return float(np.log(share * (1 - start) / ((1 - share) * start)) / (2 * gain * big_b))


def escape_time(eigenvalues: Spectrum, w_init: float, *, gain: float = 1.0) -> float:
    """τ/(g‖Λ²‖_F) · ln(1/w_init): how long merged attention stays on its plateau, to leading order."""
    _check_init(w_init)
    return float(np.log(1 / w_init) / (gain * np.linalg.norm(spectrum(eigenvalues) ** 2)))


def _aligned(values: np.ndarray, context_len: float, gain: float) -> Callable[[float, np.ndarray], np.ndarray]:
    """d/dt of (ψ, Ψ_1 … Ψ_D), see `merged_course`."""
    optimum = fixed_point_weights(range(len(values)), values, context_len, gain=gain)

    def field(_: float, state: np.ndarray) -> np.ndarray:
        drive = gain * values**2 * (1 - state[0] * state[1:] / optimum)
        return np.append(drive @ state[1:], state[0] * drive)

    return field


def _growing(values: np.ndarray, w_init: float) -> np.ndarray:
    return w_init * np.append(1.0, values**2 / np.linalg.norm(values**2))


def merged_drop_time(
    eigenvalues: Spectrum, context_len: float, w_init: float, *, gain: float = 1.0, fraction: float = 0.5
) -> float:
    """When merged attention has done `fraction` of its drop in the loss, for any spectrum; 0 if it starts beyond.

    Where Λ is white, from (10); else by following `merged_course` until the loss is there.
    """
    values = spectrum(eigenvalues)
    if is_white(values):
        return white_drop_time(values, context_len, w_init, gain=gain, fraction=fraction)
    _check_init(w_init, fraction)
    optimum = fixed_point_weights(range(len(values)), values, context_len, gain=gain)
    share = values**2 * optimum / (values**2 @ optimum)  # of the whole drop, by eigenvector

    def left(_: float, state: np.ndarray) -> float:
        return float(share @ (1 - state[0] * state[1:] / optimum) ** 2 - (1 - fraction))

    left.terminal = True  # type: ignore[attr-defined]
    start = _growing(values, w_init)
    if left(0.0, start) <= 0:
        return 0.0
    field = _aligned(values, context_len, gain)
    path = solve_ivp(field, (0, np.inf), start, "DOP853", events=left, rtol=1e-10, atol=1e-12 * w_init)
    return float(path.t[-1])


def merged_course(
    times: np.ndarray,
    eigenvalues: Spectrum,
    context_len: float,
    w_init: float,
    *,
    gain: float = 1.0,
    rtol: float = 1e-10,
) -> tuple[np.ndarray, np.ndarray]:
    """The time course of merged attention from vanishing initialization, for ANY spectrum: ψ(t) and Ψ(t).

    All heads share one direction, v_h = c_h ψ and U_h = c_h Ψ with Σc_h² = 1, and Ψ is diagonal in the
    eigenbasis: ψ̇ = ⟨Ψ, F⟩, Ψ̇ = ψF, W = ψΨ, started on the growing mode ψ = w_init, Ψ = w_init Λ²/‖Λ²‖.
    For equal eigenvalues this is (10). Returns ψ (time) and Ψ (time, dim); the diagonal of W is their
    product.
    """
    _check_init(w_init)
    values, times = spectrum(eigenvalues), np.asarray(check_times(times))
    path = solve_ivp(
        _aligned(values, context_len, gain),
        (0, times[-1]),
        _growing(values, w_init),
        "DOP853",
        t_eval=times,
        rtol=rtol,
        atol=1e-2 * rtol * w_init,
    )
    return path.y[0], path.y[1:].T
