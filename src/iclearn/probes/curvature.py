"""The curvature of the loss along a run: spectrum of the Hessian, sharpness, condition number, noise of the gradient.

For any model and engine: the loss is the one the run was trained on, differentiated twice in all weights.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ..core.checks import check_int, require
from ..core.errors import IclearnError
from ..core.trace import Trace

MOST_WEIGHTS = 3000  # of a model whose whole Hessian is taken: 72 MB


@runtime_checkable
class LossFunction(Protocol):
    """A loss of models; `iclearn.engines.TrainingLoss` makes the one a run was trained on."""

    @property
    def stochastic(self) -> bool: ...

    def __call__(self, model: Any, draw: Any = 0) -> Any: ...


def curvature(trace: Trace, loss: LossFunction, points: int = 20, *, draws: int = 8, tolerance: float = 1e-6) -> Any:
    """Hessian and gradient of a loss at recorded steps of a run.

    Args:
        trace: the run; it must have recorded weights.
        loss: of its model, such as ``TrainingLoss(trace.recipe)``.
        points: at how many of its records to look, spread evenly.
        draws: of batches, where the loss is that of a batch: the Hessian is their mean.
        tolerance: eigenvalues below this share of the largest absolute one count as zero. Symmetries of the weights
            make directions that are flat at a minimum, and flat only up to the gradient near it.

    Returns:
        An `xarray.Dataset` over ``record`` (steps): ``eigenvalue`` (record, mode) ascending; ``sharpness``, the
        largest; ``stability``, lr·sharpness/2, above 1 where gradient descent cannot stay; ``negative``, the number of
        directions that go down (eigenvalues that are negative and not zero); ``condition``, the largest over the
        least positive one that is not zero; ``gradient_norm``; and ``noise_scale``, tr Cov(g)/‖g‖² over
        batches, 0 for an exact loss (McCandlish et al. 2018, arXiv 1812.06162: the batch, in batches of this size, at
        which noise and signal are equal).

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> model, init = icl.Attention("merged_reduced"), icl.Init(0.1)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=model, init=init, steps=400))
    >>> found = curvature(trace, icl.TrainingLoss(trace.recipe), points=2)
    >>> int(found["negative"][0]) > 0, float(found["stability"][-1]) < 1  # it leaves a saddle, and stays in a valley
    (True, True)
    """
    import xarray as xr

    check_int("points", points, 1)
    check_int("draws", draws, 1)
    require("record" in trace.data, "this run recorded no weights: train with record=Record(weights=…) above 0")
    recipe = trace.recipe
    arrays, rest = eqx.partition(trace.model(), eqx.is_inexact_array)
    flat, unravel = ravel_pytree(arrays)
    if flat.size > MOST_WEIGHTS:
        raise IclearnError(f"this model has {flat.size} weights; the whole Hessian is taken of at most {MOST_WEIGHTS}")
    numbers = jnp.arange(draws if loss.stochastic else 1)

    def at(point: jax.Array, draw: jax.Array) -> jax.Array:
        return loss(eqx.combine(unravel(point), rest), draw)

    @jax.jit
    def look(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        slopes = jax.lax.map(lambda draw: jax.grad(at)(point, draw), numbers)
        bend = jax.lax.map(lambda draw: jax.hessian(at)(point, draw), numbers).mean(0)
        return jnp.linalg.eigvalsh((bend + bend.T) / 2), slopes

    chosen = np.unique(np.linspace(0, trace.data.sizes["record"] - 1, points).round().astype(int))
    steps = trace.data["record"].values[chosen]
    rows: dict[str, list[Any]] = {"eigenvalue": [], "gradient_norm": [], "noise_scale": []}
    for index in chosen:
        model = recipe.model.rebuild(recipe.task.dim, trace.weights(int(index)))
        values, slopes = (np.asarray(a, float) for a in look(ravel_pytree(eqx.filter(model, eqx.is_inexact_array))[0]))
        mean = slopes.mean(0)
        spread = slopes.var(0, ddof=1).sum() if len(slopes) > 1 else 0.0
        signal = max(float(mean @ mean) - spread / len(slopes), 0.0)  # ‖mean‖² holds a share of the noise
        rows["eigenvalue"].append(values)
        rows["gradient_norm"].append(np.sqrt(mean @ mean))
        rows["noise_scale"].append(0.0 if spread == 0 else spread / signal if signal > 0 else np.inf)
    spectrum = np.stack(rows["eigenvalue"])
    threshold = tolerance * np.abs(spectrum).max(1, keepdims=True)
    least = np.where(spectrum > threshold, spectrum, np.inf).min(1)
    data = {
        "eigenvalue": (("record", "mode"), spectrum),
        "sharpness": ("record", spectrum[:, -1]),
        "stability": ("record", recipe.optimizer.lr * spectrum[:, -1] / 2),
        "negative": ("record", (spectrum < -threshold).sum(1)),
        "condition": ("record", np.where(np.isfinite(least), spectrum[:, -1] / least, np.nan)),
        "gradient_norm": ("record", np.array(rows["gradient_norm"])),
        "noise_scale": ("record", np.array(rows["noise_scale"])),
    }
    return xr.Dataset(data, {"record": steps, "mode": np.arange(flat.size)}, {"recipe": recipe.hash})
