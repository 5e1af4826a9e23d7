"""Checks of the values in a spec: each refuses in one line that names the field, what was given and what is allowed."""

from __future__ import annotations

import numbers
from typing import Any, get_args

import numpy as np

from .errors import IclearnError


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
    """An array of float64 of anything numpy can make one of; what is no table of numbers is refused.

    Args:
        name: what the values are, for the message.
        values: an array or nested lists.
        ndim: the number of axes it must have (None: any).

    Returns:
        The array.
    """
    try:
        array = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise IclearnError(f"{name} must be an array of numbers, not {str(values)[:60]!r}") from None
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
    require(value in allowed, f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r:.200}")


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
