"""What a part of a model is good for: heads taken out, weights put back to, or on to, another moment of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from ..core.trace import Trace
from .curvature import LossFunction


def head_ablation(trace: Trace, loss: LossFunction, step: int | None = None) -> Any:
    """The loss without each head, and with each head alone.

    Args:
        trace: the run; its model must have heads.
        loss: of its model, such as ``TrainingLoss(trace.recipe)``.
        step: when; the nearest recorded step is taken (None: the last).

    Returns:
        An `xarray.Dataset` over ``head``: ``without`` and ``alone``, losses; ``loss`` with all heads, ``none`` without
        any.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> model, init = icl.Attention("merged", num_heads=2), icl.Init(0.1)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=model, init=init, steps=2000))
    >>> found = head_ablation(trace, icl.TrainingLoss(trace.recipe))
    >>> bool((found["without"] > found["loss"]).all()), float(found["none"])  # both are of use; E y² without any
    (True, 1.0)
    """
    import xarray as xr

    weights = trace.weights(trace.nearest_record(step))
    axes = trace.model(step).axes
    places = {name: axes[name].index("head") for name in weights if "head" in axes[name]}
    if not places:
        raise IclearnError(f"the model {trace.recipe.model.describe()} has no heads to take out")
    count = next(weights[name].shape[place] for name, place in places.items())

    def kept(heads: Sequence[int]) -> float:
        cut = dict(weights)
        for name, place in places.items():
            mask = np.isin(np.arange(count), heads).reshape(
                [-1 if i == place else 1 for i in range(weights[name].ndim)]
            )
            cut[name] = np.where(mask, weights[name], 0)
        return _loss_of(trace, loss, cut)

    every = range(count)
    data = {
        "without": ("head", [kept([h for h in every if h != out]) for out in every]),
        "alone": ("head", [kept([only]) for only in every]),
        "loss": ((), _loss_of(trace, loss, weights)),
        "none": ((), kept([])),
    }
    return xr.Dataset(
        data, {"head": np.arange(count)}, {"step": int(trace.data["record"].values[trace.nearest_record(step)])}
    )


def graft(
    trace: Trace, loss: LossFunction, names: Sequence[str], *, donor: int, host: int | None = None
) -> dict[str, float]:
    """The loss of a model that has some of its weights from another moment of the same run.

    Weights put back to an earlier moment show what has been learned in them since; weights put on from a later one show
    what is still to be learned in them.

    Args:
        trace: the run.
        loss: of its model, such as ``TrainingLoss(trace.recipe)``.
        names: of the weights that are taken from the donor, as the model names them.
        donor: step of the donor; the nearest recorded one is taken.
        host: step of the host (None: the last).

    Returns:
        Losses of ``host``, ``donor`` and ``graft``.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged"), steps=2000, init=icl.Init(0.1)))
    >>> found = graft(trace, icl.TrainingLoss(trace.recipe), ["value"], donor=0)
    >>> found["host"] < found["graft"]
    True
    """
    old, own = trace.weights(trace.nearest_record(donor)), trace.weights(trace.nearest_record(host))
    unknown = [name for name in names if name not in own]
    if unknown or not names:
        raise IclearnError(f"the model's weights are {', '.join(own)}, not {', '.join(unknown) or 'none of them'}")
    models = {"host": own, "donor": old, "graft": {**own, **{name: old[name] for name in names}}}
    return {name: _loss_of(trace, loss, weights) for name, weights in models.items()}


def clamp(
    trace: Trace, loss: LossFunction, blocks: Mapping[str, Any], *, at: int | None = None, value: float = 0.0
) -> Any:
    """The loss along a run with blocks of its weights held at what they were at one step, or at a number.

    Where the clamped curve leaves the run's own, training begins to need what the block learns. The other weights are
    those of the run: it is not trained again.

    Args:
        trace: the run.
        loss: of its model, such as ``TrainingLoss(trace.recipe)``.
        blocks: name of a weight → which part of it, an index such as ``0``, ``(0, slice(2))`` or ``...`` for all.
        at: step whose values the blocks keep; the nearest recorded one is taken (None: `value` instead).
        value: the number, where no step is given.

    Returns:
        An `xarray.Dataset` over ``record``: ``loss`` of the run and ``clamped``.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> model, init = icl.Attention("merged", num_heads=2), icl.Init(0.1)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=model, steps=2000, init=init))
    >>> found = clamp(trace, icl.TrainingLoss(trace.recipe), {"value": 0}, at=0)
    >>> float(found["clamped"][0] - found["loss"][0]), bool(found["clamped"][-1] > found["loss"][-1])
    (0.0, True)
    """
    import xarray as xr

    records = trace.data["record"].values
    own = trace.weights(0)
    unknown = [name for name in blocks if name not in own]
    if unknown or not blocks:
        raise IclearnError(f"the model's weights are {', '.join(own)}, not {', '.join(unknown) or 'none of them'}")
    held = None if at is None else trace.weights(trace.nearest_record(at))
    curves: dict[str, list[float]] = {"loss": [], "clamped": []}
    for index in range(len(records)):
        weights = {name: np.array(array) for name, array in trace.weights(index).items()}
        curves["loss"].append(_loss_of(trace, loss, weights))
        for name, part in blocks.items():
            try:
                weights[name][part] = value if held is None else held[name][part]
            except IndexError as error:
                raise IclearnError(f"{part} is no part of weight {name} of shape {own[name].shape}: {error}") from error
        curves["clamped"].append(_loss_of(trace, loss, weights))
    return xr.Dataset({name: ("record", losses) for name, losses in curves.items()}, {"record": records})


def _loss_of(trace: Trace, loss: LossFunction, weights: dict[str, Any]) -> float:
    return float(loss(trace.recipe.model.rebuild(trace.recipe.task.dim, weights)))
