"""The plateau detector on curves whose plateaus are known, and on curves that have none."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.core.status import Status
from iclearn.core.trace import Trace
from iclearn.probes.plateaus import find_plateaus

RISES = np.array([1.0, 3.0, 7.0, 13.0, 22.0, 35.0, 55.0, 80.0])
SIZES = np.array([0.20, 0.18, 0.15, 0.13, 0.10, 0.09, 0.08, 0.07])


def staircase(time: np.ndarray, drops: np.ndarray, sizes: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Logistic drops of these sizes, the loss ending at 0."""
    steepness = np.clip((time[:, None] - drops) / widths, -500, 500)
    return (sizes / (1 + np.exp(steepness))).sum(1)


def noise_of(kind: str, scale: float, loss: np.ndarray, seed: int) -> np.ndarray:
    draws = scale * np.random.default_rng(seed).normal(size=loss.size)
    return {"none": 0 * draws, "additive": draws, "relative": draws * loss}[kind]


DECAYS = {
    "exponential": lambda t: np.exp(-t / 5),
    "slow exponential": lambda t: np.exp(-t / 50),
    "fast exponential": lambda t: np.exp(-t / 0.5),
    "sum of exponentials": lambda t: 0.4 * np.exp(-2 * t) + 0.3 * np.exp(-t / 5) + 0.3 * np.exp(-t / 100),
    "two far time scales": lambda t: 0.5 * np.exp(-10 * t) + 0.5 * np.exp(-t / 1000),
    "1/t": lambda t: 1 / (1 + t),
    "1/sqrt(t)": lambda t: 1 / np.sqrt(1 + 10 * t),
    "straight": lambda t: 1 - t / 100,
    "constant": lambda t: np.ones_like(t),
}


@pytest.mark.parametrize("points", [100, 3000, 100_000])
@pytest.mark.parametrize("decay", DECAYS)
def test_no_plateau_in_a_curve_that_only_slows_down(decay, points):
    time = np.linspace(0, 100, points)
    assert len(find_plateaus(DECAYS[decay](time), time=time)) == 0


@pytest.mark.parametrize("scale", [1e-3, 1e-2, 5e-2])
@pytest.mark.parametrize("kind", ["additive", "relative"])
@pytest.mark.parametrize("decay", DECAYS)
def test_noise_makes_no_plateaus(decay, kind, scale):
    for seed, points in enumerate((100, 1000, 20_000)):
        time = np.linspace(0, 100, points)
        loss = DECAYS[decay](time)
        assert len(find_plateaus(loss + noise_of(kind, scale, loss, seed), time=time)) == 0


@settings(deadline=None, max_examples=40)
@given(
    shares=st.lists(st.floats(0.05, 1), min_size=1, max_size=5),
    rates=st.lists(st.floats(-3, 1.5), min_size=5, max_size=5),
    points=st.integers(50, 2000),
    logarithmic=st.booleans(),
)
def test_completely_monotone_curves_have_no_plateau(shares, rates, points, logarithmic):
    time = np.concatenate([[0], np.geomspace(0.01, 100, points)]) if logarithmic else np.linspace(0, 100, points)
    speeds = 10.0 ** np.array(rates[: len(shares)])
    assert len(find_plateaus((np.array(shares) * np.exp(-time[:, None] * speeds)).sum(1), time=time)) == 0


@pytest.mark.parametrize("points", [100, 1000, 100_000])
def test_single_drop(points):
    time = np.linspace(0, 100, points)
    found = find_plateaus(staircase(time, np.array([40.0]), np.array([1.0]), np.array([1.0])), time=time)
    (plateau,) = found
    assert plateau.start == 0
    assert plateau.end == pytest.approx(40 - np.log(9), abs=0.2)  # a logistic has gone a tenth at −ln 9
    assert plateau.height == pytest.approx(1, abs=1e-5)
    assert found.drop_times == pytest.approx([40], abs=0.1)
    assert found.drops[0].width == pytest.approx(2 * np.log(9), abs=0.2)
    assert found.drops[0].size == pytest.approx(1, abs=1e-6)
    assert not found.unfinished
    assert found.floor is not None
    assert found.floor.height == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("points", [1000, 100_000])
