"""The fields of a spec and their types, checked when it is constructed: what does not fit is refused in a sentence."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import numbers
import types
from abc import ABCMeta
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

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


class CheckedFields(ABCMeta):
    """The metaclass of specs: fields that a class does not have, and those that are missing, are refused by name.

    >>> from iclearn.core.recipe import Init
    >>> Init(size=0.1)
    Traceback (most recent call last):
    iclearn.core.errors.IclearnError: Init has no field 'size'; its fields are scale, scheme, zero_blocks, digest
    """

    if not TYPE_CHECKING:  # for type checkers a call is that of the constructor

        def __call__(cls, *args: Any, **fields: Any) -> Any:
            try:
                return super().__call__(*args, **fields)
            except TypeError:
                if not (problem := _misfit(cls, args, fields)):
                    raise
            raise IclearnError(problem)

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the constructor, which is what help shows, and not that of the call above."""
        constructor = inspect.signature(cls.__init__)  # type: ignore[misc]
        return constructor.replace(parameters=list(constructor.parameters.values())[1:])


def _misfit(cls: type, args: tuple[Any, ...], given: Mapping[str, Any]) -> str:
    """Why a class cannot be called so; nothing where it can."""
    if lacking := getattr(cls, "__abstractmethods__", ()):
        return f"{cls.__name__} is abstract: define {', '.join(sorted(lacking))} in a subclass"
    signature = inspect.signature(cls)
    try:
        signature.bind(*args, **given)
    except TypeError:
        known = list(signature.parameters)
        fields = f"its fields are {', '.join(known)}"
        if unknown := [name for name in given if name not in known]:
            close = difflib.get_close_matches(unknown[0], known, n=1)
            hint = f" (did you mean {close[0]}=?)" if close else ""
            return f"{cls.__name__} has no field {unknown[0]!r}; {fields}{hint}"
        if len(args) > len(known):
            return f"{cls.__name__} takes {len(known)} values at most, not {len(args)}; {fields}"
        if twice := [name for name in known[: len(args)] if name in given]:
            return f"{cls.__name__} is given its field {twice[0]!r} twice; {fields}"
        needed = [name for name, field in signature.parameters.items() if field.default is field.empty]
        missing = next(name for name in needed if name not in (*known[: len(args)], *given))
        return f"{cls.__name__} lacks its field {missing!r}; {fields}"
    return ""


def read_infinity(spec: Any) -> None:
    """Set numbers that may be None and were given as infinite to None, which is what stands for infinitely many.

    Args:
        spec: an instance of a dataclass.
    """
    try:
        hints = field_types(type(spec))
    except NameError:
        return
    for name, hint in hints.items():
        value = getattr(spec, name)
        if isinstance(value, float) and value == math.inf and {int, type(None)} <= set(_options(hint)):
            object.__setattr__(spec, name, None)


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
