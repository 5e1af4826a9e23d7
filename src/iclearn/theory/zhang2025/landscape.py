"""The loss landscape at and around the fixed points, by differentiating the population loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .population import Matrix, Number, Size, Spectrum, population_loss, spectrum
from .saddles import fixed_point_loss, learned_components, realize, saddle_index, subsets
from .weights import Weights


def loss_of(
    weights: Weights, covariance: Matrix, context_len: Number, *, gain: Number = 1.0, noise: Number = 0.0
) -> Float[Array, "*time"]:
    """The population loss of weights, `population_loss` of their effective matrix.

    Args:
        weights: with any leading axes.
        covariance: (dim, dim) Λ.
        context_len: N.
        gain: g, see `gain_of`.
        noise: σ², see `second_moment`.

    Returns:
        (…) the loss.

    >>> round(float(loss_of(realize((0,), [0.6, 0.4], 31, num_heads=2), np.diag([0.6, 0.4]), 31)), 4)  # L(M_1) of (19)
    0.4475
    """
    return population_loss(weights.effective(), covariance, context_len, gain=gain, noise=noise)


_gradient = eqx.filter_jit(jax.grad(loss_of))


def gradient(weights: Weights, covariance: Matrix, context_len: Size, *, gain: float = 1.0) -> Weights:
    """∂L/∂θ for every weight, by automatic differentiation of `loss_of`; −2 times `velocity`.

    Args:
        weights: without leading axes.
        covariance, context_len, gain: see `loss_of`.

    Returns:
        The derivatives, in the shape of the weights; zero at every fixed point.

    >>> at_saddle = realize((0,), [0.6, 0.4], 31, num_heads=2)
    >>> bool(jnp.abs(gradient(at_saddle, np.diag([0.6, 0.4]), 31).value).max() < 1e-12)
    True
    """
    n, g = jnp.asarray(float(context_len)), jnp.asarray(float(gain))
    return _gradient(weights, jnp.asarray(covariance), n, gain=g)


@eqx.filter_jit
def _survey(stacked: Weights, covariance: Array, context_len: Any, gain: Any) -> tuple[Array, Array, Array]:
    """Loss, gradient norm and Hessian of many weights, one after the other."""

    def one(weights: Weights) -> tuple[Array, Array, Array]:
        flat, unravel = ravel_pytree(weights)

        def loss(w: Array) -> Array:
            return loss_of(unravel(w), covariance, context_len, gain=gain)

        return loss(flat), jnp.linalg.norm(jax.grad(loss)(flat)), jax.hessian(loss)(flat)

    return jax.lax.map(one, stacked)


def _look(
    points: Sequence[Weights], covariance: Matrix, context_len: Size, gain: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss, gradient norm and Hessian eigenvalues at each of the points."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
    sizes = jnp.asarray(float(context_len)), jnp.asarray(float(gain))
    loss, slope, curvature = _survey(stacked, jnp.asarray(covariance), *sizes)
    return np.asarray(loss), np.asarray(slope), np.linalg.eigvalsh(np.asarray(curvature))


def _negative(spectra: np.ndarray, tolerance: float) -> np.ndarray | np.integer:
    floor = tolerance * np.abs(spectra).max(axis=-1, initial=1e-300, keepdims=True)
    return (spectra < -floor).sum(-1)


def hessian_spectrum(weights: Weights, covariance: Matrix, context_len: Size, *, gain: float = 1.0) -> np.ndarray:
    """Eigenvalues of the Hessian of the loss in all weights, by automatic differentiation.

    Args:
        weights, covariance, context_len, gain: see `gradient`.

    Returns:
        (weight) the eigenvalues in increasing order.

    >>> from iclearn.theory.zhang2025 import MergedWeights
    >>> at_zero = MergedWeights(jnp.zeros(1), jnp.zeros((1, 1, 1)))
    >>> hessian_spectrum(at_zero, np.eye(1), 31).round(9).tolist()  # ∓2‖Λ²‖, see `merged_index_at_zero`
    [-2.0, 2.0]
    """
    return _look([weights], covariance, context_len, gain)[2][0]


def hessian_index(
    weights: Weights, covariance: Matrix, context_len: Size, *, gain: float = 1.0, tolerance: float = 1e-9
) -> int:
    """The number of negative eigenvalues of the Hessian.

    Args:
        weights, covariance, context_len, gain: see `gradient`.
        tolerance: eigenvalues count that are below −`tolerance` times the largest in size.

    Returns:
        The index; `saddle_index` is its closed form at the fixed points.

    >>> hessian_index(realize((1,), [0.6, 0.4], 31, num_heads=2), np.diag([0.6, 0.4]), 31)
    1
    """
    return int(_negative(hessian_spectrum(weights, covariance, context_len, gain=gain), tolerance))


def landscape(eigenvalues: Spectrum, context_len: Size, num_heads: int, rank: int = 1, *, gain: float = 1.0) -> Any:
    """Every fixed point of separate attention that these heads can hold: loss, gradient, index, whether visited.

    Args:
        eigenvalues: (dim) of Λ.
        context_len: N.
        num_heads: H.
        rank: R.
        gain: g, see `gain_of`.

    Returns:
        An `xarray.Dataset` over ``fixed_point`` (subsets of eigenvectors counted from 0, written "0,2"): ``loss``
        (19), ``loss_realized`` (the population loss of the weights), ``gradient_norm``, ``index`` (of the Hessian,
        numerically), ``index_formula`` (`saddle_index`), ``size``, and ``visited``: whether it is one of the M_m, which
        training from small initial weights passes through.

    >>> table = landscape([0.6, 0.4], 31, num_heads=2)
    >>> table["fixed_point"].values.tolist(), table["visited"].values.tolist(), table["index"].values.tolist()
    (['', '0', '1', '0,1'], [True, True, False, True], [0, 0, 1, 0])
    """
    import xarray as xr

    values = spectrum(eigenvalues)
    room = learned_components(len(values), rank, num_heads)
    chosen = [s for s in subsets(len(values)) if len(s) <= room]
    points = [realize(s, values, context_len, num_heads, rank, gain=gain) for s in chosen]
    loss, slope, spectra = _look(points, jnp.diag(jnp.asarray(values)), context_len, gain)
    table = {
        "loss": [fixed_point_loss(s, values, context_len) for s in chosen],
        "loss_realized": loss,
        "gradient_norm": slope,
        "index": _negative(spectra, 1e-9),
        "index_formula": [saddle_index(s, values, rank) for s in chosen],
        "size": [len(s) for s in chosen],
        "visited": [s == tuple(range(len(s))) for s in chosen],
    }
    over = {name: ("fixed_point", np.asarray(column)) for name, column in table.items()}
    names = [",".join(map(str, s)) for s in chosen]
    attrs = {"paper": "zhang2025", "num_heads": num_heads, "rank": rank, "gain": gain}
    return xr.Dataset(over, {"fixed_point": names}, attrs=attrs)
