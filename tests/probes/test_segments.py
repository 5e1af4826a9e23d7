"""Knots and crossings of an unfolded curve, against the simplest way to find them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.probes.curves import Unfolded
from iclearn.probes.segments import _knots, crossing, crossings

# Steps of a curve and the least distance between knots, of the same order and far from it.
STEPS = st.one_of(st.just(0.0), st.floats(1e-3, 10.0), st.sampled_from([1e-9, 0.5, 1.0, 2.0, 3.0, 1e3]))
LEAST = st.one_of(st.floats(0.1, 5.0), st.sampled_from([1e-6, 0.5, 1.0, 100.0]))


@st.composite
def curves(draw) -> tuple[Unfolded, np.ndarray]:
    """A curve that has moved, and a least distance for each of its points."""
    steps = np.array(draw(st.lists(STEPS, min_size=1, max_size=60)))
    spans = np.array(draw(st.lists(st.floats(1e-3, 10.0), min_size=len(steps), max_size=len(steps))))
    least = np.array(draw(st.lists(LEAST, min_size=len(steps) + 1, max_size=len(steps) + 1)))
    traveled, time = np.append(0.0, np.cumsum(steps)), np.append(0.0, np.cumsum(spans))
    return Unfolded(time, -traveled, -traveled, traveled, np.zeros_like(time), 1.0, 0.0, False), least


def simple_knots(curve: Unfolded, least: np.ndarray) -> np.ndarray:
    """One knot after another, the next point searched for among all of them."""
    traveled, time = curve.traveled, curve.time
    knots = [(float(time[0]), 0.0)]
    here = 0
    while True:
        target = knots[-1][1] + least[here]
        reached = int(np.searchsorted(traveled, target, side="left"))
        if reached >= traveled.size:
            break
        jump = traveled[reached] - target >= least[here]
        if not (jump and reached == here + 1):
            share = (target - traveled[reached - 1]) / (traveled[reached] - traveled[reached - 1])
            knots.append((time[reached - 1] + share * (time[reached] - time[reached - 1]), target))
        if jump:
            knots.append((time[reached], traveled[reached]))
        here = reached if jump else reached - 1
    if time[-1] > knots[-1][0]:
        knots.append((time[-1], traveled[-1]))
    return np.array(knots)


@settings(max_examples=300, deadline=None)
@given(curves())
def test_knots_are_those_of_the_simple_search(drawn):
    curve, least = drawn
    least = np.maximum(least, 1e-4 * curve.traveled[-1])  # as many knots as the simple search finds in no time
    assert np.array_equal(np.column_stack(_knots(curve, least)), simple_knots(curve, least))


def test_knots_of_a_long_curve_of_jumps_and_rests():
    rng = np.random.default_rng(0)
    steps = np.where(rng.random(5000) < 0.7, rng.exponential(5.0, 5000), rng.exponential(0.2, 5000))
    steps[2000:2500] = 0
    traveled, time = np.append(0.0, np.cumsum(steps)), np.append(0.0, np.cumsum(rng.exponential(1.0, 5000)))
    curve = Unfolded(time, -traveled, -traveled, traveled, np.zeros_like(time), 1.0, 0.0, False)
    for size in (1e-3, 1.0, 30.0):
        least = size * rng.uniform(0.5, 2, 5001)
        assert np.array_equal(np.column_stack(_knots(curve, least)), simple_knots(curve, least))


@settings(max_examples=100, deadline=None)
@given(curves(), st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=8))
def test_one_crossing_is_the_first_of_crossings(drawn, shares):
    curve = drawn[0]
    distances = np.concatenate([curve.traveled, curve.traveled[-1] * np.array(shares)])
    found = [crossing(curve, float(distance)) for distance in distances]
    assert found == crossings(curve, distances).tolist()
    inside = (distances > 0) & (distances <= curve.traveled[-1])
    assert np.allclose(np.interp(found, curve.time, curve.traveled)[inside], distances[inside], rtol=1e-9, atol=1e-9)
