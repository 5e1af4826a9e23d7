"""Numbers as they are printed, and whether computed ones agree with every digit of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..judging import Outcome, judge_each


def numbers(text: str) -> np.ndarray:
    """The numbers of a line.

    >>> numbers("1.0385 .82").tolist()
    [1.0385, 0.82]
    """
    return np.array([float(word) for word in text.split()])


def half_units(text: str) -> np.ndarray:
    """Half a unit of the last digit of each number.

    >>> half_units("16.93 .8538").tolist()
    [0.005, 5e-05]
    """
    return np.array([0.5 * 10.0 ** -len(word.partition(".")[2]) for word in text.split()])


def judge_digits(pairs: Sequence[tuple[str, Any]], units: float = 0.51) -> Outcome:
    """Lines of printed numbers beside computed ones: all agree to the last digit.

    Args:
        pairs: a line and the computed numbers, in its order.
        units: of the last digit that they may differ by; at a half, rounding may go either way.

    Returns:
        What was found; the largest difference is in units of the last digit.
    """
    off = np.concatenate([(np.asarray(found) - numbers(line)) / (2 * half_units(line)) for line, found in pairs])
    told = {"numbers": len(off), "largest difference, in units of the last digit": float(np.abs(off).max())}
    return judge_each((np.abs(off) <= units).tolist(), told)
