"""What the dataset of a sweep holds: every variable with its dimensions, type, fill value and meaning, and the
coordinates of its axes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.reader import plain_value
from ..core.status import Status
from ..engines.reductions import MOST, STATUS_CODES, sample_steps
from .axes import scalars
from .plan import Plan

STATUS = tuple(Status[name.upper()] for name in sorted(STATUS_CODES, key=lambda name: STATUS_CODES[name]))  # by code
NOT_RUN = -1


@dataclass(frozen=True)
class Variable:
    """One array of the result: the axes of the sweep, then `dims` of `sizes`."""

    dims: tuple[str, ...]
    sizes: tuple[int, ...]
    dtype: str
    fill: Any
    meaning: str

    def attributes(self) -> dict[str, Any]:
        return {"long_name": self.meaning}


def num_levels(plan: Plan) -> int:
    """Levels of the largest task in the sweep."""
    dims = [plan.base.task.dim]
    for axis in plan.axes:
        for field in axis.fields:
            if field == "task.dim":
                dims = axis.column(field)
            elif field == "task":
                dims = [task.dim for task in axis.column(field)]
    return max(dims) + 1


def samples_of(plan: Plan) -> list[np.ndarray]:
    """The sampled steps, for every number of steps in the sweep."""
    steps = [s for axis in plan.axes if "steps" in axis.fields for s in axis.column("steps")] or [plan.base.steps]
    return [sample_steps(count, plan.reduce.samples) for count in steps]


def schema(plan: Plan) -> dict[str, Variable]:
    """Name → variable, for what this sweep keeps."""
    mixed = any(field == "dtype" for axis in plan.axes for field in axis.fields)
    real = "float64" if mixed else plan.base.dtype

    def scalar(meaning: str) -> Variable:
        return Variable((), (), real, np.nan, meaning)

    found = {
        "first_loss": scalar("loss before the first update"),
        "final_loss": scalar("loss at the last step"),
        "minimum": scalar("least loss any weights could reach, where it is known"),
        "status": Variable((), (), "int8", NOT_RUN, "how the run ended; see flag_meanings"),
        "status_step": Variable((), (), "int64", NOT_RUN, "sampled step at which it diverged, or its number of steps"),
    }
    if plan.reduce.levels != "none":
        count = num_levels(plan)
        crossing = "step at which the loss falls below the middle of levels m and m + 1"
        dwell = "steps within a tenth of the gaps around level m"
        found["crossing_step"] = Variable(("crossing",), (count - 1,), real, np.nan, crossing)
        found["dwell_steps"] = Variable(("level",), (count,), real, np.nan, dwell)
    else:
        each = (("plateau",), (MOST,), real, np.nan)
        found["plateau_count"] = Variable((), (), "int64", NOT_RUN, "plateaus found in the curve")
        found["plateau_height"] = Variable(*each, "loss of the plateau")
        found["plateau_start"] = Variable(*each, "step at which the plateau begins")
        found["plateau_steps"] = Variable(*each, "steps the plateau lasts")
    if plan.reduce.curve:
        found["curve"] = Variable(
            ("sample",), (max(map(len, samples_of(plan))),), real, np.nan, "sampled training loss"
        )
    return found


def coordinates(plan: Plan) -> dict[str, Any]:
    """Axis labels, the other fields of zipped axes beside them, and the extra dimensions' own numbers."""
    found: dict[str, Any] = {}
    for axis in plan.axes:
        attrs: dict[str, Any] = {"fields": ", ".join(axis.fields)}
        if list(axis.coords) == list(range(len(axis))) and axis.fields != ("seed",):
            attrs["values"] = json.dumps([[plain_value(v) for v in row] for row in axis.values])
        found[axis.name] = (axis.name, _labels(list(axis.coords)), attrs)
    for axis in plan.axes:
        for field in axis.fields if len(axis.fields) > 1 else ():
            name, labels = field.rpartition(".")[2], scalars(axis.column(field))
            if name not in found and labels is not None:
                found[name] = (axis.name, _labels(labels), {"fields": field})
    for variable in schema(plan).values():
        for dim, size in zip(variable.dims, variable.sizes, strict=True):
            found[dim] = (dim, np.arange(size))
    if "sample" in found and len(samples_of(plan)) == 1:
        found["sample"] = ("sample", samples_of(plan)[0], {"long_name": "step"})
    return found


def _labels(values: list[Any]) -> np.ndarray:
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return np.asarray(values)
    return np.array([str(v) for v in values], dtype=object)