def test_staircase_of_eight_whose_steps_get_slower(points):
    time = np.linspace(0, 100, points)
    found = find_plateaus(staircase(time, RISES, SIZES, RISES / 60), time=time)
    heights = 1 - np.concatenate([[0], np.cumsum(SIZES)[:-1]])
    assert len(found) == 8
    assert np.abs(found.heights - heights).max() < 2e-4
    assert found.drop_times == pytest.approx(RISES, rel=0.02)
    starts = np.array([p.start for p in found])
    ends = np.array([p.end for p in found])
    assert (starts[1:] > found.drop_times[:-1]).all()
    assert (ends < found.drop_times).all()
    assert not found.unfinished


@pytest.mark.parametrize(("kind", "scale"), [("additive", 1e-2), ("additive", 3e-2), ("relative", 5e-2)])
def test_staircase_under_noise(kind, scale):
    time = np.linspace(0, 100, 100_000)
    clean = staircase(time, RISES, SIZES, RISES / 100) + 0.2
    heights = 1.2 - np.concatenate([[0], np.cumsum(SIZES)[:-1]])
    for seed in range(3):
        found = find_plateaus(clean + noise_of(kind, scale, clean, seed), time=time)
        assert len(found) == 8
        errors = np.abs(found.heights - heights)
        assert (errors < 4 * np.array([p.uncertainty for p in found])).all()
        assert found.drop_times == pytest.approx(RISES, rel=0.05)


def test_plateaus_on_logarithmic_heights():
    """Levels a thousandfold apart: each drop is tiny beside the one before, and still the fastest thing there."""
    time = np.linspace(0, 100, 20_000)
    found = find_plateaus(
        staircase(time, np.array([20.0, 50.0, 80.0]), np.array([1.0, 1e-3, 1e-6]), np.full(3, 0.2)), time=time
    )
    assert found.heights == pytest.approx([1.001001, 1.001e-3, 1e-6], rel=1e-4)


@settings(deadline=None, max_examples=15)
@given(loss_scale=st.floats(-6, 6), time_scale=st.floats(-6, 6), shift=st.floats(-5, 5))
def test_units_do_not_matter(loss_scale, time_scale, shift):
    time = np.linspace(0, 100, 500)
    loss = staircase(time, np.array([10.0, 30.0, 80.0]), np.array([0.4, 0.3, 0.3]), np.array([0.3, 0.8, 1.0]))
    plain = find_plateaus(loss, time=time)
    a, b = 10.0**loss_scale, 10.0**time_scale
    scaled = find_plateaus(a * (loss + shift), time=b * time)
    assert len(scaled) == len(plain) == 3
    assert (scaled.heights / a - shift) == pytest.approx(plain.heights, abs=1e-9)
    assert scaled.drop_times / b == pytest.approx(plain.drop_times, rel=1e-6)
    assert scaled.unfinished == plain.unfinished


def test_stopped_on_a_plateau_above_the_minimum():
    time = np.linspace(0, 70, 2000)
    loss = staircase(time, RISES, SIZES, RISES / 60)  # the last drop is at 80
    without = find_plateaus(loss, time=time)
    assert len(without) == 7
    assert not without.unfinished  # nothing tells that it could go lower
    known = find_plateaus(loss, time=time, minimum=0.0)
    assert len(known) == 8
    assert known.unfinished
    assert known.floor is None
    assert known[-1].end == 70
    assert "stopped on a plateau at 0.07" in known.sentence


@pytest.mark.parametrize("end", [78.0, 80.0, 82.0])
def test_stopped_in_a_drop(end):
    time = np.linspace(0, end, 2000)
    found = find_plateaus(staircase(time, RISES, SIZES, RISES / 60), time=time)
    assert len(found) == 8
    assert found.unfinished
    assert found.floor is None


