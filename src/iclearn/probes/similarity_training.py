"""A model over its training beside a fixed one, and the gradient step an LSA has become (xie2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..core.prompt import Batch
from .reading import finite
from .similarity import compare_all


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
