"""One trained layer applied again and again with a damped update of the labels alone (oswald2023)."""

from __future__ import annotations

import dataclasses

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from ..core.checks import check_int, require
from ..core.prompt import Batch
from ..models.transformer_forms import AbstractLinearTransformer, FullTransformer


def label_updates(model: FullTransformer, loops: int, dampening: float = 0.75) -> FullTransformer:
    """The model whose layers update nothing but the label entry of every token, by λ of what they did, looped.

    Args:
        model: a linear transformer with blocks ``full``.
        loops: how many times its layers are applied.
        dampening: λ.

    Returns:
        The looped model.
    """
    check_int("loops", loops, 1)
    require(0 < dampening <= 1, f"dampening must be in (0, 1], not {dampening}")
    output = np.zeros(model.output.shape[-1])
    output[-1] = dampening
    only = dataclasses.replace(model, output=model.output * output.astype(model.output.dtype))  # type: ignore[type-var]
    return only.looped(loops)


def iterated_losses(model: AbstractLinearTransformer, batch: Batch) -> xr.Dataset:
    """Squared errors after every layer of a model: their mean and their median over the prompts.

    Far out the mean is ruled by the rarest prompts, those on which a step is too long; the median is not.

    Args:
        model: the model, e.g. `label_updates` of a trained one.
        batch: the prompts.

    Returns:
        An `xarray.Dataset` over ``loop`` (1, 2, …): ``mean``, ``error`` (its standard error) and ``median`` of
        (ŷ − y_q)².

    >>> import iclearn as icl
    >>> import jax.numpy as jnp
    >>> from iclearn.models.step_transformers import DescentTransformer
    >>> task = icl.LinearRegression(dim=2, context_len=50, num_prompts=200, covariance=icl.Covariance.white(trace=None))
    >>> descent = DescentTransformer(jnp.full((1, 1), 0.7), 2, 20)
    >>> found = iterated_losses(descent, task.source(0, "float64").everything())
    >>> found["median"].values[[0, 19]].round(3)
    array([0.039, 0.   ])
    """
    error = np.asarray(_errors(model, batch), float) ** 2
    spread = error.std(0, ddof=1) / np.sqrt(len(error))
    variables = {"mean": error.mean(0), "error": spread, "median": np.median(error, 0)}
    over = {name: ("loop", values) for name, values in variables.items()}
    return xr.Dataset(over, {"loop": 1 + np.arange(error.shape[1])})


@eqx.filter_jit
def _errors(model: AbstractLinearTransformer, batch: Batch) -> Float[Array, "prompts loop"]:
    return jax.vmap(model.readouts)(batch.prompt) - batch.target
