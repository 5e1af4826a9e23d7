"""A model over its training beside a fixed one, and the gradient step an LSA has become (xie2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..core.prompt import Batch
from .reading import finite
from .similarity import compare_all, differences

_AT_ONCE = 32  # models are filled up to a multiple


def similarity_over_training(
    models: Sequence[AbstractModel], records: Sequence[int] | np.ndarray, reference: AbstractModel, batch: Batch
) -> xr.Dataset:
    """`compare` of every recorded model with a fixed one.

    Args:
        models: the model at each record, all of one shape (they share one compiled program).
        records: (record) the step of each.
        reference: the model to compare with.
        batch: the prompts.

    Returns:
        An `xarray.Dataset` over ``record`` with the numbers of a `Similarity`: ``prediction``, ``sensitivity`` and
        ``cosine``, each with its ``…_error``.
    """
    if len(models) != len(records):
        raise IclearnError(f"{len(models)} models were given for {len(records)} records")
    rows = [asdict(found) for found in compare_all(models, reference, batch)]
    over = {name: ("record", np.array([row[name] for row in rows])) for name in rows[0] if name != "num_prompts"}
    return xr.Dataset(over, {"record": np.asarray(records)})


def mean_differences(models: Sequence[AbstractModel], reference: AbstractModel, batch: Batch) -> xr.Dataset:
    """How far models of one shape are from another one, in the measures of oswald2023: means, not root mean squares.

    Args:
        models: the models.
        reference: the model to compare with.
        batch: prompts.

    Returns:
        An `xarray.Dataset` over ``model``: means over prompts of |ŷ − ŷ′| (``prediction``), of ‖s − s′‖
        (``sensitivity``, s = ∂ŷ/∂x_q) and of the cosine of s and s′ (``cosine``, 10⁻⁸ added to the norms), the norm of
        s′ (``reference``), and ``loss``, the mean squared error of the model.

    >>> import iclearn as icl
    >>> import jax.numpy as jnp
    >>> from iclearn.models.predictors import GradientDescent
    >>> batch = icl.LinearRegression(dim=2, context_len=4, num_prompts=50).source(0, "float64").everything()
    >>> steps = [GradientDescent(jnp.zeros(2), lr) for lr in (1.0, 2.0)]
    >>> mean_differences(steps, steps[0], batch)["cosine"].values.round(6)
    array([1., 1.])
    """
    arrays, rest = zip(*(eqx.partition(model, eqx.is_array) for model in models), strict=True)
    more = -len(arrays) % _AT_ONCE  # the last again, so that one program serves any number of models
    arrays = (*arrays, *arrays[-1:] * more)
    stacked = jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *arrays)
    names = ("prediction", "sensitivity", "cosine", "reference", "loss")
    found = _mean_differences(stacked, rest[0], reference, batch)
    count = len(models)
    return xr.Dataset({name: ("model", np.asarray(values)[:count]) for name, values in zip(names, found, strict=True)})


@eqx.filter_jit
def _mean_differences(stacked: Any, rest: Any, reference: AbstractModel, batch: Batch) -> tuple[Array, ...]:
    def one(model: AbstractModel, prompt: Any, target: Array) -> tuple[Array, ...]:
        found = differences(model, reference, prompt)
        norms = (jnp.linalg.norm(found["norm_a"]) + 1e-8) * (jnp.linalg.norm(found["norm_b"]) + 1e-8)
        cosine, error = jnp.sum(found["dot"]) / norms, jnp.mean((model.predict(prompt) - target) ** 2)
        far = jnp.linalg.norm(found["sensitivity"])
        return found["prediction"], far, cosine, jnp.linalg.norm(found["norm_b"]), error

    def every(arrays: Any) -> tuple[Array, ...]:
        model = eqx.combine(arrays, rest)
        values = jax.vmap(lambda prompt, target: one(model, prompt, target))(batch.prompt, batch.target)
        return tuple(jnp.sum(batch.weight * value) / jnp.sum(batch.weight) for value in values)

    return jax.lax.map(every, stacked)


@dataclass(frozen=True)
class RecoveredStep:
    """One head with a guess, read as a gradient step: numbers that do not depend on how p and Q share the function.

    They stay the same under p → cp, Q → Q/c and Q → Q + r[−w_q; 1]ᵀ, which leave the head's prediction as it is.

    Args:
        guess: (dim) w_q, the start in the query's slot.
        start: (dim) −p_x/p_y, the start that the head subtracts from the labels.
        step: η, the trace of the upper block of p_y·Q[I; w_qᵀ] divided by dim.
        spread: root mean square of what is left of that block without η·I, and of its last row: 0 for a plain step.
    """

    guess: Float[np.ndarray, " dim"]
    start: Float[np.ndarray, " dim"]
    step: float
    spread: float


def recovered_step(p: Any, q: Any, guess: Any) -> RecoveredStep:
    """The gradient step that one head of linear self-attention comes closest to (xie2025).

    The head adds pᵀ G Q [x_q; g] to its guess g = w_q·x_q, G the Gram matrix of the tokens [x; y]. One step of size η
    from w_q has p = [−w_q; 1] and Q[I; w_qᵀ] = [ηI; 0].

    Args:
        p: (dim + 1) weights that read G.
        q: (dim + 1, dim + 1) Q.
        guess: (dim) w_q.

    Returns:
        The step, and how far the head is from it.

    >>> found = recovered_step([-4.0, 2.0], [[0.25, 0.0], [0.0, 0.0]], [2.0])
    >>> found.start, found.step, found.spread
    (array([2.]), 0.5, 0.0)
    """
    p, q, guess = finite("p", p, 1), finite("q", q, 2), finite("the guess", guess, 1)
    dim = guess.size
    if p.shape != (dim + 1,) or q.shape != (dim + 1, dim + 1):
        raise IclearnError(f"p {p.shape} and q {q.shape} do not fit a guess of {dim} entries: one head at a time")
    if p[-1] == 0:
        raise IclearnError("p_y is zero: this head does not read the labels and is no gradient step")
    lifted = p[-1] * (q[:, :-1] + np.outer(q[:, -1], guess))
    step = float(np.trace(lifted[:-1])) / dim
    rest = lifted - step * np.eye(dim + 1, dim)
    return RecoveredStep(guess, -p[:-1] / p[-1], step, float(np.sqrt(np.mean(rest**2))))
