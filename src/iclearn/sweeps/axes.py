"""Axes of a sweep: any field of a Recipe by its dotted path, or several that move together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from ..core.reader import coerce, field_type, plain_value
from ..core.recipe import Recipe

# Names that a sweep's dataset, or xarray (`sel(drop=…)`), uses itself.
TAKEN = frozenset(
    {"level", "crossing", "stretch", "sample", "drop", "first_loss", "final_loss", "minimum", "status", "status_step"}
    | {"crossing_step", "dwell_steps", "slow_count", "slow_height", "slow_start", "slow_steps", "curve"}
)
MOST_POINTS = 10_000_000  # along an axis


@dataclass(frozen=True)
class Axis:
    """One dimension of a sweep's result; `len` of it is its number of points. `read_axes` makes them.

    Args:
        name: of the dimension.
        fields: dotted paths of the recipe's fields that change along it.
        values: for each point, the value of every field.
        coords: the label of each point.

    >>> axis = Axis("size", ("model.num_heads", "init.scale"), ((1, 0.1), (2, 0.2)), ("small", "large"))
    >>> len(axis), axis.changes(1)
    (2, {'model__num_heads': 2, 'init__scale': 0.2})
    >>> axis.column("init.scale")
    [0.1, 0.2]
    """

    name: str
    fields: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    coords: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.values)

    def changes(self, index: int) -> dict[str, Any]:
        """What point `index` changes, as `Recipe.replace` takes it."""
        return {f.replace(".", "__"): v for f, v in zip(self.fields, self.values[index], strict=True)}

    def column(self, field: str, first: int = 0, end: int | None = None) -> list[Any]:
        """The values of one field at the points from `first` up to `end` (None: all of them)."""
        at = self.fields.index(field)
        return [row[at] for row in self.values[first:end]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as plan.json holds them."""
        rows = [[plain_value(v) for v in row] for row in self.values]
        return {"name": self.name, "fields": list(self.fields), "values": rows, "coords": list(self.coords)}


def read_axes(base: Recipe, axes: Mapping[str, Any], seeds: Any = None) -> tuple[Axis, ...]:
    """The axes of a sweep, in order, the seeds last.

    Each item is ``"optimizer.lr": values``, or a name of your own with ``{"field": path, "values": …}`` or, for fields
    that move together, ``{"fields": {path: values, path: values}}``; both take ``"coords"``, labels for the points.
    Values are a list, or ``{"linspace": [first, last, count]}``, ``{"logspace": [first, last, count]}`` (the ends
    themselves, not exponents) or ``{"range": count}``.

    Args:
        base: the recipe whose fields are swept; values are checked against their types.
        axes: the items.
        seeds: a number of seeds (0, 1, 2, …), or their values.

    >>> import iclearn as icl
    >>> base = icl.Recipe(task=icl.LinearRegression(), model=icl.Attention())
    >>> axes = read_axes(base, {"optimizer.lr": {"logspace": [0.01, 1, 3]}}, seeds=2)
    >>> [(axis.name, axis.coords) for axis in axes]
    [('lr', (0.01, 0.1, 1.0)), ('seed', (0, 1))]
    """
    listed = [_read(base, str(key), given) for key, given in axes.items()]
    if seeds is not None:
        values = {"range": seeds} if isinstance(seeds, int) and not isinstance(seeds, bool) else seeds
        listed.append(_make(base, "seed", {"seed": expand(values, "seeds")}, None))
    if not listed:
        raise IclearnError("a sweep needs at least one axis, or seeds")
    if name := _repeated(axis.name for axis in listed):
        raise IclearnError(f"two axes have the name {name!r}: give one of them a name of its own")
    if field := _repeated(field for axis in listed for field in axis.fields):
        raise IclearnError(f"two axes have the field {field!r}")
    return tuple(listed)


def _repeated(words: Iterable[str]) -> str | None:
    """The first word that occurs more than once."""
    return next((word for word, count in Counter(words).items() if count > 1), None)


def _read(base: Recipe, key: str, given: Any) -> Axis:
    options = dict(given) if isinstance(given, Mapping) else {}
    if "field" not in options and "fields" not in options:
        return _make(base, key.rpartition(".")[2], {key: expand(given, f"axis {key}")}, None)
    allowed = {"field", "values", "coords"} if "field" in options else {"fields", "coords"}
    if unknown := sorted(set(options) - allowed):
        raise IclearnError(f"axis {key} has no option {unknown[0]!r}; it takes {', '.join(sorted(allowed))}")
    columns = {options["field"]: options.get("values")} if "field" in options else options["fields"]
    if not isinstance(columns, Mapping) or not columns:
        raise IclearnError(f"axis {key}: fields is a table from paths to values, not {columns!r}")
    columns = {str(path): expand(values, f"axis {key}, {path}") for path, values in columns.items()}
    return _make(base, key, columns, options.get("coords"))


