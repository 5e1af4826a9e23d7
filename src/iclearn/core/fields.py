"""The types of a spec's fields, checked when it is constructed: a value that does not fit is refused in a sentence."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from .errors import IclearnError


@lru_cache
def field_types(cls: type) -> dict[str, Any]:
    """Field → its type.

    Args:
        cls: a class of specs.

    Returns:
        The types of all fields, in order.
    """
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls)}


def check_fields(spec: Any) -> None:
    """Refuse a spec with a field whose value is not of the field's type, naming the field and what it takes.

    Args:
        spec: an instance of a dataclass.

    >>> from iclearn.core.recipe import Init
    >>> Init(float("inf"))
    Traceback (most recent call last):
    iclearn.core.errors.IclearnError: init scale must be a finite number, not inf
    """
    try:
        hints = field_types(type(spec))
    except NameError:  # a class made inside a function, whose annotations cannot be looked up
        return
    for name, hint in hints.items():
        value = getattr(spec, name)
        if not _fits(value, hint):
            what = f"{spec.kind} {name}" if getattr(spec, "kind", "") else name
            raise IclearnError(f"{what} must be {_wanted(hint)}, not {_shown(value, hint)}{_advice(value, hint)}")


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    options = _options(hint)
    if len(options) > 1:
        return any(_fits(value, option) for option in options)
    if hint is type(None):
        return value is None
    if get_origin(hint) is Literal:
        return True  # `check_literals` says which values are allowed
    if get_origin(hint) is tuple:
        listed = isinstance(value, tuple | list) or (isinstance(value, np.ndarray) and value.ndim == 1)
        return listed and all(_fits(item, get_args(hint)[0]) for item in value)
    if hint is float:
        return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    return not isinstance(hint, type) or isinstance(value, hint)


def _wanted(hint: Any) -> str:
    """What a field takes, in words."""
    words = {float: "a finite number", int: "a whole number", bool: "True or False", str: "a word", type(None): "None"}
    named = []
    for option in _options(hint):
        if get_origin(option) is tuple:
            inner = _wanted(get_args(option)[0])
            named.append(f"a tuple, each entry of which is {inner}")
        else:
            named.append(words.get(option) or f"of class {getattr(option, '__name__', option)}")
    return " or ".join(named)


def _shown(value: Any, hint: Any) -> str:
    if value is None or isinstance(value, bool | numbers.Number | str):
        return repr(value)[:80]
    for option in _options(hint) if isinstance(value, tuple | list) else ():
        if get_origin(option) is tuple:
            at = next((i for i, item in enumerate(value) if not _fits(item, get_args(option)[0])), 0)
            return f"{value[at]!r} at index {at}"[:80]
    return f"a {type(value).__name__}"


def _advice(value: Any, hint: Any) -> str:
    """How to write what was probably meant."""
    for option in _options(hint):
        how = getattr(option, "how_to_make", "")
        short = getattr(option, "shorthand", "")
        if how:
            return f": write {how}"
        if short and isinstance(value, numbers.Real | str):
            return f": write {option.__name__}({value!r})"
    return ""
