"""Optima over sampled spectra against closed forms and quadratures."""

import numpy as np
import pytest

from iclearn.theory import depth


def test_one_step_on_uniform_inputs_is_the_closed_form():
    spectra = depth.uniform_spectra(10, 10, 20_000, seed=3)
    best, exact = depth.sampled_tied_descent(spectra, 1), depth.uniform_step(10, 10)
    assert best.loss / 24 == pytest.approx(exact.loss, abs=4 * best.error / 24)
    assert best.steps[0] == pytest.approx(exact.step, rel=0.005)


def test_gaussian_spectra_give_the_exact_optima():
    spectra = depth.sample_spectra(5, 20, 60_000, seed=1)
    for found, exact in [
        (depth.sampled_tied_descent(spectra, 2), depth.tied_descent(5, 20, 2)),
        (depth.sampled_krylov(spectra, 3), depth.krylov(5, 20, 3)),
        (depth.sampled_tied_gdpp(spectra, 2), depth.tied_gdpp(5, 20, 2)),
    ]:
        assert found.loss == pytest.approx(exact.loss, abs=4 * found.error)
        np.testing.assert_allclose(found.steps, exact.steps, rtol=0.05)


def test_the_range_of_the_inputs_only_rescales():
    small, large = (depth.uniform_spectra(3, 5, 500, r, seed=2) for r in (1.0, 2.0))
    one, two = depth.sampled_krylov(small, 2), depth.sampled_krylov(large, 2)
    assert two.loss == pytest.approx(one.loss)
    np.testing.assert_allclose(np.array(two.steps) * 4, one.steps)
