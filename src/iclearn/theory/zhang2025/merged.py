"""Attention with merged keys and queries: two fixed points and one drop (zhang2025, (9)-(11))."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.errors import IclearnError
from .flow import check_times
from .population import Size, Spectrum, check_sizes, columns, inflation, spectrum
from .saddles import fixed_point_weights, pcr_matrix
from .weights import MergedWeights


def merged_fixed_points(
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices W can rest at (9), (11): 0, and the optimum W* = (Λ + (Λ + (tr Λ + σ²) I)/N)⁻¹/g.

    Args:
        eigenvalues: (dim) of Λ.
        context_len: N.
        basis: (dim, dim) eigenvectors as columns (default: the axes).
        gain: g, see `gain_of`.
        noise: σ², see `inflation`.

    Returns:
        0 and W*, each (dim, dim).

    >>> merged_fixed_points([1.0, 1.0], 3)[1].tolist()  # 1/(1 + 3/3)
    [[0.5, 0.0], [0.0, 0.5]]
    """
    dim = len(spectrum(eigenvalues))
    best = pcr_matrix(dim, eigenvalues, context_len, basis=basis, gain=gain, noise=noise)
    return np.zeros_like(best), best


def merged_index_at_zero(num_heads: int) -> int:
    """The number of negative Hessian eigenvalues at zero weights: one per head, so zero is a strict saddle.

    There L = tr Λ − 2g Σ_h v_h ⟨Λ², U_h⟩ to second order, so v_h and the part of U_h along Λ² of each head are
    coupled, with the eigenvalues ∓2g‖Λ²‖_F.

    Args:
        num_heads: H.

    Returns:
        H.

    >>> merged_index_at_zero(8)
    8
    """
    return num_heads


def growing_modes(weights: MergedWeights, eigenvalues: Spectrum, *, basis: np.ndarray | None = None) -> np.ndarray:
    """The part of the initial weights of each head that grows: (v_h + u_h)/2, u_h = ⟨Λ², U_h⟩/‖Λ²‖_F.

    Near zero, v̇_h = g⟨Λ², U_h⟩ and U̇_h = g v_h Λ²: only v and the part u of U along the first singular direction
    Λ²/‖Λ²‖ are coupled, v + u grows as e^{g‖Λ²‖t} and v − u dies out.

    Args:
        weights: the initial ones, (head) and (head, dim, dim).
        eigenvalues: (dim) of Λ.
        basis: (dim, dim) eigenvectors as columns (default: the axes).

    Returns:
        (head) the modes.

    >>> import jax.numpy as jnp
    >>> growing_modes(MergedWeights(jnp.array([0.2]), jnp.array([[[0.4]]])), [1.0]).round(6).tolist()
    [0.3]
    """
    values = spectrum(eigenvalues)
    vectors = columns(basis, len(values))
    direction = vectors * (values**2 / np.linalg.norm(values**2)) @ vectors.T
    along = np.einsum("hji,ij->h", np.asarray(weights.kq), direction)
    return (np.asarray(weights.value) + along) / 2


def effective_init(weights: MergedWeights, eigenvalues: Spectrum, *, basis: np.ndarray | None = None) -> float:
    """w_init of (10) for given initial weights: the norm over heads of `growing_modes`, ‖v + u‖/2.

    Then Σ v_h u_h → w_init² e^{2g‖Λ²‖t}, as (10) begins.

    Args:
        weights, eigenvalues, basis: see `growing_modes`.

    Returns:
        w_init.

    >>> import jax.numpy as jnp
    >>> round(effective_init(MergedWeights(jnp.array([0.2]), jnp.array([[[0.4]]])), [1.0]), 6)
    0.3
    """
    return float(np.linalg.norm(growing_modes(weights, eigenvalues, basis=basis)))


def typical_effective_init(init: float, num_heads: int) -> float:
    """The root mean square of `effective_init` over initial weights N(0, init²): init·√(H/2).

    Args:
        init: standard deviation of the initial weights.
        num_heads: H.

    Returns:
        w_init.

    >>> typical_effective_init(0.01, 8)
    0.02
    """
    return init * (num_heads / 2) ** 0.5


