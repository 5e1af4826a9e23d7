"""Checks of the values in a spec: each refuses in one line that names the field, what was given and what is allowed."""

from __future__ import annotations

import numbers
from typing import get_args

from .errors import IclearnError


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value outside a Literal, naming the choices.

    Args:
        name: what the value is, for the message.
        value: what was given.
        choices: a ``Literal[...]`` type.
    """
    allowed = get_args(choices)
    if value not in allowed:
        raise IclearnError(f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r}")


def check_int(name: str, value: object, minimum: int) -> None:
    """Refuse what is not a whole number of at least `minimum`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise IclearnError(f"{name} must be a whole number, not {value!r}")
    if value < minimum:
        raise IclearnError(f"{name} must be at least {minimum}, not {value}")
