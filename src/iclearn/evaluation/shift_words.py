"""Shifts by the words of a command line, and which of them a class of functions can take."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from ..core.checks import require
from ..core.errors import IclearnError
from ..tasks.function_class import FunctionClass
from ..tasks.prompt_shifts import SWEEPS, Name, Shift, akyurek_shifts, campbell_shifts, garg_shifts, sweep_shifts

STANDARD = "standard"
GROUPS = {
    "garg": "the 14 of Garg et al. 2022, and opposite_quadrants",
    "sweeps": "continuous ones, on a grid each",
    "akyurek": "those of Akyürek et al. 2023",
    "campbell": "those of Campbell et al. 2024",
    "all": "garg and sweeps",
}


@dataclass(frozen=True)
class AskedShifts:
    """What to evaluate on.

    Args:
        shifts: label → shift; None stands for the law itself.
        left_out: label → why a shift of a group is not among them.
    """

    shifts: dict[str, Shift | None]
    left_out: dict[str, str]


def shifts_named(word: str, dim: int) -> tuple[Shift, ...]:
    """The shifts that one word means.

    Args:
        word: a group, ``name``, ``name=amount``, or a continuous shift without an amount for its grid.
        dim: dimension of the inputs.

    Returns:
        The shifts.

    >>> [shift.label for shift in shifts_named("scale-x=2", 5)], len(shifts_named("noise", 5))
    (['scale_x=2'], 5)
    """
    groups = {
        "garg": garg_shifts, "sweeps": sweep_shifts, "campbell": campbell_shifts, "akyurek": lambda: akyurek_shifts(dim)
    }  # fmt: skip
    name, equals, amount = word.partition("=")
    if not equals and word == "all":
        return (*garg_shifts(), *sweep_shifts())
    if not equals and word in groups:
        return groups[word]()
    known = {one.lower(): one for one in get_args(Name)}
    found = known.get(name.replace("-", "_").lower())
    if found is None:
        words = (*GROUPS, *known.values())
        close = difflib.get_close_matches(name.replace("-", "_"), words, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise IclearnError(f"unknown shift {name!r}{hint}; shifts are {', '.join(words)}")
    if not equals:
        if found in SWEEPS:
            return tuple(Shift(found, value) for value in SWEEPS[found])
        return (Shift(found),)  # one that needs an amount says so
    try:
        number = float(amount)
    except ValueError:
        raise IclearnError(f"{word}: the amount {amount!r} is no number") from None
    return (Shift(found, number),)


def read_shifts(words: Sequence[str | Shift], task: FunctionClass, own: str = "") -> AskedShifts:
    """The law itself and the shifts that words mean, each once, as far as a class of functions can take them.

    Args:
        words: as for `shifts_named`, or shifts.
        task: the class; a shift that is named alone and cannot be taken is refused, one of a group is left out.
        own: the kind of a task that is evaluated in place of the class, and takes no shift.

    Returns:
        The shifts.
    """
    shifts: dict[str, Shift | None] = {STANDARD: None}
    left_out: dict[str, str] = {}
    for word in words:
        if word == STANDARD:
            continue
        several = (word,) if isinstance(word, Shift) else shifts_named(word, task.dim)
        if own:
            why = f"shifts are those of classes of functions, and {own} is evaluated without any"
            named = isinstance(word, Shift) or word not in GROUPS
            require(not named, f"{why}: leave out shifts, or give task=FunctionClass(…)")
            left_out[str(word)] = why
            continue
        for shift in several:
            try:
                task.replace(shift=shift)
            except IclearnError as error:
                if len(several) == 1:
                    raise
                left_out[shift.label] = str(error)
                continue
            shifts.setdefault(shift.label, shift)
    return AskedShifts(shifts, left_out)


def is_none(shift: Shift | None, task: FunctionClass) -> bool:
    """Whether a shift leaves the law of a task as it is, so that it need not be evaluated again.

    >>> is_none(Shift("scale_x", 1.0), FunctionClass()), is_none(Shift("noise", 0.5), FunctionClass(noise=0.25))
    (True, True)
    """
    if shift is None:
        return True
    if task.shift is not None:
        return False
    unchanged = {"scale_x": 1.0, "scale_y": 1.0, "prior_scale": 1.0, "length": 1.0, "prior_mean": 0.0}
    unchanged |= {"input_mean": 0.0, "input_noise": 0.0, "condition_number": 1.0, "noise": task.noise**0.5}
    return shift.name in unchanged and shift.size == unchanged[shift.name]
