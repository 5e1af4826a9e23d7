"""The one reader of specs: tables from JSON, YAML, the command line or Python turned into checked specs."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
from collections.abc import Mapping
from functools import lru_cache
from inspect import isabstract
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from .errors import IclearnError
from .registry import SPECS, USUAL_KINDS
from .spec import Spec, SpecT


@lru_cache
def field_types(cls: type[Spec]) -> dict[str, Any]:
    """Field → its type, of a spec class."""
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def field_type(base: Spec, path: str, what: str = "") -> Any:
    """The type of the field at a dotted path, or one line naming the fields there are."""
    here: Any = base
    parts = path.split(".")
    for depth, part in enumerate(parts):
        names = sorted(f.name for f in dataclasses.fields(here)) if isinstance(here, Spec) else []
        owner = ".".join(parts[:depth]) or "a recipe"
        if here is None:
            raise IclearnError(f"{what}{path}: the base has no {owner}; give it one")
        if part not in names:
            said = f"its fields are {', '.join(names)}" if names else "it is a plain value"
            raise IclearnError(f"{what}{path}: {owner} has no field {part!r}; {said}")
        if depth == len(parts) - 1:
            return field_types(type(here))[part]
        here = getattr(here, part)
    raise IclearnError(f"{what}needs a field")


def read_spec(expected: type[SpecT], data: Any, where: str = "") -> SpecT:
    """A spec of class `expected` from a table, in full or in short form.

    `kind` may be left out, nested specs are tables too, and a spec with a `shorthand` may be that field alone.

    Args:
        expected: the class, which may be abstract (then the table says its kind, or the field's usual one is meant).
        data: the table, or a spec that is ready.
        where: the place in a file, for messages.

    >>> from iclearn.core.recipe import Recipe
    >>> read_spec(Recipe, {"task": {"dim": 3}, "model": {"family": "separate"}, "init": 0.1}).init
    Init(scale=0.1)
    """
    if isinstance(data, expected):
        return data
    named = where or (data.get("kind") if isinstance(data, Mapping) else "") or expected.kind or expected.__name__
    if expected.shorthand and isinstance(data, numbers.Real | str):
        data = {expected.shorthand: data}
    if not isinstance(data, Mapping):
        raise IclearnError(f"{named} must be a table of fields, not {data!r}")
    fields = dict(data)
    kind = fields.pop("kind", None) or expected.kind or USUAL_KINDS.get(where.rpartition(".")[2])
    if (not kind and isabstract(expected)) or (expected is Spec and not kind):
        raise IclearnError(f"{named} does not say its kind; known are {', '.join(SPECS.names())}")
    cls = SPECS.get(kind, where) if kind else expected
    if not issubclass(cls, expected):
        kinds = ", ".join(n for n in SPECS.names() if issubclass(SPECS.get(n), expected)) or "none"
        raise IclearnError(f"{named} cannot be of kind {kind!r}; kinds here are {kinds}")
    fields = {cls.former_names.get(name, name): value for name, value in fields.items()}
    hints = field_types(cls)
    if unknown := [name for name in fields if name not in hints]:
        raise IclearnError(f"{named} has no field {unknown[0]!r}; its fields are {', '.join(sorted(hints))}")
    for f in dataclasses.fields(cls):
        if f.name not in fields and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            raise IclearnError(f"{named} lacks its field {f.name!r}")
    place = f"{where}." if where else ""
    return cls(**{name: coerce(value, hints[name], f"{place}{name}") for name, value in fields.items()})


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
        return read_spec(hint, value, where)
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


def plain_value(value: Any) -> Any:
    """A value as JSON holds it."""
    if isinstance(value, Spec):
        return value.to_dict()
    return [plain_value(v) for v in value] if isinstance(value, tuple) else value


def read_table(path: Any) -> dict[str, Any]:
    """The table in a YAML or JSON file (JSON is YAML)."""
    from pathlib import Path

    import yaml

    try:
        data = yaml.safe_load(Path(path).read_text())
    except FileNotFoundError:
        raise IclearnError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise IclearnError(f"{path} is not a text file") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise IclearnError(f"{path}{line} is not YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(data, dict):
        raise IclearnError(f"{path} must be a table of fields, not {data!r}")
    return data
