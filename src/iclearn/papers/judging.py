"""From numbers to a word: the rules by which claims are judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Word = Literal["reproduced", "contradicted", "inconclusive", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What judging a claim found: the measured number (or a few), and the word."""

    measured: Any
    verdict: Word
    seeds: int = 0


def judge_seeds(passed: Sequence[bool], measured: Any, *, share: float = 0.8) -> Outcome:
    """Judge a distribution over seeds: reproduced when at least `share` of them agree, contradicted when at most
    1 − share do, inconclusive between. No verdict hangs on one lucky seed."""
    if not len(passed):
        return Outcome(measured, "failed")
    fraction = float(np.mean(passed))
    word: Word = "reproduced" if fraction >= share else "contradicted" if fraction <= 1 - share else "inconclusive"
    return Outcome(measured, word, len(passed))


def judge_close(measured: float, expected: float, tolerance: float, *, seeds: int = 0) -> Outcome:
    """Reproduced within the tolerance; contradicted beyond three times it; inconclusive between."""
    if not np.isfinite(measured):
        return Outcome(float(measured), "failed", seeds)
    distance = abs(measured - expected)
    word: Word = (
        "reproduced" if distance <= tolerance else "contradicted" if distance > 3 * tolerance else "inconclusive"
    )
    return Outcome(float(measured), word, seeds)


def judge_true(passed: bool, measured: Any, *, seeds: int = 0) -> Outcome:
    return Outcome(measured, "reproduced" if passed else "contradicted", seeds)
