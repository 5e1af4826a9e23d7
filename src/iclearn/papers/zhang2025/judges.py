"""Rules of judgment that several figures of zhang2025 share; the general ones are in `papers.judging`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...core.trace import Trace
from ...probes.plateaus import Drop, Staircase, find_plateaus
from ..judging import Outcome, Word, judge_mean, judge_seeds, standard_error, worst

GAP_SHARE = 0.1  # heights must be known to this share of the gap to the nearer neighboring level
POINTS = 5000  # of a curve are enough to see its plateaus
COUNTS = 0.02  # a drop is counted from this share of the whole fall on; the smallest of (19), D = 4, takes 0.085


def thinned(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Every so-many-th loss and its time, some `POINTS` of them or a little more."""
    loss, time = (trace.data.variables[name].values for name in ("loss", "time"))
    stride = max(1, len(loss) // POINTS)
    return loss[::stride], time[::stride]


def stairs_of(trace: Trace) -> Staircase:
    """Plateaus and drops of a loss curve, found in some thousand points of it."""
    loss, time = thinned(trace)
    return find_plateaus(loss, time=time)


def drops_of(trace: Trace) -> list[Drop]:
    """The drops of a loss curve that take a visible share of its whole fall."""
    loss = trace.data.variables["loss"].values
    fall = float(loss[0]) - float(loss.min())
    return [drop for drop in stairs_of(trace).drops if drop.size >= COUNTS * fall]


def heights_by_level(
    seeds: Sequence[Sequence[Trace]], levels: np.ndarray, counts: Callable[[Trace, int], bool] | None = None
) -> dict[int, list[float]]:
    """Heights of the plateaus found in loss curves, sorted by the nearest level; for each seed the mean of its runs.

    The plateaus are found without the levels; one at the last level is where a run ends, not a plateau.

    Args:
        seeds: the runs of each seed.
        counts: whether a plateau of this run near level m is to be taken (default: all).
    """
    found: dict[int, list[float]] = {m: [] for m in range(len(levels) - 1)}
    for runs in seeds:
        own: dict[int, list[float]] = {m: [] for m in found}
        for trace in runs:
            for height in stairs_of(trace).heights:
                m = int(np.argmin(np.abs(levels - height)))
                if m in own and (counts is None or counts(trace, m)):
                    own[m].append(float(height))
        for m, heights in own.items():
            found[m] += [float(np.mean(heights))] if heights else []
    return found


def judge_heights(found: Mapping[int, Sequence[float]], levels: np.ndarray, least: int = 3) -> Outcome:
    """The mean height at each level m agrees with it within 4 standard errors, which must be small against the gaps.

    Args:
        found: heights at each level that must have plateaus, one a seed.
        least: with fewer heights than this at any of the levels the verdict is inconclusive.
    """
    gaps = -np.diff(levels)
    words: list[Word] = []
    rows: dict[int, Any] = {}
    for m, heights in found.items():
        cap = GAP_SHARE * float(min(gaps[max(m - 1, 0) : m + 1]))
        outcome = judge_mean(heights, float(levels[m]), cap)
        words.append(outcome.verdict if len(heights) >= least else "inconclusive")
        rows[m] = {**outcome.measured, "theory": float(levels[m]), "runs": len(heights)}
    return Outcome(rows, worst(*words), max(map(len, found.values()), default=0))


def judge_pooled(groups: Mapping[Any, Sequence[bool]], measured: Any, *, share: float = 0.5) -> Outcome:
    """A share of events of several kinds: its confidence bound over all of them, and more than half of every kind.

    For kinds too rare to have a bound each. A kind of which half or fewer pass makes the verdict inconclusive, and
    contradicted where its own bound says that fewer than half do.
    """
    outcome = judge_seeds([passed for group in groups.values() for passed in group], measured, share=share)
    kinds: list[Word] = [judge_seeds(group, measured).verdict for group in groups.values() if np.mean(group) <= 0.5]
    return Outcome(measured, worst(outcome.verdict, *kinds), outcome.seeds)


def judge_within(values: Sequence[float] | np.ndarray, expected: float, tolerance: float) -> Outcome:
    """The mean, give or take two standard errors, lies within a tolerance of what is expected.

    Contradicted where all of that interval lies outside; inconclusive where it reaches over the edge.
    """
    array = np.asarray(values, float)
    mean, room = float(np.mean(array)) if array.size else float("nan"), 2 * standard_error(array)
    measured = {"mean": mean, "standard error": room / 2}
    if not np.isfinite(mean):
        return Outcome(measured, "failed", array.size)
    away = abs(mean - expected)
    word: Word = (
        "reproduced" if away + room <= tolerance else "contradicted" if away - room > tolerance else "inconclusive"
    )
    return Outcome(measured, word, array.size)
