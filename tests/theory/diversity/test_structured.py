"""Structured tasks (letey2026): numbers of its figures, and the equivalent against random pools."""

import json

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.core.errors import IclearnError
from iclearn.theory.diversity import pool_errors, spectrum_resolvent, structured_errors, task_spectrum


def test_equal_eigenvalues_are_the_isotropic_formula():
    rng = np.random.default_rng(0)
    alpha, kappa, tau, rho = (10 ** rng.uniform(low, high, 60) for low, high in ((-1, 2), (-1, 1), (-1, 1), (-3, 0)))
    for lam in (0.0, 0.2):
        more = {"test_alpha": 3.0, "target_noise": lam}  # with ridge also another noise on the targets
        one = pool_errors(alpha, kappa, tau, rho, lam, train_variance=2.0, test_variance=0.5, **more)
        many = structured_errors(np.full(4, 2.0), np.full(4, 0.5), alpha, kappa, tau, rho, lam, **more)
        np.testing.assert_allclose(many.icl, one.icl, rtol=1e-9)
        np.testing.assert_allclose(many.idg, one.idg, rtol=1e-9)
        np.testing.assert_allclose(many.effective_ridge, one.effective_ridge, rtol=1e-9)


def test_the_resolvent_is_that_of_random_pools():
    rng, dim = np.random.default_rng(1), 400
    spectrum = np.repeat([3.0, 1.0, 0.0, 0.0], dim // 4)
    tasks = rng.standard_normal((dim // 2, dim)) * np.sqrt(spectrum)
    inverse = np.linalg.inv(tasks.T @ tasks / len(tasks) + 0.2 * np.eye(dim))
    first, second = spectrum_resolvent(0.2, 0.5, spectrum)
    for part in np.split(np.arange(dim), 4):
        assert np.diag(inverse)[part].mean() == pytest.approx(first[part].mean(), rel=0.03)
    step = 1e-5
    ahead, behind = (spectrum_resolvent(0.2 + h, 0.5, spectrum)[0] for h in (step, -step))
    np.testing.assert_allclose(second, (behind - ahead) / (2 * step), rtol=1e-7)


def test_spikes():
    """d = 120, α = 2, τ = 4: more tasks help a spike on top and hurt one at the bottom."""
    spectra = [task_spectrum(name, 120) for name in ("spike:0", "spike:60", "spike:-1", "linear")]
    found = structured_errors(
        task_spectrum("linear", 120), np.array(spectra)[:, None], 2.0, [0.1, 0.5, 1, 2, np.inf], 4.0, 0.01
    )  # fmt: skip
    wanted = [
        [0.9188, 0.5829, 0.4290, 0.3662, 0.3335],
        [1.005, 0.7799, 0.5984, 0.5021, 0.4338],
        [1.109, 1.288, 1.340, 1.364, 1.387],
        [0.9759, 0.7190, 0.5528, 0.4706, 0.4155],
    ]
    np.testing.assert_allclose(found.icl, wanted, atol=5.1e-4)
    assert (np.diff(found.kernel, axis=-1) > 0).all(), "a test direction costs the more the less it was trained"


def test_a_pool_on_a_subspace_and_the_floor_it_leaves():
    """α = τ = 80, half of the eigenvectors: the transition sits at κ = ½."""
    half = task_spectrum("flat:40", 80)
    matched = structured_errors(half, half, 80.0, [0.4, 0.5, 0.6, 1], 80.0, 0.01)
    other = structured_errors(half, np.ones(80), 80.0, [0.4, 0.5, 0.6, 1], 80.0, 0.01)
    np.testing.assert_allclose(matched.icl, [0.2200, 0.0566, 0.0211, 0.0168], atol=5.1e-5)
    np.testing.assert_allclose(other.icl, [0.6249, 0.5441, 0.5267, 0.5246], atol=5.1e-5)


def test_the_context_at_test_time_is_a_straight_line_to_the_floor():
    inverse = np.array([0.0, 0.5, 1.0, 10.0])
    with np.errstate(divide="ignore"):
        lengths = 1 / inverse
    for power, wanted in ((1, [0.4079, 0.5659, 3.411]), (1.5, [0.2192, 0.3189, 2.113])):
        spectrum = task_spectrum(f"power:{power}", 120)
        found = structured_errors(spectrum, spectrum, 2.0, 1.0, 4.0, 0.01, test_alpha=lengths)
        np.testing.assert_allclose(found.icl[1:], wanted, rtol=3e-4)
        assert found.icl[0] == pytest.approx(found.floor[0])
        np.testing.assert_allclose(np.polyval(np.polyfit(inverse, found.icl, 1), inverse), found.icl, rtol=1e-10)


def test_few_tasks_want_a_steeper_law_than_that_of_the_test():
    """d = 32, α = 1, ρ = .01, τ = 4, test power .9: the best training power."""
    powers = np.arange(0.0, 3.01, 0.05)
    train = np.array([task_spectrum(f"power:{p}", 32) for p in powers])
    found = structured_errors(train[:, None], task_spectrum("power:0.9", 32), 1.0, [0.2, 1.0, np.inf], 4.0, 0.01).icl
    np.testing.assert_allclose(powers[found.argmin(0)], [2.5, 1.55, 1.1], atol=1e-9)
    assert found[:, 0].min() == pytest.approx(0.715, abs=6e-4)


@pytest.mark.parametrize(
    "name", ["cubic", "flat:0", "flat:200", "spike:120", "spike:1.5", "power", "linear:2", "power:x"]
)
def test_spectra_that_are_none(name):
    with pytest.raises(IclearnError, match="a spectrum of 120 eigenvalues is one of"):
        task_spectrum(name, 120)


def test_the_command(capsys):
    words = ["theory", "letey2026", "--train", "linear", "--test", "spike:-1", "--kappa", "0.5", "inf", "--json"]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)["errors"]
    assert [round(row["icl"], 3) for row in rows] == [1.288, 1.387]
    assert main(["theory", "letey2026", "--train", "cubic"]) == 2
    assert "'cubic'" in capsys.readouterr().err
