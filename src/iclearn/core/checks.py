"""Checks of the values in a spec: each refuses in one line that names the field, what was given and what is allowed."""

from __future__ import annotations

import functools
import inspect
import numbers
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from .errors import IclearnError

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


def require(condition: object, sentence: str) -> None:
    """Refuse with a sentence unless a condition holds.

    Args:
        condition: anything with a truth value.
        sentence: what was given and what is allowed, in one line.

    >>> require(1 < 2, "one must be less than two")
    """
    if not condition:
        raise IclearnError(sentence)


def check_type(name: str, value: object, cls: Any, hint: str = "") -> None:
    """Refuse what is not an instance of a class, or is the class itself.

    Args:
        name: what the value is, for the message.
        value: what was given.
        cls: the class.
        hint: what to write instead.

    >>> check_type("the recipe", {}, list, "list(...)")
    Traceback (most recent call last):
    iclearn.core.errors.IclearnError: the recipe must be of class list, not dict: write list(...)
    """
    advice = f": write {hint}" if hint else ""
    given = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
    require(isinstance(value, cls), f"{name} must be of class {getattr(cls, '__name__', cls)}, not {given}{advice}")


def as_numbers(name: str, values: Any, ndim: int | None = None) -> Any:
    """An array of float64 of anything numpy can make one of; what is no table of real numbers is refused.

    Args:
        name: what the values are, for the message.
        values: an array or nested lists.
        ndim: the number of axes it must have (None: any).

    Returns:
        The array.
    """
    try:
        if np.iscomplexobj(values):
            raise TypeError
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise IclearnError(f"{name} must be an array of real numbers, not {str(values)[:60]!r}") from None
    require(ndim in (None, array.ndim), f"{name} must have {ndim} axes, not shape {array.shape}")
    return array


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value outside a Literal, naming the choices.

    Args:
        name: what the value is, for the message.
        value: what was given.
        choices: a ``Literal[...]`` type.
    """
    allowed = get_args(choices)
    known = any(isinstance(value, type(one)) and value == one for one in allowed)
    require(known, f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r:.200}")


@functools.cache
def literals_of(owner: Any) -> dict[str, Any]:
    """The arguments of a function, or the fields of a class, that are annotated with a Literal.

    Args:
        owner: the function or the class.

    Returns:
        Name → Literal, which holds None where the annotation allows it.

    >>> def ask(word: Literal["yes", "no"] | None, size: int = 1) -> None: ...
    >>> literals_of(ask)
    {'word': typing.Literal['yes', 'no', None]}
    """
    try:
        hints = get_type_hints(owner)
    except NameError:  # a class made inside a function, whose annotations cannot be looked up
        return {}
    found = {}
    for name, hint in hints.items():
        options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        if name != "return" and all(option is type(None) or get_origin(option) is Literal for option in options):
            found[name] = Literal[tuple(v for o in options for v in (get_args(o) or (None,)))]  # type: ignore[valid-type]
    return found


def check_literals(owner: Any, given: Mapping[str, Any], what: str = "") -> None:
    """Refuse a value outside the Literal that annotates it.

    Args:
        owner: the function or the class.
        given: argument or field → value.
        what: stands before the name in the message.
    """
    for name, choices in literals_of(owner).items():
        if name in given:
            check_choice(f"{what} {name}".strip(), given[name], choices)


def literals_checked(function: FunctionT) -> FunctionT:
    """A function that refuses values outside the Literals of its annotations; a decorator.

    Specs and models check their fields themselves.

    Args:
        function: the function, or the ``__init__`` of a class.

    Returns:
        The function with the check before it.

    >>> @literals_checked
    ... def ask(word: Literal["yes", "no"] = "no") -> str:
    ...     return word
    >>> ask("maybe")
    Traceback (most recent call last):
    iclearn.core.errors.IclearnError: word must be one of yes, no, not 'maybe'
    """
    names = tuple(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_literals(function, dict(zip(names, args, strict=False)) | kwargs)
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def check_int(name: str, value: Any, minimum: int) -> None:
    """Refuse what is not a whole number of at least `minimum`.

    Args:
        name: what the value is, for the message.
        value: what was given.
        minimum: the least that is allowed.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise IclearnError(f"{name} must be a whole number, not {value!r:.200}")
    require(int(value) >= minimum, f"{name} must be at least {minimum}, not {value}")