def is_white(eigenvalues: Spectrum) -> bool:
    """Whether all eigenvalues are equal (to rounding), so that (10) holds.

    Args:
        eigenvalues: (dim) of Λ.

    Returns:
        Whether they are.

    >>> is_white([0.5, 0.5]), is_white([0.6, 0.4])
    (True, False)
    """
    values = spectrum(eigenvalues)
    return bool(np.allclose(values, values[0], rtol=1e-12, atol=0))


def _check_init(w_init: float, fraction: float = 0.5) -> None:
    if not w_init > 0:
        raise IclearnError(f"w_init must be positive, not {w_init}")
    if not 0 < fraction < 1:
        raise IclearnError(f"fraction must lie between 0 and 1, not {fraction}")


def _white(eigenvalues: Spectrum, context_len: Size, gain: float, noise: float) -> tuple[float, float, float]:
    """λ², A and B of (10), for checked sizes."""
    check_sizes(context_len, gain, noise)
    values = spectrum(eigenvalues)
    if not is_white(values):
        raise IclearnError(
            f"formula (10) needs equal eigenvalues, not {values.tolist()}: merged_course takes any spectrum"
        )
    lam = float(values[0])
    return lam**2, lam**3 * inflation(eigenvalues, context_len, noise=noise)[0], lam**2 * len(values) ** 0.5


def white_course(
    times: np.ndarray,
    eigenvalues: Spectrum,
    context_len: Size,
    w_init: float,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
) -> np.ndarray:
    """σ(t) of W = σ(t) I for white covariance Λ = λI and vanishing initialization (10).

    σ(t) = λ² e^{2gBt/τ} / (g A (e^{2gBt/τ} − 1) + B/w_init²),  B = λ²√D, A = λ³(1 + (1 + D + σ²/λ)/N).

    Args:
        times: (time) t/τ.
        eigenvalues: (dim) of Λ, all equal; others are refused with `IclearnError`.
        context_len: N.
        w_init: size of the initial weights, see `effective_init`.
        gain: g, see `gain_of`.
        noise: the variance of the noise on the context labels, σ² in A.

    Returns:
        (time) σ.

    >>> white_course(np.array([0.0, 1e3]), [0.5, 0.5], 31, 0.01).round(4).tolist()
    [0.0001, 1.8235]
    """
    square, big_a, big_b = _white(eigenvalues, context_len, gain, noise)
    _check_init(w_init)
    decay = np.exp(-2 * gain * big_b * np.asarray(times, float))
    return square / (gain * big_a * (1 - decay) + big_b / w_init**2 * decay)


def white_drop_time(
    eigenvalues: Spectrum,
    context_len: Size,
    w_init: float,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
    fraction: float = 0.5,
) -> float:
    """When (10) has done a part of its drop in the loss, which is ∝ (1 − σ/σ(∞))².

    Args:
        eigenvalues, context_len, w_init, gain, noise: see `white_course`.
        fraction: the part of the drop.

    Returns:
        t/τ; 0 if (10) starts beyond.

    >>> round(white_drop_time([0.5, 0.5], 31, 0.01), 2)
    13.12
    """
    _, big_a, big_b = _white(eigenvalues, context_len, gain, noise)
    _check_init(w_init, fraction)
    share = 1 - (1 - fraction) ** 0.5
    start = gain * big_a * w_init**2 / big_b
    if start >= share:
        return 0.0
    return float(np.log(share * (1 - start) / ((1 - share) * start)) / (2 * gain * big_b))


def escape_time(eigenvalues: Spectrum, w_init: float, *, gain: float = 1.0) -> float:
    """How long merged attention stays on its plateau, to leading order: t/τ = ln(1/w_init)/(g‖Λ²‖_F).

    Args:
        eigenvalues: (dim) of Λ.
        w_init: size of the initial weights, see `effective_init`.
        gain: g, see `gain_of`.

    Returns:
        t/τ.

    >>> round(escape_time([0.5, 0.5], 0.01), 2)
    13.03
    """
    _check_init(w_init)
    return float(np.log(1 / w_init) / (gain * np.linalg.norm(spectrum(eigenvalues) ** 2)))


