"""Escape and growth times, and the laws fitted to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saddle_runs import draw, linear_spectrum, saddle_levels, train
from scipy.stats import linregress

from iclearn.core.errors import IclearnError
from iclearn.probes.growth import drop_times, escape_time, fit_log_law, fit_power_law, growth_times


def test_growth_times_interpolate_and_say_never():
    time = np.array([0.0, 1.0, 3.0])
    values = np.array([[0.0, 5.0, 0.0], [-4.0, 5.0, 0.0], [-8.0, 5.0, 0.1]])
    assert growth_times(values, time=time)[:2].tolist() == [1.0, 0.0]
    assert growth_times(values, time=time, fraction=0.75)[0] == 2.0
    never = growth_times(values, time=time, target=np.array([8.0, 5.0, 8.0]))
    assert np.isnan(never[2])


@settings(deadline=None, max_examples=40)
@given(rate=st.floats(0.1, 10), fraction=st.floats(0.05, 0.95))
def test_escape_time_of_an_exponential(rate, fraction):
    time = np.linspace(0, 20 / rate, 20_001)
    found = escape_time(np.exp(-rate * time), time=time, end=0.0, fraction=fraction)
    assert found == pytest.approx(-np.log(1 - fraction) / rate, rel=1e-3)


def test_escape_time_between_levels():
    time = np.arange(6.0)
    loss = np.array([4.0, 4.0, 2.0, 2.0, 0.0, 0.0])
    assert escape_time(loss, time=time) == 2.0
    assert escape_time(loss, time=time, start=4, end=2) == 1.5
    assert escape_time(loss, time=time, start=2, end=0) == 3.5
    assert np.isnan(escape_time(loss, time=time, end=-8.0))


def test_escape_of_one_head_goes_like_one_over_its_weights():
    """zhang2025, eq. 21: duration about τ/(gain λ² v₀), so slope −1 in v₀; from the loss and from the value weight."""
    sizes = np.array([2e-3, 4e-3, 8e-3])
    levels = saddle_levels(linear_spectrum(4), 31)
    by_loss, by_value = [], []
    for size in sizes:
        value, key, query = draw(0, 4, 1, 1, 1e-6)
        value[0] = key[0, 0, 0] = query[0, 0, 0] = size
        steps = round(60 / size / 20) * 20
        run = train(0, dim=4, heads=1, steps=steps, weights=(value, key, query))
        by_loss.append(escape_time(run.loss, time=run.time, start=levels[0], end=levels[1]))
        by_value.append(float(growth_times(run.value[:, 0], time=run.record_time)))
        assert drop_times(run.loss, time=run.time) == pytest.approx(by_loss[-1:], rel=1e-2)
    for times in (by_loss, by_value):
        assert fit_power_law(sizes, times).slope == pytest.approx(-1, abs=0.03)
        # What the final size adds is the same for all: differences follow 1/v₀ alone.
        assert np.diff(times) * 31 * 0.4**2 == pytest.approx(np.diff(1 / sizes), rel=5e-3)


def test_power_law_and_its_errors():
    """Over many draws the errors are those of the slopes: 5 % of noise in y, twenty points."""
    rng = np.random.default_rng(0)
    x = np.geomspace(1, 100, 20)
    fits = [fit_power_law(x, 3 * x**-1.5 * np.exp(0.05 * rng.normal(size=20))) for _ in range(500)]
    slopes = np.array([f.slope for f in fits])
    errors = np.array([f.slope_error for f in fits])
    assert slopes.mean() == pytest.approx(-1.5, abs=4 * slopes.std() / 500**0.5)
    assert np.mean(errors) == pytest.approx(slopes.std(), rel=0.1)
    prefactors = np.log([f.prefactor for f in fits])
    assert np.mean([f.intercept_error for f in fits]) == pytest.approx(prefactors.std(), rel=0.1)
    assert np.mean([f.residual for f in fits]) == pytest.approx(0.05, rel=0.05)
    exact = fit_power_law(x, 3 * x**-1.5)
    assert (exact.slope, exact.prefactor, exact.num_points) == (pytest.approx(-1.5), pytest.approx(3), 20)


def test_errors_of_a_fit_to_few_points_are_those_of_ordinary_least_squares():
    x, y = np.geomspace(1, 30, 4), np.array([1.0, 2.5, 2.0, 4.0])
    law = fit_log_law(x, y)
    expected: Any = linregress(np.log(x), y)
    assert (law.slope, law.intercept) == pytest.approx((expected.slope, expected.intercept))
    assert law.slope_error == pytest.approx(expected.stderr)
    assert law.intercept_error == pytest.approx(expected.intercept_stderr)
    left = y - expected.intercept - expected.slope * np.log(x)
    assert law.residual == pytest.approx(np.sqrt(left @ left / 2))  # four points less two coefficients


def test_log_law():
    x = np.geomspace(1e-6, 1e-2, 9)
    law = fit_log_law(x, 7 - 2 * np.log(x))
    assert (law.slope, law.intercept) == (pytest.approx(-2), pytest.approx(7))
    assert law.slope_error < 1e-9
    assert fit_log_law(x, 1 / x).residual > 1e4  # a power law is not a logarithm


def test_refusals():
    with pytest.raises(IclearnError, match="positive x and y"):
        fit_power_law([1, 2, 3], [1, -1, 2])
    with pytest.raises(IclearnError, match="at least 3 points"):
        fit_power_law([1, 2], [1, 2])
    with pytest.raises(IclearnError, match="at different x"):
        fit_log_law([2, 2, 2], [1, 2, 3])
    with pytest.raises(IclearnError, match="from a higher to a lower loss"):
        escape_time(np.array([1.0, 2.0]))
    with pytest.raises(IclearnError, match="at least 2 records"):
        growth_times(np.ones((1, 3)))
    with pytest.raises(IclearnError, match="fraction must be"):
        growth_times(np.ones(3), fraction=0)
