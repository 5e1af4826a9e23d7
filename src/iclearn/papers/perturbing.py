"""Ways to make counter-examples: one array of a figure's data changed at some labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base import Counterexample, Data


def changed(data: Data, name: str, change: Callable[[Any], Any], **where: Any) -> Data:
    """The data with one array, or one variable ``table/variable`` of a dataset, changed at these labels.

    Seeds beyond those of the data are left out (all of them: the first is changed), so that it works for any number.

    Args:
        data: the figure's data, which stay as they are.
        name: of the array.
        change: from the values at the labels to the new ones.
        where: labels by axis; none for the whole array.

    Returns:
        The changed data.

    >>> import xarray as xr
    >>> data = {"table": xr.Dataset({"loss": ("seed", [1.0, 2.0])}, {"seed": [0, 1]})}
    >>> changed(data, "table/loss", times(3.0), seed=1)["table"]["loss"].values
    array([1., 6.])
    """
    head, _, variable = name.partition("/")
    new = data[head].copy(deep=True)
    part = new[variable] if variable else new
    if "seed" in where:
        where = {**where, "seed": [s for s in np.atleast_1d(where["seed"]) if s < part.sizes["seed"]] or [0]}
    part.loc[where] = change(part.loc[where])
    return {**data, head: new}


def counter(title: str, name: str, change: Callable[[Any], Any], **where: Any) -> Counterexample:
    """A counter-example that changes one array at some labels; see `changed`."""
    return Counterexample(title, lambda data: changed(data, name, change, **where))


def scaled(title: str, name: str, factor: float, **where: Any) -> Counterexample:
    """A counter-example with one array times a factor (NaN: lost) at some labels; see `changed`."""
    return counter(title, name, times(factor), **where)


def a_nan(name: str, **where: Any) -> Counterexample:
    """A counter-example with NaN at some labels of one array."""
    return counter("one value is NaN", name, lambda a: a * np.nan, **where)


def times(factor: float) -> Callable[[Any], Any]:
    """Multiplication by a factor."""
    return lambda a: a * factor


def plus(number: float) -> Callable[[Any], Any]:
    """Addition of a number."""
    return lambda a: a + number