def _aligned(
    values: np.ndarray, context_len: Size, gain: float, noise: float, w_init: float
) -> tuple[Callable[[float, np.ndarray], np.ndarray], np.ndarray, np.ndarray]:
    """d/dt of (ψ, Ψ_1 … Ψ_D), see `merged_course`; their start; and the diagonal of W*."""
    optimum = fixed_point_weights(range(len(values)), values, context_len, gain=gain, noise=noise)

    def field(_: float, state: np.ndarray) -> np.ndarray:
        drive = gain * values**2 * (1 - state[0] * state[1:] / optimum)
        return np.append(drive @ state[1:], state[0] * drive)

    return field, w_init * np.append(1.0, values**2 / np.linalg.norm(values**2)), optimum


def merged_drop_time(
    eigenvalues: Spectrum,
    context_len: Size,
    w_init: float,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
    fraction: float = 0.5,
) -> float:
    """When merged attention has done a part of its drop in the loss, for any spectrum.

    Where Λ is white, from (10); else by following `merged_course` until the loss is there.

    Args:
        eigenvalues: (dim) of Λ.
        context_len, w_init, gain, noise, fraction: see `white_drop_time`.

    Returns:
        t/τ; 0 if it starts beyond.

    >>> round(merged_drop_time([0.6, 0.4], 31, 0.01), 2)
    11.83
    """
    from scipy.integrate import solve_ivp  # a fifth of a second of import time that not every run needs

    values = spectrum(eigenvalues)
    if is_white(values):
        return white_drop_time(values, context_len, w_init, gain=gain, noise=noise, fraction=fraction)
    _check_init(w_init, fraction)
    field, start, optimum = _aligned(values, context_len, gain, noise, w_init)
    share = values**2 * optimum / (values**2 @ optimum)  # of the whole drop, by eigenvector

    def left(_: float, state: np.ndarray) -> float:
        return float(share @ (1 - state[0] * state[1:] / optimum) ** 2 - (1 - fraction))

    left.terminal = True  # type: ignore[attr-defined]
    if left(0.0, start) <= 0:
        return 0.0
    path = solve_ivp(field, (0, np.inf), start, "DOP853", events=left, rtol=1e-10, atol=1e-12 * w_init)
    return float(path.t[-1])


def merged_course(
    times: np.ndarray,
    eigenvalues: Spectrum,
    context_len: Size,
    w_init: float,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The time course of merged attention from vanishing initialization, for any spectrum: ψ(t) and Ψ(t).

    All heads share one direction, v_h = c_h ψ and U_h = c_h Ψ with Σc_h² = 1, and Ψ is diagonal in the eigenbasis:
    ψ̇ = ⟨Ψ, F⟩, Ψ̇ = ψF, W = ψΨ, started on the growing mode ψ = w_init, Ψ = w_init Λ²/‖Λ²‖. For equal eigenvalues
    this is (10). Integrated numerically, to a relative 1e-10.

    Args:
        times: (time) t/τ, increasing.
        eigenvalues: (dim) of Λ.
        context_len, w_init, gain, noise: see `white_course`.

    Returns:
        ψ (time) and the diagonal of Ψ (time, dim); the diagonal of W is their product.

    >>> scale, diagonal = merged_course(np.array([0.0, 1e3]), [0.6, 0.4], 31, 0.01)
    >>> (scale[1] * diagonal[1]).round(4).tolist()  # the optimum (11)
    [1.5347, 2.2464]
    """
    from scipy.integrate import solve_ivp

    _check_init(w_init)
    values, times = spectrum(eigenvalues), np.asarray(check_times(times))
    field, start, _ = _aligned(values, context_len, gain, noise, w_init)
    path = solve_ivp(field, (0, times[-1]), start, "DOP853", t_eval=times, rtol=1e-10, atol=1e-2 * 1e-10 * w_init)
    return path.y[0], path.y[1:].T
