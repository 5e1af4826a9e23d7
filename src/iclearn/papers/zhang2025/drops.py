"""When each eigenvector is learned: read off the weights of a run, and predicted from its initial weights alone."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import theilslopes

from ...core.trace import Trace
from ...probes.alignment import HeadAssignment, assign_heads, contributions, learned_strengths
from ...probes.growth import growth_times
from ...probes.reading import record_times
from ...theory.zhang2025 import Drop, SeparateWeights, drop_sequence, read_weights
from ..judging import Outcome, Word, worst
from .setup import CONTEXT, GAIN, basis, eigenvalues, once_a_run

HALF = 1 - 0.5**0.5  # of W along an eigenvector: its part of the loss, ∝ (1 − W/w)², is then half gone
LEAST = 6  # waits of a group


@dataclass(frozen=True)
class Wait:
    """From the drop of eigenvector m to that of the next (from the start to the first), in t/τ.

    Args:
        component: m + 1 counted from 0: the eigenvector whose drop ends the wait.
        new_head: whether the theory expects a new head to end it, or a new pair of a grown one.
        measured: a lower bound where the run ended before it, and that bound is above what was predicted.
    """

    component: int
    new_head: bool
    measured: float
    predicted: float


def predicted_drops(trace: Trace, count: int | None = None) -> list[Drop]:
    """The drops that the theory expects of this run, from its initial weights: nothing is fitted."""
    arrays = {**trace.weights(0), "basis": basis(trace)}
    return _drops(tuple((name, array.shape, array.tobytes()) for name, array in arrays.items()), count)


@functools.lru_cache(maxsize=512)  # several claims and their counter-examples ask for the same runs
def _drops(contents: tuple[tuple[str, tuple[int, ...], bytes], ...], count: int | None) -> list[Drop]:
    arrays = {name: np.frombuffer(content).reshape(shape) for name, shape, content in contents}
    weights = read_weights({name: array for name, array in arrays.items() if name != "basis"})
    assert isinstance(weights, SeparateWeights)
    values = eigenvalues(weights.key.shape[-1])
    return drop_sequence(weights, values, CONTEXT, basis=arrays["basis"], gain=GAIN, count=count)


_assigned: dict[bytes, HeadAssignment] = {}  # several claims and their counter-examples ask for the same runs


@once_a_run
def assignment(trace: Trace) -> HeadAssignment:
    """Which head learned which eigenvector, in the order of time."""
    held = trace.data.variables
    arrays = [held[f"weight_{name}"].values for name in ("value", "key", "query")]
    content = [*arrays, held["time"].values, held["record"].values, held["covariance"].values]
    digest = hashlib.sha1(b"".join(array.tobytes() for array in content)).digest()
    if digest not in _assigned:
        strengths = learned_strengths(eigenvalues(arrays[-1].shape[-1]), CONTEXT, gain=GAIN)
        _assigned[digest] = assign_heads(trace, strengths)
    return _assigned[digest]


@once_a_run
def learned_times(trace: Trace) -> np.ndarray:
    """t/τ at which half of each eigenvector's drop of the loss is done, by the weights; NaN where it never is."""
    parts = contributions(trace).sum(1)
    progress = parts / learned_strengths(eigenvalues(parts.shape[1]), CONTEXT, gain=GAIN)
    return growth_times(progress, time=record_times(trace, len(progress)), fraction=HALF, target=1.0)


@once_a_run
def waits(trace: Trace) -> list[Wait]:
    """Every wait of a run up to the first that did not end; that one only where it is longer than predicted."""
    times, end = learned_times(trace), float(record_times(trace, trace.data.sizes["record"])[-1])
    found: list[Wait] = []
    before = expected = 0.0
    for drop in predicted_drops(trace):
        time, predicted = float(times[drop.component]), drop.time - expected
        if not np.isfinite(time):
            if end - before > predicted:
                found.append(Wait(drop.component, drop.new_head, end - before, predicted))
            break
        found.append(Wait(drop.component, drop.new_head, time - before, predicted))
        before, expected = time, drop.time
    return found


def by_kind(found: Sequence[Wait]) -> dict[str, list[Wait]]:
    """Waits that a new head ends, and those that a new pair of a grown head ends, where there are any."""
    groups = {
        "new heads": [wait for wait in found if wait.new_head],
        "new pairs": [wait for wait in found if not wait.new_head],
    }
    return {name: group for name, group in groups.items() if group}


def judge_waits(groups: Mapping[str, Sequence[Wait]], center: float, spread: float) -> Outcome:
    """In every group the median of measured/predicted is within `center` of 1 and both quartiles within `spread`.

    Contradicted where a median is beyond three times `center`.
    """
    rows, words = {}, []
    for name, found in groups.items():
        ratios = np.array([wait.measured / wait.predicted for wait in found])
        low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75]) if len(ratios) else [np.nan] * 3
        rows[name] = {"quartiles": [low, median, high], "waits": len(ratios)}
        off, wide = abs(median - 1), max(abs(low - 1), abs(high - 1))
        word: Word = "failed" if not np.isfinite(off + wide) else "inconclusive"
        if off > 3 * center:
            word = "contradicted"
        elif off <= center and wide <= spread and len(ratios) >= LEAST:
            word = "reproduced"
        words.append(word)
    return Outcome(rows, worst(*words), max(map(len, groups.values()), default=0))


def judge_exponent(groups: Mapping[str, Sequence[Wait]], dim: int, tolerance: float) -> Outcome:
    """The power of λ by which measured waits differ from predicted ones is 0: fitted freely, by Theil and Sen.

    Reproduced where the 95 % interval of the power lies within the tolerance, contradicted where it lies outside it.
    The power of the measured waits themselves is reported beside it.
    """
    rows, words = {}, []
    for name, found in groups.items():
        ended = [wait for wait in found if wait.measured > 0 and wait.predicted > 0]
        x = np.log(eigenvalues(dim)[[wait.component for wait in ended]])
        if len(ended) < LEAST or np.ptp(x) == 0:
            rows[name], word = {"waits": len(ended)}, "inconclusive"
        else:
            measured = np.log([wait.measured for wait in ended])
            ratio = measured - np.log([wait.predicted for wait in ended])
            power, _, low, high = (float(number) for number in tuple(theilslopes(ratio, x, alpha=0.95)))  # type: ignore[arg-type]
            raw = np.polyfit(x, measured, 1)[0]
            rows[name] = {"of measured / predicted": [low, power, high], "of measured": raw, "waits": len(ended)}
            inside, outside = max(-low, high) <= tolerance, max(low, -high) > tolerance
            word = "reproduced" if inside else "contradicted" if outside else "inconclusive"
        words.append(word)
    return Outcome(rows, worst(*words), max(map(len, groups.values()), default=0))
