"""The best scalar models of L layers: Krylov polynomials, tied gradient descent, and the minima of GD++."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq, minimize

from ...core.checks import check_int
from ...core.jax_settings import small_work
from ...tasks.wishart_spectrum import spectral_quadrature
from .spectral import gdpp_gain, nodes_needed
from .wishart import recursion_moments


class Best(NamedTuple):
    """A minimum of the population loss.

    Args:
        loss: its height.
        steps: a_1, …, a_L.
        curvature: γ_1, …, γ_{L−1}; of tied models as many as there are layers, all the same.
    """

    loss: float
    steps: tuple[float, ...]
    curvature: tuple[float, ...] = ()


@lru_cache(maxsize=256)
def krylov(dim: int, context_len: int, degree: int) -> Best:
    """The best polynomial filter of a degree, which is the best gradient descent with a step size for every layer.

    ρ*(s) = 1 − Σ_{i<L} c_i s^{i+1}, H c = b with H_ij = m_{i+j+2}, b_i = m_{i+1}, and loss m_0 − b·c. Its roots are
    positive and distinct, and the steps are their inverses, in any order. No scalar model whose ρ has this degree can
    do better, GD++ included. Solved in fractions.

    Args:
        dim: d.
        context_len: N.
        degree: L.

    Returns:
        The loss and the steps, increasing.

    >>> best = krylov(5, 20, 2)
    >>> round(best.loss, 7), [round(a, 6) for a in best.steps]
    (0.3612397, [0.515371, 1.249572])
    """
    check_int("degree", degree, 1)
    m = recursion_moments(dim, context_len, 2 * degree + 1)
    table = [[m[i + j + 2] for j in range(degree)] + [m[i + 1]] for i in range(degree)]
    c = _solve(table)
    loss = m[0] - sum(m[i + 1] * c[i] for i in range(degree))
    roots = np.roots([-float(v) for v in reversed(c)] + [1.0])
    return Best(float(loss), tuple(sorted(float(1 / root.real) for root in roots)))


def _solve(rows: list[list[Fraction]]) -> list[Fraction]:
    """The solution of a linear system given with its right-hand side, by elimination (H is positive definite)."""
    size = len(rows)
    for k in range(size):
        rows[k] = [value / rows[k][k] for value in rows[k]]
        for r in range(size):
            if r != k:
                rows[r] = [a - rows[r][k] * b for a, b in zip(rows[r], rows[k], strict=True)]
    return [row[-1] for row in rows]


@lru_cache(maxsize=256)
def tied_descent(dim: int, context_len: int, layers: int) -> Best:
    """min_a E tr (I − a S)^{2L}: gradient descent with one step size, which is a looped layer.

    The loss is convex in a.

    Args:
        dim: d.
        context_len: N.
        layers: L.

    Returns:
        The loss and the step size.

    >>> best = tied_descent(5, 20, 2)
    >>> round(best.loss, 6), round(best.steps[0], 5)
    (0.499007, 0.74252)
    """
    check_int("layers", layers, 1)
    s, weights = spectral_quadrature(dim, context_len, layers + 1)

    def slope(a: float) -> float:
        return float(weights @ (-2 * layers * s * (1 - a * s) ** (2 * layers - 1)))

    a = float(brentq(slope, 0.0, 2.0, xtol=1e-15, rtol=1e-14))  # type: ignore[arg-type]
    return Best(float(weights @ (1 - a * s) ** (2 * layers)), (a,) * layers)


def gdpp_loss(
    dim: int, context_len: int, steps: Sequence[float], curvature: Sequence[float], noise: float = 0.0
) -> float:
    """The population loss of GD++.

    Args:
        dim: d.
        context_len: N.
        steps: a_1, …, a_L.
        curvature: γ_1, …; missing ones are 0.
        noise: σ² on the context's labels.

    Returns:
        The loss, exactly (quadrature).

    >>> round(gdpp_loss(5, 20, (0.516762, 3.474664), (0.448787,)), 8)
    0.05750115
    """
    rule = spectral_quadrature(dim, context_len, nodes_needed(len(steps), curvature=True))
    gain = gdpp_gain(rule.nodes, steps, curvature)
    return float(rule.weights @ ((1 - rule.nodes * gain) ** 2 + noise / context_len * rule.nodes * gain**2))


@lru_cache(maxsize=64)
def _functions(dim: int, context_len: int, layers: int, tied: bool, noise: float) -> tuple[Any, Any, Any]:
    """log loss with its gradient, and loss with its Hessian, of log-free parameters (steps, curvature)."""
    rule = spectral_quadrature(dim, context_len, nodes_needed(layers, curvature=True))
    s, weights = jnp.asarray(rule.nodes), jnp.asarray(rule.weights)

    def loss(p: jax.Array) -> jax.Array:
        steps, curvature = _unpack(p, layers, tied)
        gain: Any = gdpp_gain(s, steps, curvature)
        return weights @ ((1 - s * gain) ** 2 + noise / context_len * s * gain**2)

    return jax.jit(jax.value_and_grad(lambda p: jnp.log(loss(p)))), jax.jit(jax.grad(loss)), jax.jit(jax.hessian(loss))


def _unpack(p: Any, layers: int, tied: bool) -> tuple[list[Any], list[Any]]:
    if tied:
        return [p[0]] * layers, [p[1]] * layers
    return [p[i] for i in range(layers)], [p[layers + i] for i in range(layers - 1)]


@small_work()
def gdpp_minimum(
    dim: int, context_len: int, start: Sequence[float], layers: int, *, tied: bool = False, noise: float = 0.0
) -> Best:
    """The minimum of the population loss of GD++ that is reached from a starting point.

    BFGS on log loss, then Newton's method.

    Args:
        dim: d.
        context_len: N.
        start: a_1, …, a_L, γ_1, …, γ_{L−1}; for a tied model (η, γ).
        layers: L.
        tied: one step and one curvature for all layers.
        noise: σ² on the context's labels.

    Returns:
        The minimum.

    >>> best = gdpp_minimum(5, 20, (0.5, 3.0, 0.4), 2)
    >>> round(best.loss, 8), round(best.curvature[0], 6)
    (0.05750115, 0.448787)
    """
    value, gradient, hessian = _functions(dim, context_len, layers, tied, noise)
    with np.errstate(all="ignore"):
        found = minimize(
            lambda p: tuple(np.asarray(v) for v in value(p)), np.asarray(start, float), jac=True, method="BFGS"
        )
    p = np.asarray(found.x)
    for _ in range(5):
        full = np.asarray(hessian(p))
        if np.linalg.eigvalsh(full)[0] <= 0:
            break
        p = p - np.linalg.solve(full, np.asarray(gradient(p)))
    steps, curvature = _unpack(p, layers, tied)
    height = float(np.exp(value(p)[0]))
    return Best(height, tuple(map(float, steps)), tuple(map(float, curvature)))


@small_work()
def gdpp_minima(
    dim: int, context_len: int, layers: int, *, restarts: int = 40, seed: int = 0, noise: float = 0.0
) -> tuple[Best, ...]:
    """Strict local minima of the population loss of GD++ with positive steps, from random starts.

    Args:
        dim: d.
        context_len: N.
        layers: L.
        restarts: how many starts, log-uniform.
        seed: of the starts.
        noise: σ² on the context's labels.

    Returns:
        The different minima, the lowest first; the list may be incomplete.
    """
    rng = np.random.default_rng(seed)
    _, gradient, hessian = _functions(dim, context_len, layers, False, noise)
    minima: list[Best] = []
    for _ in range(restarts):
        steps = np.exp(rng.uniform(np.log(0.2), np.log(3.0), layers)) * 1.5 ** np.arange(layers)
        start = np.concatenate([steps, rng.uniform(0.0, 0.6, layers - 1) * steps[:-1]])
        best = gdpp_minimum(dim, context_len, start.tolist(), layers, noise=noise)
        p = np.array([*best.steps, *best.curvature])
        if not np.isfinite(p).all() or min(best.steps) <= 0:
            continue
        flat = np.abs(np.asarray(gradient(p))).max() < 1e-6 * best.loss
        new = all(abs(best.loss / other.loss - 1) > 1e-6 for other in minima)
        if flat and new and np.linalg.eigvalsh(np.asarray(hessian(p)))[0] > 0:
            minima.append(best)
    return tuple(sorted(minima))


@lru_cache(maxsize=64)
def tied_gdpp(dim: int, context_len: int, layers: int) -> Best:
    """The best looped GD++ layer found from a grid of starts.

    Args:
        dim: d.
        context_len: N.
        layers: L ≥ 2.

    Returns:
        The minimum; `steps` and `curvature` repeat η and γ.

    >>> best = tied_gdpp(5, 20, 2)
    >>> round(best.loss, 6), round(best.steps[0], 4), round(best.curvature[0], 4)
    (0.118725, 1.4914, 0.205)
    """
    check_int("layers", layers, 2)
    starts = [(eta, gamma) for eta in (1.0, 1.5, 2.0, 2.5) for gamma in (0.1, 0.2)]
    return min(gdpp_minimum(dim, context_len, start, layers, tied=True) for start in starts)