def _make(base: Recipe, name: str, columns: dict[str, list[Any]], coords: Any) -> Axis:
    if not name.isidentifier() or name in TAKEN:
        taken = ", ".join(sorted(TAKEN))
        raise IclearnError(f"an axis cannot be called {name!r}: use letters and digits, and not {taken}")
    if len({len(values) for values in columns.values()}) > 1:
        sizes = ", ".join(f"{path} has {len(values)}" for path, values in columns.items())
        raise IclearnError(f"fields of axis {name} must have equally many values: {sizes}")
    typed = {}
    for path, values in columns.items():
        hint = field_type(base, path, "axis ")
        typed[path] = [coerce(value, hint, f"axis {name}, {path}") for value in values]
    rows = tuple(zip(*typed.values(), strict=True))
    if repeated := _repeated(json.dumps([plain_value(v) for v in row]) for row in rows):
        raise IclearnError(f"axis {name} lists {repeated.strip('[]')} twice")
    return Axis(name, tuple(typed), rows, _coords(name, typed, coords, len(rows)))


def _coords(name: str, typed: dict[str, list[Any]], given: Any, count: int) -> tuple[Any, ...]:
    if given is not None:
        labels = expand(given, f"coords of axis {name}")
        if len(labels) != count:
            raise IclearnError(f"axis {name} has {count} points and {len(labels)} coords")
        if repeated := _repeated(map(str, labels)):
            raise IclearnError(f"axis {name} gives two points the label {repeated!r}")
        mixed = all(map(is_number, labels)) and any(isinstance(v, float) for v in labels)
        return tuple(map(float, labels)) if mixed else tuple(labels)
    for values in typed.values():
        if (labels := scalars(values)) is not None and len(set(labels)) == count:
            return tuple(labels)
    return tuple(range(count))


def is_number(value: Any) -> bool:
    """Whether a label is a number (true and false are not)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def scalars(values: list[Any]) -> list[Any] | None:
    """Labels for a column of values: the values, where each is one number or each one word (or a tuple of one)."""
    labels = [v[0] if isinstance(v, tuple) and len(v) == 1 else v for v in values]
    kinds = {float if is_number(v) else type(v) for v in labels}
    return labels if len(kinds) == 1 and kinds <= {float, str} else None


def is_traceable(axis: Axis, base: Recipe, axes: tuple[Axis, ...]) -> bool:
    """Whether the runs along this axis share one program: every field of it only changes numbers."""
    traceable = base.traceable_fields()
    static = {field for other in axes for field in other.fields if field not in traceable}
    for field in axis.fields:
        column = axis.column(field)
        if field not in traceable or any(v is None for v in column):
            return False
        if len({len(v) if isinstance(v, tuple) else 0 for v in column}) > 1:
            return False
        parent = field.rpartition(".")[0]
        if "." in parent and any(f"{s}.".startswith(f"{parent}.") or parent.startswith(f"{s}.") for s in static):
            return False  # what is traceable in a nested spec depends on the spec, which is swept too
    return True


def expand(given: Any, where: str) -> list[Any]:
    """The values of an axis: a list, or {linspace: [a, b, n]}, {logspace: [a, b, n]} (from a to b), {range: n}.

    Args:
        given: the list or the table.
        where: the place in the axes, for messages.

    >>> expand({"logspace": [0.01, 1, 3]}, "lr")
    [0.01, 0.1, 1.0]
    """
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Mapping) and len(given) == 1 and next(iter(given)) in ("linspace", "logspace", "range"):
        ((form, ends),) = given.items()
        values = _ranged(ends, where) if form == "range" else _spaced(form, ends, where)
    elif isinstance(given, Sequence) and not isinstance(given, str):
        values = list(given)
    else:
        raise IclearnError(f"{where}: values are a list, linspace, logspace or range, not {given!r}")
    _check_count(len(values), where)
    if not values:
        raise IclearnError(f"{where} has no values: give at least one")
    return values


def _ranged(ends: Any, where: str) -> list[int]:
    parts = ends if isinstance(ends, list | tuple) else [ends]
    if not 1 <= len(parts) <= 3 or not all(isinstance(p, int) and not isinstance(p, bool) for p in parts):
        raise IclearnError(f"{where}: range takes one to three whole numbers, not {ends!r}")
    try:
        whole = range(*parts)
        count = len(whole)
    except (ValueError, OverflowError):  # a step of 0, or more values than there are numbers
        raise IclearnError(f"{where}: range cannot go by {ends!r}") from None
    _check_count(count, where)
    return list(whole)


def _check_count(count: int, where: str) -> None:
    if count > MOST_POINTS:
        raise IclearnError(f"{where} has {count} values; an axis holds at most {MOST_POINTS}")


def _spaced(form: str, ends: Any, where: str) -> list[float]:
    if not isinstance(ends, list | tuple) or len(ends) != 3:
        raise IclearnError(f"{where}: {form} takes [first, last, how many], not {ends!r}")
    first, last = (coerce(end, float, f"{where} {form}") for end in ends[:2])
    count = coerce(ends[2], int, f"{where} {form} count")
    if count < 1:
        raise IclearnError(f"{where}: {form} needs at least one value, not {count}")
    _check_count(count, where)
    if form == "linspace":
        return np.linspace(first, last, count).tolist()
    if not (first > 0 and last > 0):
        raise IclearnError(f"{where}: logspace goes between positive numbers (not exponents), not {first} and {last}")
    exact = np.geomspace(first, last, count).tolist()
    return [float(f"{v:.15g}") for v in exact]  # 0.1 and not 0.10000000000000002
