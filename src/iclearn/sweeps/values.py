"""Values from YAML or Python turned into what a field of a spec holds, and specs built from plain dicts."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..core.spec import Spec
from ..models import lsa as lsa
from ..models import softmax_layers as softmax_layers
from ..models.base import AbstractModelSpec
from ..models.spec import Attention
from ..tasks import softmax_regression as softmax_regression
from ..tasks.base import AbstractTask
from ..tasks.regression import LinearRegression

# What `task:` and `model:` mean where the dict does not say its kind.
USUAL: dict[str, type[Spec]] = {"task": LinearRegression, "model": Attention}
FAMILIES: dict[str, type[Spec]] = {"task": AbstractTask, "model": AbstractModelSpec}


def expand(given: Any, where: str) -> list[Any]:
    """The values of an axis: a list, or {linspace: [a, b, n]}, {logspace: [a, b, n]} (from a to b), {range: n}.

    >>> expand({"logspace": [0.01, 1, 3]}, "lr")
    [0.01, 0.1, 1.0]
    """
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if isinstance(given, Mapping):
        if len(given) != 1 or next(iter(given)) not in ("linspace", "logspace", "range"):
            raise IclearnError(f"{where}: values are a list, linspace, logspace or range, not {dict(given)!r}")
        ((form, ends),) = given.items()
        values = _ranged(ends, where) if form == "range" else _spaced(form, ends, where)
    elif isinstance(given, range) or (isinstance(given, Sequence) and not isinstance(given, str)):
        values = list(given)
    else:
        raise IclearnError(f"{where}: values are a list, linspace, logspace or range, not {given!r}")
    if not values:
        raise IclearnError(f"{where} has no values: give at least one")
    return values


def _ranged(ends: Any, where: str) -> list[int]:
    parts = ends if isinstance(ends, list | tuple) else [ends]
    if not 1 <= len(parts) <= 3 or not all(isinstance(p, int) and not isinstance(p, bool) for p in parts):
        raise IclearnError(f"{where}: range takes one to three whole numbers, not {ends!r}")
    return list(range(*parts))


def _spaced(form: str, ends: Any, where: str) -> list[float]:
    if not isinstance(ends, list | tuple) or len(ends) != 3:
        raise IclearnError(f"{where}: {form} takes [first, last, how many], not {ends!r}")
    first, last = (coerce(end, float, f"{where} {form}") for end in ends[:2])
    count = coerce(ends[2], int, f"{where} {form} count")
    if count < 1:
        raise IclearnError(f"{where}: {form} needs at least one value, not {count}")
    if form == "linspace":
        return np.linspace(first, last, count).tolist()
    if not (first > 0 and last > 0):
        raise IclearnError(f"{where}: logspace goes between positive numbers (not exponents), not {first} and {last}")
    exact = np.geomspace(first, last, count).tolist()
    return [float(f"{v:.15g}") for v in exact]  # 0.1 and not 0.10000000000000002


def coerce(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type of a field, or one line saying what the field takes; ``"1e-3"`` (YAML's) is a number."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _coerce_union(value, get_args(hint), where)
    if origin is Literal:
        if value not in get_args(hint):
            raise IclearnError(f"{where} must be one of {', '.join(map(str, get_args(hint)))}, not {value!r}")
        return value
    if origin is tuple:
        items = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
        return tuple(coerce(item, get_args(hint)[0], where) for item in items)
    if hint is float:
        return _number(value, where)
    if hint is int:
        if isinstance(value, numbers.Integral) and not isinstance(value, bool):
            return int(value)
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise IclearnError(f"{where} must be a whole number, not {value!r}")
    if hint in (bool, str):
        if not isinstance(value, hint):
            kind = "true or false" if hint is bool else "a word"
            raise IclearnError(f"{where} must be {kind}, not {value!r}")
        return value
    if isinstance(hint, type) and issubclass(hint, Spec):
        return value if isinstance(value, hint) else build(hint, value, where)
    return value


def _coerce_union(value: Any, options: tuple[Any, ...], where: str) -> Any:
    if type(None) in options and (value is None or value == "none" or value == "inf"):
        return None
    wanted = [option for option in options if option is not type(None)]
    for option in wanted[:-1]:
        try:
            return coerce(value, option, where)
        except IclearnError:
            continue
    return coerce(value, wanted[-1], where)


def _number(value: Any, where: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, numbers.Real | str):
            raise ValueError
        number = float(value)
    except ValueError:
        raise IclearnError(f"{where} must be a number, not {value!r}") from None
    if not math.isfinite(number):
        raise IclearnError(f"{where} must be a finite number, not {value!r}")
    return number


def build(cls: type[Spec], data: Any, where: str) -> Any:
    """A spec from a plain dict: `kind` may be left out, nested specs are dicts too, and `init` may be its scale."""
    if isinstance(data, numbers.Real | str) and where.endswith("init"):
        data = {"scale": data}
    if not isinstance(data, Mapping):
        raise IclearnError(f"{where} must be a table of fields, not {data!r}")
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind is not None:
        cls = _class_of(kind, cls, where)
    known = {f.name: f for f in dataclasses.fields(cls)}
    hints = get_type_hints(cls)
    if unknown := [name for name in fields if name not in known]:
        raise IclearnError(f"{where} has no field {unknown[0]!r}; its fields are {', '.join(sorted(known))}")
    empty = (dataclasses.MISSING, dataclasses.MISSING)
    if missing := [n for n, f in known.items() if n not in fields and (f.default, f.default_factory) == empty]:
        raise IclearnError(f"{where} lacks its field {missing[0]!r}")
    made = {}
    for name, value in fields.items():
        hint = hints[name]
        if cls is Recipe and name in USUAL:
            hint = USUAL[name] if isinstance(value, Mapping) and "kind" not in value else FAMILIES[name]
        made[name] = coerce(value, hint, f"{where}.{name}" if where else name)
    return cls(**made)


def _class_of(kind: Any, expected: type[Spec], where: str) -> type[Spec]:
    waiting, found = list(Spec.__subclasses__()), {}
    while waiting:
        cls = waiting.pop()
        waiting += cls.__subclasses__()
        if cls.kind and issubclass(cls, expected):
            found[cls.kind] = cls
    if kind not in found:
        raise IclearnError(f"{where}: unknown kind {kind!r}; kinds here are {', '.join(sorted(found))}")
    return found[kind]


def recipe_from(data: Any) -> Recipe:
    """A Recipe from its dict, in full as `to_dict` writes it or in short form.

    >>> recipe_from({"task": {"dim": 3}, "model": {"family": "separate", "num_heads": 4}, "init": 0.1}).init.scale
    0.1
    """
    if isinstance(data, Recipe):
        return data
    return build(Recipe, data, "base")


def plain_value(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, Spec):
        return value.to_dict()
    return [plain_value(v) for v in value] if isinstance(value, tuple) else value
