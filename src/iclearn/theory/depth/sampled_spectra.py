"""The best scalar models over a sample of spectra of S, for inputs whose moments are not Wishart's (oswald2023).

For w ~ N(0, I) and any law of inputs with E x xᵀ = v I the loss of a scalar model is v E tr ρ_L(S)², over the
spectrum of S = (1/N) Σ x xᵀ. Here the expectation is a mean over a fixed sample of spectra, with its standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from ...core.checks import check_int, require
from .spectral import gdpp_residual


class SampledBest(NamedTuple):
    """The best scalar model over a sample of spectra.

    Args:
        loss: the mean of tr ρ² over the sample.
        error: its standard error.
        steps: η_1, …, η_L.
        curvature: γ_1, …, γ_L; empty for gradient descent.
    """

    loss: float
    error: float
    steps: tuple[float, ...]
    curvature: tuple[float, ...] = ()


@lru_cache(maxsize=4)
def uniform_spectra(dim: int, context_len: int, count: int, input_range: float = 1.0, seed: int = 0) -> np.ndarray:
    """Eigenvalues of S for `count` prompts with inputs U(−r/2, r/2)^d.

    Args:
        dim: d.
        context_len: N.
        count: how many prompts.
        input_range: r.
        seed: of the draws.

    Returns:
        (count, dim) the eigenvalues, not to be written to.

    >>> spectra = uniform_spectra(4, 6, 5000)
    >>> abs(float(spectra.sum(1).mean()) - 4 / 12) < 0.005  # E tr S = d r²/12
    True
    """
    check_int("count", count, 1)
    rng, parts = np.random.default_rng(seed), []
    for begin in range(0, count, 50_000):
        x = input_range * (rng.random((min(50_000, count - begin), context_len, dim)) - 0.5)
        parts.append(np.linalg.eigvalsh(x.swapaxes(1, 2) @ x / context_len))
    found = np.concatenate(parts)
    found.flags.writeable = False
    return found


def sampled_loss(spectra: np.ndarray, steps: Sequence[float], curvature: Sequence[float] = ()) -> SampledBest:
    """The loss of gradient descent or GD++ with given steps over a sample of spectra.

    Args:
        spectra: (prompt, dim) eigenvalues of S.
        steps: η_1, …, η_L.
        curvature: γ_1, …; missing ones are 0.

    Returns:
        Mean and standard error of tr ρ², and the steps.

    >>> sampled_loss(np.array([[1.0, 0.5], [0.5, 0.5]]), [1.0]).loss
    0.375
    """
    each = np.sum(gdpp_residual(spectra, steps, curvature) ** 2, -1)
    error = float(each.std(ddof=1) / np.sqrt(len(each)))
    return SampledBest(float(each.mean()), error, tuple(map(float, steps)), tuple(map(float, curvature)))


def sampled_tied_descent(spectra: np.ndarray, layers: int) -> SampledBest:
    """The best gradient descent with one step size: a looped layer.

    Args:
        spectra: (prompt, dim) eigenvalues of S.
        layers: L.

    Returns:
        The minimum; the loss is convex in the step size.

    >>> best = sampled_tied_descent(np.array([[1.0], [0.5]]), 1)  # E s/E s² = .75/.625
    >>> round(best.steps[0], 6)
    1.2
    """
    check_int("layers", layers, 1)
    top = 4 / float(spectra.mean())
    found = minimize_scalar(
        lambda a: sampled_loss(spectra, [a] * layers).loss, bounds=(0.0, top), method="bounded", options={"xatol": 1e-8}
    )
    return sampled_loss(spectra, [float(found.x)] * layers)  # type: ignore[attr-defined]


def sampled_krylov(spectra: np.ndarray, degree: int) -> SampledBest:
    """The best gradient descent with a step size for every layer, which is the best polynomial filter of a degree.

    Args:
        spectra: (prompt, dim) eigenvalues of S.
        degree: L.

    Returns:
        The minimum, its steps increasing; see `krylov`.

    >>> best = sampled_krylov(np.array([[1.0, 0.5], [0.5, 1.0]]), 2)  # two eigenvalues, two steps: nothing is left
    >>> round(best.loss, 12), [round(step, 9) for step in best.steps]
    (0.0, [1.0, 2.0])
    """
    check_int("degree", degree, 1)
    unit = float(spectra.mean())  # moments of s/unit are of order one
    moments = np.array([np.mean(np.sum((spectra / unit) ** k, -1)) for k in range(2 * degree + 1)])
    table = np.array([[moments[i + j + 2] for j in range(degree)] for i in range(degree)])
    c = np.linalg.solve(table, moments[1 : degree + 1])
    roots = np.roots([*(-c[::-1]), 1.0])
    require(bool(np.all(np.abs(roots.imag) < 1e-6)), "the sample is too small: the best filter has complex roots")
    return sampled_loss(spectra, sorted(float(1 / (unit * root)) for root in roots.real))


def sampled_tied_gdpp(spectra: np.ndarray, layers: int, few: int = 5_000) -> SampledBest:
    """The best looped GD++ layer found from a grid of starts.

    Args:
        spectra: (prompt, dim) eigenvalues of S.
        layers: L ≥ 2.
        few: spectra of the first search, whose best point is refined over all of them.

    Returns:
        The minimum; `steps` and `curvature` repeat η and γ.
    """
    check_int("layers", layers, 2)
    unit = float(spectra.mean())

    def of(sample: np.ndarray) -> Callable[[np.ndarray], float]:
        def value(p: np.ndarray) -> float:
            with np.errstate(all="ignore"):
                height = sampled_loss(sample, [p[0] / unit] * layers, [p[1] / unit] * layers).loss
            return float(np.log(height)) if np.isfinite(height) else 1e3

        return value

    starts = [(eta, gamma) for eta in (0.6, 1.2, 1.8, 2.6) for gamma in (0.05, 0.15, 0.25)]
    first = min((minimize(of(spectra[:few]), s, method="Nelder-Mead") for s in starts), key=lambda found: found.fun)
    last = minimize(of(spectra), first.x, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10})
    eta, gamma = (float(v) / unit for v in last.x)
    return sampled_loss(spectra, [eta] * layers, [gamma] * layers)
