"""The plateau detector where it used to be wrong: it is right, or it says what it cannot tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

from iclearn.core.errors import IclearnError
from iclearn.probes.plateaus import find_plateaus

TIME = np.linspace(0, 100, 2001)


def logistic(time: np.ndarray, middle: float, width: float) -> np.ndarray:
    return 1 / (1 + np.exp(np.clip((time - middle) / width, -500, 500)))


def three_drops(time: np.ndarray = TIME) -> np.ndarray:
    return sum(size * logistic(time, at, 0.5) for size, at in ((0.4, 20), (0.35, 50), (0.25, 80)))


def autoregressive(sd: float, memory: float, size: int, seed: int) -> np.ndarray:
    draws = sd * np.random.default_rng(seed).normal(size=size)
    draws[1:] *= (1 - memory**2) ** 0.5
    return lfilter([1.0], [1.0, -memory], draws)


def right_or_silent(loss: np.ndarray) -> bool:
    """Whether it says the three drops of `three_drops` (True), or that it cannot tell (False)."""
    found = find_plateaus(loss, time=TIME)
    if found.doubt:
        return False
    assert found.drop_times == pytest.approx([20, 50, 80], abs=1)
    assert found.heights == pytest.approx([1, 0.6, 0.25], abs=0.05)
    return True


@pytest.mark.parametrize("sd", [0.01, 0.02, 0.04, 0.08])
def test_white_noise(sd):
    """At sd 0.08 the smallest drop is 3 standard deviations of a point, and 50 standard errors of a plateau's mean."""
    answers = [right_or_silent(three_drops() + autoregressive(sd, 0, TIME.size, seed)) for seed in range(10)]
    assert sum(answers) >= 8


@pytest.mark.parametrize("memory", [0.9, 0.97, 0.99])
def test_correlated_noise(memory):
    answers = [right_or_silent(three_drops() + autoregressive(0.014, memory, TIME.size, seed)) for seed in range(10)]
    assert sum(answers) >= 7


@pytest.mark.parametrize("period", [5, 10, 20, 40])
@pytest.mark.parametrize("amplitude", [0.01, 0.05])
def test_slow_oscillation(amplitude, period):
    answers = [
        right_or_silent(three_drops() + amplitude * np.sin(2 * np.pi * TIME / period + phase)) for phase in range(4)
    ]
    assert amplitude > 0.01 or all(answers)


def test_swings_as_large_as_the_curve_are_in_doubt():
    for loss in (np.sin(TIME), np.exp(-TIME / 20) * np.cos(TIME)):
        found = find_plateaus(loss, time=TIME)
        assert len(found) == 0
        assert "up and down" in found.doubt
    assert not find_plateaus(1 + autoregressive(0.05, 0, TIME.size, 0), time=TIME).doubt  # noise about a constant


def test_two_drops_that_move_apart():
    """One drop, then a stretch between two that is nearly ten times slower and said to be in doubt, then two drops."""
    sure = []
    for distance in (10, 15, 20, 25, 28, 30, 32, 34, 35, 36, 38, 40, 50):
        time = np.linspace(0, 70 + distance, 3000)
        found = find_plateaus(0.5 * logistic(time, 30, 3) + 0.5 * logistic(time, 30 + distance, 3), time=time)
        if not found.doubt:
            sure.append((distance, len(found)))
    assert sure == [(10, 1), (15, 1), (38, 2), (40, 2), (50, 2)]


@pytest.mark.parametrize("points", [171, 1701])
def test_straight_stretches_are_told_by_how_much_slower_they_are(points):
    """Three stretches r times slower than the two drops between them: two plateaus from r = 10 on, in doubt from 5."""
    time = np.linspace(0, 170, points)
    knots = np.array([0, 50, 60, 110, 120, 170])
    for slower in (2, 4, 5.1, 6, 7, 8, 9, 9.9, 10.1, 11, 12, 14, 16, 18, 20, 25, 40, 100, 1000):
        speeds = np.array([1 / slower, 1, 1 / slower, 1, 1 / slower])
        heights = -np.concatenate([[0], np.cumsum(np.diff(knots) * speeds)])
        found = find_plateaus(np.interp(time, knots, heights), time=time)
        assert len(found) == (2 if slower > 10 else 0)
        assert bool(found.doubt) == (5 < slower < 10)


