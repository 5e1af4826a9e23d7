"""The numbers behind the plateau detector: estimates of noise and memory, uncertainties, and its two lines."""

from __future__ import annotations

import numpy as np
import pytest

from iclearn.probes import curves, plateaus
from iclearn.probes.curves import Unfolded
from iclearn.probes.plateaus import find_plateaus


def noise_of(loss: np.ndarray, sigma: float = 1.0) -> Unfolded:
    """Points of white noise around a fit that is flat."""
    flat = np.zeros(loss.size)
    time = np.arange(loss.size, dtype=float)
    return Unfolded(time, loss, flat, flat, np.full(loss.size, sigma), memory=1.0, rise=0.0, log=False)


def test_noise_of_single_points_is_its_standard_deviation_whatever_smooth_curve_it_is_on():
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 20_000)
    for sigma in (1e-3, 0.1):
        found = curves._point_noise(np.exp(-3 * time) + sigma * rng.normal(size=time.size))
        assert found == pytest.approx(sigma, rel=0.03)


@pytest.mark.parametrize("memory", [0.0, 0.5, 0.8])
def test_the_memory_of_noise_is_its_correlation_time(memory):
    """An autoregressive process of coefficient ρ has 1 + 2 Σ ρ^k = (1 + ρ)/(1 − ρ); the sum ends where ρ^k < 0.1."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=100_000)
    for i in range(1, values.size):
        values[i] += memory * values[i - 1]
    lags = memory ** np.arange(1, 50)
    assert curves._correlation_time(values) == pytest.approx(1 + 2 * lags[lags >= 0.1].sum(), rel=0.06)


def test_the_uncertainty_of_a_height_is_its_deviation_over_draws():
    """Heights are medians over half of the stretch."""
    rng = np.random.default_rng(2)
    found = [plateaus._stretch(noise_of(rng.normal(size=400)), 0.0, 0.0, np.inf) for _ in range(3000)]
    heights, uncertainties = (np.array([getattr(p, name) for p in found]) for name in ("height", "uncertainty"))
    assert np.mean(uncertainties) == pytest.approx(heights.std(), rel=0.06)


def test_a_curve_without_noise_is_uncertain_by_half_of_its_drift_in_the_middle_half():
    time = np.linspace(0, 100, 2001)
    loss = np.interp(time, [0, 19, 20, 69, 70, 100], [1.0, 1.0, 0.55, 0.5, 0.0, 0.0])
    plateau = find_plateaus(loss, time=time)[1]
    quarter = plateau.duration / 4
    inside = (time >= plateau.start + quarter) & (time <= plateau.end - quarter)
    assert plateau.uncertainty == pytest.approx(np.ptp(loss[inside]) / 2, rel=1e-6)
    assert plateau.height == pytest.approx(np.median(loss[inside]), rel=1e-9)


def test_a_drop_counts_from_eight_standard_deviations_on():
    """Noise of ±1 never moves by more than 2; with 64 points the coarsest resolution has 8 deviations at 5.7."""

    def counted(step: float) -> int:
        found = 0
        for seed in range(24):
            noise = np.random.default_rng(seed).choice([-1.0, 1.0], 64)
            found += len(find_plateaus(noise + np.where(np.arange(64) < 32, step, 0)))
        return found

    assert counted(4.5) <= 8
    assert counted(7.0) == 24


@pytest.mark.parametrize(("last", "unfinished"), [(77, False), (83, True), (86, True)])
def test_a_curve_is_finished_after_a_fifth_of_its_time_at_rest(last, unfinished):
    time = np.linspace(0, 100, 2001)
    found = find_plateaus(1 / (1 + np.exp(3 * (time - last))), time=time)
    assert found.unfinished == unfinished
    assert (found.floor is None) == unfinished
