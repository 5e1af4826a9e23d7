"""Checks of the values in a spec: each refuses in one line that names the field, what was given and what is allowed."""

from __future__ import annotations

import numbers
from typing import Any, get_args

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


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value outside a Literal, naming the choices.

    Args:
        name: what the value is, for the message.
        value: what was given.
        choices: a ``Literal[...]`` type.
    """
    allowed = get_args(choices)
    require(value in allowed, f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r}")


def check_int(name: str, value: Any, minimum: int) -> None:
    """Refuse what is not a whole number of at least `minimum`.

    Args:
        name: what the value is, for the message.
        value: what was given.
        minimum: the least that is allowed.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise IclearnError(f"{name} must be a whole number, not {value!r}")
    require(int(value) >= minimum, f"{name} must be at least {minimum}, not {value}")