@settings(deadline=None, max_examples=15)
@given(
    sizes=st.lists(st.floats(0.05, 1), min_size=1, max_size=5),
    width=st.floats(0.3, 4),
    noise=st.sampled_from([0.0, 0.0, 0.003, 0.03]),
    points=st.integers(60, 1500),
)
def test_more_contrast_never_finds_more(sizes, width, noise, points):
    time = np.linspace(0, 100, points)
    places = 100 * (np.arange(len(sizes)) + 1) / (len(sizes) + 1)
    loss = sum(size * logistic(time, at, width) for size, at in zip(sizes, places, strict=True))
    loss = loss + autoregressive(noise, 0.5, points, points)
    counts = [len(find_plateaus(loss, time=time, contrast=c)) for c in (10, 11, 13, 20, 50, 100)]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize("points", [60, 1000, 40_001])
@pytest.mark.parametrize("spacing", ["equal in logarithmic time", "equal in time"])
def test_drops_decades_apart(points, spacing):
    """Three drops 1.5 decades apart, t⁻⁴ after each: steps in logarithmic time, hardly any in linear time."""
    time = np.geomspace(1, 1e5, points) if "log" in spacing else np.linspace(1, 1e5, max(points, 40_001))
    loss = sum(1 / (1 + (time / at) ** 4) for at in (10, 10**2.5, 1e4)) / 3
    found = find_plateaus(loss, time=time, scale="log")
    assert found.heights == pytest.approx([1, 2 / 3, 1 / 3], abs=0.02)
    assert found.drop_times == pytest.approx([10, 10**2.5, 1e4], rel=0.05)
    assert all(drop.width == pytest.approx(1.14 * drop.time, rel=0.1) for drop in found.drops)  # 9^¼ − 9^−¼
    assert not found.doubt
    linear = find_plateaus(loss, time=time)
    assert len(linear) == 0
    assert 'scale="log"' in linear.doubt


@pytest.mark.parametrize("sd", [0.0, 0.01])
def test_six_decades_under_noise(sd):
    time = np.geomspace(1, 1e6, 3000)
    loss = sum(logistic(np.log(time), np.log(10) * at, 0.1) for at in (1, 2, 3, 4, 5))
    found = find_plateaus(loss + autoregressive(sd, 0, time.size, 1), time=time, scale="log")
    assert found.heights == pytest.approx([5, 4, 3, 2, 1], abs=0.02)
    assert np.log10(found.drop_times) == pytest.approx([1, 2, 3, 4, 5], abs=0.03)
    assert not found.doubt


def test_logarithmic_time_is_linear_time_of_the_logarithm():
    time = np.geomspace(0.1, 1e3, 900)
    loss = 0.7 * logistic(np.log(time), 0, 0.2) + 0.3 * logistic(np.log(time), 4, 0.2)
    found = find_plateaus(loss, time=time, scale="log")
    same = find_plateaus(loss, time=np.log(time))
    assert found.drop_times == pytest.approx(np.exp(same.drop_times))
    assert [p.end for p in found] == pytest.approx([np.exp(p.end) for p in same])
    assert found.heights == pytest.approx(same.heights)
    with_zero = find_plateaus(np.append(loss[0], loss), time=np.append(0.0, time), scale="log")
    assert with_zero == found


@pytest.mark.parametrize("points", [100, 3000])
def test_power_laws_have_no_plateau_in_logarithmic_time(points):
    time = np.geomspace(1, 1e4, points)
    for power in (0.2, 0.5, 1, 2):
        assert len(find_plateaus(time**-power, time=time, scale="log")) == 0


def test_a_short_rest_is_told_in_words():
    time = np.linspace(0, 88, 2000)
    found = find_plateaus(three_drops(time), time=time)
    assert found.unfinished
    assert found.sentence == "at rest since 81.0989, for less than a fifth of the whole time"  # 80 + ln(9)/2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scale": "log", "time": np.arange(-1, 4)}, "the first of these times is -1"),
        ({"scale": "log", "time": np.arange(2), "loss": np.ones(2)}, "at least 8 points after time 0, not 1"),
        ({"contrast": 5.0}, "at least 10, not 5.0"),
        ({"contrast": np.nan}, "at least 10, not nan"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(IclearnError, match=words):
        find_plateaus(**{"loss": np.ones(5), **changes})
