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
from .axes import is_number, scalars
from .plan import Plan

STATUS = tuple(Status[name.upper()] for name in sorted(STATUS_CODES, key=lambda name: STATUS_CODES[name]))  # by code
NOT_RUN = -1


@dataclass(frozen=True)
class Variable:
    """One array of the result: its dimensions are the axes of the sweep, then those of `sizes`.

    Args:
        meaning: in words.
        dtype: of its numbers.
        fill: the number that stands where nothing was computed yet.
        sizes: further dimensions and how long they are.
    """

    meaning: str
    dtype: str
    fill: Any
    dims: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()


def samples_of(plan: Plan) -> list[np.ndarray]:
    """The sampled steps, for every number of steps in the sweep."""
    return [sample_steps(count, plan.reduce.samples) for count in plan.values("steps")]


def schema(plan: Plan) -> dict[str, Variable]:
    """Name → variable, for what this sweep keeps."""
    dtype = "float64" if "dtype" in plan.fields else plan.base.dtype

    def real(meaning: str, **size: int) -> Variable:
        return Variable(meaning, dtype, np.nan, tuple(size), tuple(size.values()))

    def whole(meaning: str, dtype: str = "int64") -> Variable:
        return Variable(meaning, dtype, NOT_RUN)

    variables = {
        "first_loss": real("loss before the first update"),
        "final_loss": real("loss at the last step"),
        "minimum": real("least loss any weights could reach, where it is known"),
        "status": whole("how the run ended; see flag_meanings", "int8"),
        "status_step": whole("sampled step at which it diverged, or its number of steps"),
    }
    if plan.reduce.levels != "none":  # those of the largest task
        swept = "task.dim" in plan.fields
        dims = plan.values("task.dim") if swept else [task.dim for task in plan.values("task")]
        crossing = "step at which the loss falls below the middle of levels m and m + 1"
        variables["crossing_step"] = real(crossing, crossing=max(dims))
        variables["dwell_steps"] = real("steps within a tenth of the gaps around level m", level=max(dims) + 1)
    else:
        name, size = ("plateau", {"plateau": MOST}) if plan.former else ("slow", {"stretch": MOST})
        meaning = "stretches in which the curve falls at most a tenth as fast as on average"
        variables[f"{name}_count"] = whole(meaning) if plan.former else real(f"{meaning}; NaN where it left none")
        variables[f"{name}_height"] = real("loss in the middle of the stretch", **size)
        variables[f"{name}_start"] = real("step at which the stretch begins", **size)
        variables[f"{name}_steps"] = real("steps the stretch lasts", **size)
    if plan.reduce.curve:
        variables["curve"] = real("sampled training loss", sample=max(map(len, samples_of(plan))))
    return variables


def coordinates(plan: Plan) -> dict[str, Any]:
    """Axis labels, the other fields of zipped axes beside them, and the extra dimensions' own numbers."""
    labels: dict[str, Any] = {}
    for axis in plan.axes:
        attrs: dict[str, Any] = {"fields": ", ".join(axis.fields)}
        if list(axis.coords) == list(range(len(axis))) and axis.fields != ("seed",):
            attrs["values"] = json.dumps([[plain_value(v) for v in row] for row in axis.values])
        labels[axis.name] = (axis.name, _array(list(axis.coords)), attrs)
    for axis in plan.axes:
        for field in axis.fields if len(axis.fields) > 1 else ():
            name, column = field.rpartition(".")[2], scalars(axis.column(field))
            if name not in labels and column is not None:
                labels[name] = (axis.name, _array(column), {"fields": field})
    for variable in schema(plan).values():
        labels |= {dim: (dim, np.arange(n)) for dim, n in zip(variable.dims, variable.sizes, strict=True)}
    if "sample" in labels and len(samples_of(plan)) == 1:
        labels["sample"] = ("sample", samples_of(plan)[0], {"long_name": "step"})
    return labels


def _array(values: list[Any]) -> np.ndarray:
    if all(map(is_number, values)):
        return np.asarray(values)
    return np.array([str(v) for v in values], dtype=object)
