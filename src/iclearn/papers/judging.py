"""From numbers to a word: the rules by which claims are judged, each with its three steps.

Every rule refuses NaN (``failed``) and an empty list (``failed``). Rules on distributions over seeds or runs need a
confidence interval to clear a line, so one lucky seed decides nothing. Rules with a sampling error have a cap, so that
noisier data do not pass more easily.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import beta
from scipy.stats import t as student

Word = Literal[
    "reproduced", "contradicted", "inconclusive", "too few seeds", "unfinished", "outdated", "failed"
]  # fmt: skip
LEVEL = 0.95  # of one-sided confidence bounds
# From best to worst: several judgments together are as good as the worst of them.
WORDS: tuple[Word, ...] = (
    "reproduced", "inconclusive", "too few seeds", "unfinished", "outdated", "contradicted", "failed"
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What judging a claim found.

    Args:
        measured: the number, or a few named numbers.
        verdict: the word.
        seeds: how many seeds or runs were judged (0: a statement that does not depend on a seed).
    """

    measured: Any
    verdict: Word
    seeds: int = 0


def binomial_bounds(passed: int, total: int, level: float = LEVEL) -> tuple[float, float]:
    """One-sided Clopper-Pearson bounds of a share of which `passed` of `total` were seen.

    >>> [round(bound, 3) for bound in binomial_bounds(6, 6)]
    [0.607, 1.0]
    >>> [round(bound, 3) for bound in binomial_bounds(5, 6)]
    [0.418, 0.991]
    """
    low = float(beta.ppf(1 - level, passed, total - passed + 1)) if passed else 0.0
    high = float(beta.ppf(level, passed + 1, total - passed)) if passed < total else 1.0
    return low, high


def least_for_share(share: float = 0.5) -> int:
    """The least number of seeds at which `judge_seeds` can say yes (all of them pass) and no (none passes).

    >>> least_for_share(), least_for_share(0.8)
    (5, 14)
    """
    counts = itertools.count(1)
    return next(n for n in counts if binomial_bounds(n, n)[0] > share > binomial_bounds(0, n)[1])


def least_for_mean(means: int = 1, errors: float = 4.0) -> int:
    """The least number of values at which `judge_mean` contradicts a true statement in at most 5 % of cases.

    The standard error of few values is itself uncertain: of two normal values the mean is more than eight standard
    errors away from the truth in 8 % of cases, of three in 1.5 %.

    Args:
        means: of so many judgments, each of which can contradict.
        errors: as `judge_mean` has it.

    >>> least_for_mean(), least_for_mean(12)
    (3, 4)
    """
    return next(n for n in itertools.count(2) if means * 2 * student.sf(2 * errors, n - 1) <= 1 - LEVEL)


SHARE_SEEDS = least_for_share()  # what a claim on more than half of the seeds needs
MEAN_SEEDS = least_for_mean()  # what a claim on a standard error over seeds needs


def worst(*words: Word) -> Word:
    """The verdict on several judgments that must all hold; ``failed`` for none.

    >>> worst("reproduced", "inconclusive")
    'inconclusive'
    """
    return max(words, key=WORDS.index) if words else "failed"


def judge_seeds(passed: Sequence[bool], measured: Any, *, share: float = 0.5) -> Outcome:
    """A statement on a distribution over seeds or runs: it holds for more than `share` of them.

    Reproduced when the lower confidence bound of the share of seeds that pass is above `share`, contradicted when the
    upper bound is below it, inconclusive between. With `share` ½, 6 of 6 reproduce and 5 of 6 do not; one seed is
    always inconclusive.
    """
    if not len(passed):
        return Outcome(measured, "failed")
    low, high = binomial_bounds(int(np.sum(passed)), len(passed))
    word: Word = "reproduced" if low > share else "contradicted" if high < share else "inconclusive"
    return Outcome(measured, word, len(passed))


def judge_groups(groups: Mapping[Any, Sequence[bool]], measured: Any, *, share: float = 0.5) -> Outcome:
    """`judge_seeds` for each group of runs; the verdict is the worst of them, so that no group hides behind others."""
    outcomes = [judge_seeds(passed, measured, share=share) for passed in groups.values()]
    words: list[Word] = [outcome.verdict for outcome in outcomes]
    return Outcome(measured, worst(*words), sum(outcome.seeds for outcome in outcomes))


def judge_close(measured: float, expected: float, tolerance: float, *, seeds: int = 0) -> Outcome:
    """Reproduced within the tolerance; contradicted beyond three times it; inconclusive between."""
    if not np.isfinite(measured):
        return Outcome(float(measured), "failed", seeds)
    distance = abs(measured - expected)
    word: Word = (
        "reproduced" if distance <= tolerance else "contradicted" if distance > 3 * tolerance else "inconclusive"
    )
    return Outcome(float(measured), word, seeds)


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Of the mean of these values; infinite for one value."""
    count = len(values)
    return float(np.std(values, ddof=1) / np.sqrt(count)) if count > 1 else float("inf")


def judge_mean(
    values: Sequence[float] | np.ndarray, expected: float, cap: float, *, errors: float = 4.0, measured: Any = None
) -> Outcome:
    """The mean over seeds agrees with a number within `errors` standard errors, and the data can tell.

    Where `errors` standard errors are more than `cap` the data are too noisy to judge: inconclusive. Contradicted
    beyond twice as many standard errors.
    """
    array = np.asarray(values, float)
    told = {"mean": float(array.mean()) if array.size else float("nan"), "standard_error": standard_error(array)}
    measured = told if measured is None else measured
    if not array.size or not np.isfinite(array).all():
        return Outcome(measured, "failed", len(array))
    distance, room = abs(told["mean"] - expected), errors * told["standard_error"]
    if room > cap:
        word: Word = "contradicted" if distance > 2 * room else "inconclusive"
    else:
        word = "reproduced" if distance <= room else "contradicted" if distance > 2 * room else "inconclusive"
    return Outcome(measured, word, len(array))


def judge_above(values: Sequence[float] | np.ndarray, line: float, measured: Any = None) -> Outcome:
    """The mean over seeds is above a line, for few seeds of numbers that vary little: Student's bound decides.

    Reproduced when the one-sided confidence bound of the mean (`LEVEL`) is above the line, contradicted when that from
    the other side is below it, inconclusive between. One value is always inconclusive. For "below" give the negatives.

    >>> judge_above([1.0, 1.2, 1.1], 0.5).verdict, judge_above([1.0, -1.2, 1.1], 0.5).verdict
    ('reproduced', 'inconclusive')
    """
    array = np.asarray(values, float)
    measured = {"values": array.tolist()} if measured is None else measured
    if len(array) == 0 or not np.isfinite(array).all():
        return Outcome(measured, "failed", len(array))
    if array.size == 1:
        return Outcome(measured, "inconclusive", 1)
    room = float(student.ppf(LEVEL, array.size - 1)) * standard_error(array)
    high = array.mean() - line
    word: Word = "reproduced" if high > room else "contradicted" if high < -room else "inconclusive"
    return Outcome(measured, word, array.size)


def judge_true(passed: bool, measured: Any, *, seeds: int = 0) -> Outcome:
    """A statement without randomness: it holds or it does not."""
    return Outcome(measured, "reproduced" if passed else "contradicted", seeds)


def judge_each(passed: Sequence[bool], measured: Any) -> Outcome:
    """A statement without randomness on several objects, of which there must be at least one."""
    return judge_true(all(passed), measured) if len(passed) else Outcome(measured, "failed")
