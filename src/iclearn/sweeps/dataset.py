"""What the dataset of a sweep holds: every variable with its extra dimensions, type, fill value and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.status import Status
from ..engines.reductions import MOST, STATUS_CODES, sample_steps
from ..tasks.base import AbstractTask
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
    dims = [plan.base.task.dim] if isinstance(plan.base.task, AbstractTask) else [1]
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
