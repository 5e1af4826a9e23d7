"""Basins of the minima of two layers of GD++: where the gradient flow of the population loss leads."""

from __future__ import annotations

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

from ...core.checks import require
from ...tasks.wishart_spectrum import spectral_quadrature
from .optima import Best, gdpp_minima

LONG = 3000.0  # of the flow: the slowest direction of a minimum decays as exp(−.2 t) in the loss
CLOSE = 0.02  # of a minimum's height, relative


class Minimum(NamedTuple):
    """A minimum of two layers of GD++ as a point in the space of weights.

    Args:
        loss: its height.
        weights: (4) a_1, a_2, b_1 = γ_1/a_1 and b_2, which does not matter (0 here).
        sharpness: largest eigenvalue of the Hessian in these weights: gradient descent stays only below 2/sharpness.
        slowest: the least eigenvalue but for that of b_2: near the minimum the loss falls as exp(−2 · slowest · time).
    """

    loss: float
    weights: np.ndarray
    sharpness: float
    slowest: float


def _loss(dim: int, context_len: int):
    rule = spectral_quadrature(dim, context_len, 5)
    s, share = jnp.asarray(rule.nodes), jnp.asarray(rule.weights)

    def loss(p: jax.Array) -> jax.Array:
        turned = 1 - p[0] * p[2] * s  # t_1
        left = (1 - p[0] * s) * (1 - p[1] * s * turned**2)
        return share @ left**2

    return loss


def two_layer_minima(dim: int, context_len: int, restarts: int = 60) -> tuple[Minimum, ...]:
    """The minima of two layers of GD++ with their sharpness, the lowest first.

    Args:
        dim: d.
        context_len: N.
        restarts: random starts of the search.

    Returns:
        The minima found.

    >>> [round(m.loss, 6) for m in two_layer_minima(5, 20)]
    [0.057501, 0.086548, 0.102345]
    """
    bend = jax.jit(jax.hessian(_loss(dim, context_len)))

    def of(best: Best) -> Minimum:
        weights = np.array([*best.steps, best.curvature[0] / best.steps[0], 0.0])
        values = np.linalg.eigvalsh(np.asarray(bend(jnp.asarray(weights)))[:3, :3])
        return Minimum(best.loss, weights, float(values[-1]), float(values[0]))

    return tuple(of(best) for best in gdpp_minima(dim, context_len, 2, restarts=restarts))


def flow_losses(dim: int, context_len: int, starts: np.ndarray, time: float = LONG) -> np.ndarray:
    """Losses at the end of the gradient flow of the population loss, from many starting points side by side.

    Args:
        dim: d.
        context_len: N.
        starts: (start, 3 or 4) a_1, a_2, b_1 and, where given, b_2, which does not move.
        time: how long the flow is followed.

    Returns:
        (start) the losses; NaN where the flow could not be followed.

    >>> flow_losses(5, 20, np.array([[0.5, 3.4, 0.9], [0.01, 0.01, 0.0]])).round(6).tolist()
    [0.057501, 0.102345]
    """
    require(starts.ndim == 2 and starts.shape[1] in (3, 4), f"starts are (start, 3 or 4), not {starts.shape}")
    loss = _loss(dim, context_len)
    term = diffrax.ODETerm(lambda t, p, args: -jax.grad(loss)(p))  # type: ignore[arg-type]
    controller = diffrax.PIDController(rtol=1e-6, atol=1e-8)

    @jax.jit
    @jax.vmap
    def end(start: jax.Array) -> jax.Array:
        found = diffrax.diffeqsolve(
            term, diffrax.Kvaerno5(), 0.0, time, 1e-4, start, stepsize_controller=controller,
            saveat=diffrax.SaveAt(t1=True), max_steps=4096, throw=False,
        )  # fmt: skip
        assert found.ys is not None
        return jnp.where(found.result == diffrax.RESULTS.successful, loss(found.ys[0]), jnp.nan)

    return np.asarray(end(jnp.asarray(starts[:, :3], jnp.float64)))


def nearest_minimum(losses: np.ndarray, heights: np.ndarray, tolerance: float = CLOSE) -> np.ndarray:
    """Which minimum a loss is at.

    Args:
        losses: any shape.
        heights: (minimum) of the minima.
        tolerance: relative distance up to which a loss counts.

    Returns:
        In the shape of `losses`: the index of the minimum; −1 where none is near, or the loss is not finite.

    >>> nearest_minimum(np.array([0.0576, 0.07, np.nan]), np.array([0.0575, 0.0865])).tolist()
    [0, -1, -1]
    """
    off = np.abs(np.where(np.isfinite(losses), losses, np.inf)[..., None] / heights - 1)
    return np.where(off.min(-1) <= tolerance, off.argmin(-1), -1)
