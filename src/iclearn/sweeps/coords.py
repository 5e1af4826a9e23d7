"""The coordinates of a sweep's dataset: a label for every point of every axis."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .axes import scalars
from .dataset import samples_of, schema
from .plan import Plan
from .values import plain_value


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
