"""Bootstrap bands of errors and of their differences."""

import numpy as np
import pytest

import iclearn as icl
from iclearn.probes import bootstrap_band, paired_band


def test_the_band_covers_a_known_mean_in_about_nine_of_ten_repetitions():
    """Errors of least squares at i = 3 of d = 6 are (w·P q)²: mean 1 − i/d; 85 to 95 % of 200 repetitions."""
    covered = 0
    for seed in range(200):
        g = np.random.default_rng(seed)
        each = np.stack([(g.standard_normal((300, 3)) * g.standard_normal((300, 3))).sum(1) ** 2 / 6], 1)
        covered += not bootstrap_band(each, trials=200, seed=seed).excludes(0.5)[0]
    assert 0.85 <= covered / 200 <= 0.95


def test_differences_on_the_same_prompts_show_what_two_bands_do_not():
    g = np.random.default_rng(0)
    errors = g.standard_normal((400, 2)) ** 2
    better = errors * 0.98
    one, other = (bootstrap_band(e) for e in (errors, better))
    assert (one.low < other.high).all()  # the two bands overlap
    assert paired_band(errors, better).excludes(0.0).all()
    assert not paired_band(errors, g.permutation(errors)).excludes(0.0).any()


def test_medians_do_not_see_outliers():
    values = np.ones((100, 1))
    values[:5] = 1e9
    band = bootstrap_band(values)
    assert band.mean > 1e7
    assert band.median == band.trimmed == 1


def test_what_cannot_be_resampled_is_refused():
    with pytest.raises(icl.IclearnError, match="two prompts"):
        bootstrap_band(np.ones((1, 3)))
    with pytest.raises(icl.IclearnError, match="one shape"):
        paired_band(np.ones((4, 3)), np.ones((5, 3)))


def test_the_band_of_a_constant_is_the_constant():
    band = bootstrap_band(np.full((7, 2), 3.0), trials=50)
    np.testing.assert_allclose([band.low, band.high], 3.0, rtol=1e-12)
