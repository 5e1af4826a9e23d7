"""Numbers kept of a run, from its sampled curve."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.crossing import first_below
from iclearn.engines.reductions import MOST, reduce_curves, sample_steps


def staircase(steps: np.ndarray, heights, drops) -> np.ndarray:
    """Steps down from heights[k] to heights[k+1] at drops[k], each over a few steps."""
    curve = np.full(steps.shape, float(heights[0]))
    for upper, lower, at in zip(heights[:-1], heights[1:], drops, strict=True):
        curve -= (upper - lower) / (1 + np.exp(-(steps - at) / 2.0))
    return curve


def reduced(curve, steps, levels=None, minimum=np.nan):
    found = reduce_curves(
        jnp.asarray(curve)[None],
        jnp.asarray(steps),
        jnp.asarray([minimum]),
        None if levels is None else jnp.asarray(levels, float)[None],
    )
    return {name: np.asarray(value)[0] for name, value in found.items()}


@given(steps=st.integers(1, 5000), samples=st.integers(1, 400))
@settings(deadline=None, max_examples=200)
def test_sample_steps(steps, samples):
    marks = sample_steps(steps, samples)
    assert marks[0] == 0
    assert marks[-1] == steps - 1
    assert len(marks) <= samples + 1
    assert (np.diff(marks) > 0).all()
    assert len(set(np.diff(marks)[:-1])) <= 1


def test_a_staircase_is_read_off():
    steps = sample_steps(1001, 500)
    heights, drops = [1.0, 0.6, 0.3, 0.1], [200, 500, 700]
    found = reduced(staircase(steps, heights, drops), steps, heights, minimum=0.1)
    np.testing.assert_allclose(found["crossing_step"], drops, atol=1)
    np.testing.assert_allclose(found["dwell_steps"], [200, 300, 200, 301], atol=25)
    assert found["slow_count"] == 3
    np.testing.assert_allclose(found["slow_height"][:3], heights[:3], atol=1e-3)
    np.testing.assert_allclose(found["slow_steps"][:3], [200, 300, 200], atol=30)
    assert np.isnan(found["slow_height"][3:]).all()
    assert found["slow_height"].shape == (MOST,)
    assert found["status"] == 1  # at its minimum
    assert found["status_step"] == 1001


def test_every_step_near_a_level_counts_once():
    """Half of a gap of 1 above, and of 4 below: near is a tenth of the gap on each side."""
    levels = [6.0, 5.0, 1.0]
    curve = np.array([6.1, 6.0, 5.9, 5.2, 5.09, 4.7, 4.61, 4.5, 1.5, 1.39, 1.0, 0.61])
    found = reduced(curve, np.arange(12), levels)
    assert found["dwell_steps"].tolist() == [3, 3, 3]
    stretched = reduced(curve, 5 * np.arange(12), levels)
    assert stretched["dwell_steps"].tolist() == [15, 15, 11], "the last sample stands for one step"


def test_the_height_of_a_slow_stretch_is_that_of_its_middle():
    steps = np.arange(1001)
    curve = np.interp(steps, [0, 50, 850, 900, 1000], [1.0, 0.6, 0.56, 0.0, 0.0])
    found = reduced(curve, steps)
    assert found["slow_count"] == 1
    assert found["slow_height"][0] == pytest.approx(0.58, abs=1e-4)
    assert (found["slow_start"][0], found["slow_steps"][0]) == (50, 800)


def test_a_curve_that_touches_a_height_has_not_fallen_below_it():
    curve, times = np.array([2.0, 1.0, 1.0, 0.0]), np.array([0.0, 1.0, 2.0, 4.0])
    assert first_below(curve, times, 1.0) == 2.0
    assert first_below(curve, times, 0.5) == 3.0
    assert first_below(curve, times, 3.0) == 0.0
    assert np.isnan(first_below(curve, times, 0.0))


def test_an_unfinished_run_has_no_later_crossings():
    steps = sample_steps(401, 200)
    heights = [1.0, 0.6, 0.3, 0.1]
    found = reduced(staircase(steps, heights, [200, 500, 700]), steps, heights, minimum=0.1)
    assert found["crossing_step"][0] == pytest.approx(200, abs=2)
    assert np.isnan(found["crossing_step"][1:]).all()
    assert found["status"] == 0


def test_an_exponential_has_no_slow_stretch():
    steps = sample_steps(1001, 250)
    assert reduced(np.exp(-steps / 100.0), steps)["slow_count"] == 0


def test_a_curve_that_has_left_nothing_has_no_number_of_slow_stretches():
    """Where nothing falls, and where a run that could lose 0.9 has lost a hundredth of it."""
    steps = sample_steps(1001, 250)
    start = 1 - 0.009 * np.exp((steps - 1000) / 50.0)
    for curve, minimum in ((np.ones(len(steps)), np.nan), (np.ones(len(steps)), 0.1), (start, 0.1)):
        found = reduced(curve, steps, minimum=minimum)
        assert np.isnan(found["slow_count"])
        assert np.isnan(found["slow_height"]).all()
    assert reduced(start, steps)["slow_count"] == 1
    assert reduced(start, steps, minimum=0.9)["slow_count"] == 1


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9])
def test_divergence_is_a_status_with_its_step(bad):
    steps = sample_steps(101, 50)
    curve = np.ones(len(steps))
    curve[30:] = bad
    found = reduced(curve, steps)
    assert found["status"] == 2
    assert found["status_step"] == steps[30]


@given(
    scale=st.floats(1e-6, 1e6),
    stretch=st.integers(1, 50),
)
@settings(deadline=None, max_examples=50)
def test_units_do_not_matter(scale, stretch):
    """Losses in another unit and time in another unit change nothing but themselves."""
    steps = sample_steps(601, 300)
    heights = np.array([1.0, 0.5, 0.2])
    curve = staircase(steps, heights, [150, 400])
    plain, other = reduced(curve, steps, heights), reduced(scale * curve, stretch * steps, scale * heights)
    np.testing.assert_allclose(other["crossing_step"], stretch * plain["crossing_step"], rtol=1e-6)
    assert other["slow_count"] == plain["slow_count"]
    np.testing.assert_allclose(other["slow_height"], scale * plain["slow_height"], rtol=1e-12)