@pytest.mark.parametrize(("lifetimes", "unfinished"), [(1, True), (2, True), (6, False), (20, False)])
def test_end_of_an_exponential(lifetimes, unfinished):
    time = np.linspace(0, lifetimes, 1000)
    assert find_plateaus(np.exp(-time), time=time).unfinished == unfinished


def test_settling_on_its_minimum_is_finished():
    time = np.linspace(0, 12, 1000)
    assert not find_plateaus(0.3 + np.exp(-time), time=time, minimum=0.3).unfinished
    assert find_plateaus(0.3 + np.exp(-time), time=time, minimum=0.2).unfinished


def test_constant_curve():
    resting = find_plateaus(np.full(200, 0.7))
    assert (len(resting), resting.unfinished) == (0, False)
    assert resting.floor is not None
    assert resting.floor.height == pytest.approx(0.7)
    stuck = find_plateaus(np.full(200, 0.7), minimum=0.1)
    assert (len(stuck), stuck.unfinished) == (1, True)
    assert (stuck[0].start, stuck[0].end) == (0, 199)


def test_curve_that_falls_and_rises():
    """In-weight loss: learned, kept for a while, lost again."""
    time = np.linspace(0, 100, 3000)
    fall = staircase(time, np.array([20.0]), np.array([0.7]), np.array([0.5]))
    rise = staircase(time, np.array([70.0]), np.array([0.6]), np.array([0.8]))
    for seed, scale in enumerate((0.0, 1e-3, 1e-2)):
        loss = fall - rise + 0.9
        found = find_plateaus(loss + noise_of("additive", scale, loss, seed), time=time)
        assert found.heights == pytest.approx([1.0, 0.3], abs=0.01)
        assert found.drop_times == pytest.approx([20, 70], abs=0.3)
        assert [d.size for d in found.drops] == pytest.approx([0.7, -0.6], abs=0.03)
        assert found.floor is not None
        assert found.floor.height == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize("scale", [0.0, 0.02, 0.2])
def test_a_curve_that_rises_is_refused_and_one_that_noise_raises_is_at_rest(scale):
    time = np.linspace(0, 100, 3000)
    up = 5 - staircase(time, np.array([50.0]), np.array([4.0]), np.array([1.0]))
    noise = noise_of("additive", scale, up, 3)
    with pytest.raises(IclearnError, match=r"this loss curve rises, from .* and has no plateaus"):
        find_plateaus(up + noise, time=time)
    for seed in range(20):
        flat = find_plateaus(1 + 1e-3 * time / 100 * scale + noise_of("additive", scale, up, seed), time=time)
        assert all(drop.size >= 0 for drop in flat.drops)


def test_smooth_minimum_is_no_plateau():
    time = np.linspace(-1, 1, 1001)
    assert len(find_plateaus(time**2, time=time)) == 0


def test_trace_gives_its_own_time_and_minimum():
    time = np.linspace(0, 70, 2000)
    loss = staircase(time, RISES, SIZES, RISES / 60)
    data = xr.Dataset(
        {"loss": ("step", loss), "time": ("step", time), "loss_minimum": 0.0}, coords={"step": np.arange(2000)}
    )
    trace = Trace(data, Status.FINISHED, 2000, {"recipe_hash": "0" * 64})
    assert find_plateaus(trace) == find_plateaus(loss, time=time, minimum=0.0)


@pytest.mark.parametrize(
    ("loss", "time", "words"),
    [
        (np.array([1.0, np.nan, 0.5]), None, r"1 NaN or infinite values, the first at index \(1,\)"),
        (np.array([1.0, np.inf]), None, "NaN or infinite"),
        (np.ones(5), np.arange(4), "4 times were given for a loss curve of 5 points"),
        (np.ones(3), np.array([0.0, 2.0, 1.0]), "must increase"),
        (np.ones(1), None, "at least 2 points"),
        (np.array([3.0, 2.0, 1.0]), None, "plateaus are read off at least 8 points, not 3"),
        (np.ones((3, 2)), None, "1 axes"),
    ],
)
def test_refusals(loss, time, words):
    with pytest.raises(IclearnError, match=words):
        find_plateaus(loss, time=time)
