"""The loss landscape at and around the fixed points, by differentiating the population loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from .population import Matrix, Spectrum, population_loss, spectrum
from .saddles import fixed_point_loss, learned_components, realize, saddle_index, subsets
from .weights import Weights

if TYPE_CHECKING:
    import xarray as xr


def loss_of(weights: Weights, covariance: Matrix, context_len: float, *, gain: float = 1.0) -> Float[Array, "*time"]:
    """The population loss of weights (with a leading time axis: at every time)."""
    return population_loss(weights.effective(), covariance, context_len, gain=gain)


def gradient(weights: Weights, covariance: Matrix, context_len: float, *, gain: float = 1.0) -> Weights:
    """∂L/∂θ for every weight, by automatic differentiation."""
    sizes = jnp.asarray(float(context_len)), jnp.asarray(float(gain))
    return _gradient(weights, jnp.asarray(covariance), *sizes)


@eqx.filter_jit
def _gradient(weights: Weights, covariance: Array, context_len: Any, gain: Any) -> Weights:
    return jax.grad(lambda w: loss_of(w, covariance, context_len, gain=gain))(weights)


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
    points: Sequence[Weights], covariance: Matrix, context_len: float, gain: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss, gradient norm and Hessian eigenvalues at each of the points."""
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *points)
    sizes = jnp.asarray(float(context_len)), jnp.asarray(float(gain))
    loss, slope, curvature = _survey(stacked, jnp.asarray(covariance), *sizes)
    return np.asarray(loss), np.asarray(slope), np.linalg.eigvalsh(np.asarray(curvature))


def _negative(spectra: np.ndarray, tolerance: float) -> np.ndarray:
    floor = tolerance * np.abs(spectra).max(axis=-1, initial=1e-300, keepdims=True)
    return (spectra < -floor).sum(-1)


def hessian_spectrum(weights: Weights, covariance: Matrix, context_len: float, *, gain: float = 1.0) -> np.ndarray:
    """Eigenvalues of the Hessian of the loss in all weights, in increasing order."""
    return _look([weights], covariance, context_len, gain)[2][0]


def hessian_index(
    weights: Weights,
    covariance: Matrix,
    context_len: float,
    *,
    gain: float = 1.0,
    tolerance: float = 1e-9,
) -> int:
    """Number of negative Hessian eigenvalues: those below −`tolerance` times the largest in size."""
    return int(_negative(hessian_spectrum(weights, covariance, context_len, gain=gain), tolerance))


def landscape(
    eigenvalues: Spectrum, context_len: float, num_heads: int, rank: int = 1, *, gain: float = 1.0
) -> xr.Dataset:
    """Every fixed point these heads can hold: loss, gradient norm, index and whether training visits it.

    Variables over ``fixed_point`` (subsets of eigenvectors, counted from 0, written "0,2"): ``loss`` (19),
    ``loss_realized`` (the population loss of the weights), ``gradient_norm``, ``index`` (of the Hessian, numerically),
    ``index_formula`` (`saddle_index`), ``size``, and ``visited``: the M_m, which small initializations pass through.
    """
    import xarray as xr

    values = spectrum(eigenvalues)
    room = learned_components(len(values), rank, num_heads)
    chosen = [s for s in subsets(len(values)) if len(s) <= room]
    points = [realize(s, values, context_len, num_heads, rank, gain=gain) for s in chosen]
    loss, slope, spectra = _look(points, jnp.diag(jnp.asarray(values)), context_len, gain)
    columns = {
        "loss": [fixed_point_loss(s, values, context_len) for s in chosen],
        "loss_realized": loss,
        "gradient_norm": slope,
        "index": _negative(spectra, 1e-9),
        "index_formula": [saddle_index(s, values, rank) for s in chosen],
        "size": [len(s) for s in chosen],
        "visited": [s == tuple(range(len(s))) for s in chosen],
    }
    names = [",".join(map(str, s)) for s in chosen]
    return xr.Dataset(
        {name: ("fixed_point", np.asarray(column)) for name, column in columns.items()},
        {"fixed_point": names},
        attrs={"paper": "zhang2025", "num_heads": num_heads, "rank": rank, "gain": gain},
    )
