"""fu2024, vladymyrov2024 and looped: what they measure is what they say, on small data."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn import probes
from iclearn.models.predictors import NewtonFilter, Ridge, StepFilter
from iclearn.papers.fu2024 import fig_match
from iclearn.papers.fu2024.setup import skewed
from iclearn.papers.looped.setup import SAMPLED_CONTEXT, shares
from iclearn.papers.vladymyrov2024 import setup
from iclearn.theory.depth import (
    constant_ridge_loss,
    looped_losses,
    oracle_ridge_loss,
    ridge_loss,
    sample_spectra,
    tied_gdpp,
)


def test_errors_at_prefixes_are_those_of_the_probe():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 7, 4)), rng.normal(size=(3, 4))
    y = np.einsum("std,sd->st", x, w)
    filters = [NewtonFilter(2, normalize="none"), StepFilter([0.02] * 3, normalize="none")]
    found = fig_match.errors_of(filters, x, y)
    np.testing.assert_allclose(found, probes.prefix_errors(filters, x, y), rtol=1e-9, atol=1e-12)


def test_skewed_inputs_have_condition_number_100_and_mean_1():
    values = skewed()
    assert values.max() / values.min() == pytest.approx(100)
    assert values.mean() == pytest.approx(1)


def test_ridge_with_the_mean_level_is_what_trained_models_are_measured_against(monkeypatch):
    monkeypatch.setattr(setup, "FRESH", setup.BATCH)
    law = setup.MAIN
    assert setup.mean_square(law) == pytest.approx(3.0)
    assert setup.mean_square("{1, 3, 5}") == pytest.approx(35 / 3)
    same, other = setup._part(law, [Ridge(3.0), Ridge(30.0)], 7)
    np.testing.assert_allclose(same, 0.0, atol=1e-9)
    assert other.mean() > 0.1


def test_typical_differences_do_not_follow_single_prompts():
    rng = np.random.default_rng(0)
    values = rng.normal(0.1, 1.0, 40 * setup.BATCH)
    found = setup.measured(values)
    assert found.typical == pytest.approx(0.1, abs=4 * found.typical_error)
    assert found.typical_error == pytest.approx(1.2533 * found.mean_error, rel=0.4)
    values[5] = 1e7
    assert setup.measured(values).typical == pytest.approx(found.typical, abs=found.typical_error)
    assert setup.measured(values).mean > 100


def test_noise_laws_have_their_ridge_losses():
    for law, largest in (("U(0, 1)", 1.0), ("U(0, 5)", 5.0)):
        mixture = setup.task_of(law).noise_mixture()
        oracle = sum(w * ridge_loss(10, 20, v) for w, v in mixture)
        assert oracle == pytest.approx(oracle_ridge_loss(10, 20, largest), rel=1e-3)
        assert ridge_loss(10, 20, setup.mean_square(law)) == pytest.approx(constant_ridge_loss(10, 20, largest))


def test_shares_of_a_matrix():
    turn = np.array([[0.0, 0.1], [-0.1, 0.0]])
    distance, inverse, antisymmetric = shares(0.9 * np.eye(2) + turn, 0.9)
    assert distance == pytest.approx(0.1 / 0.9)
    assert inverse == pytest.approx(np.hypot(0.1, 0.1))
    assert antisymmetric == pytest.approx(0.1 / np.hypot(0.9, 0.1))


def test_a_looped_model_has_the_losses_of_the_theory():
    best = tied_gdpp(5, SAMPLED_CONTEXT, 2)
    eta, gamma = best.steps[0], best.curvature[0]
    model = icl.LinearTransformer(layers=2, scalar=True, tied=True).rebuild(5, {"a": [[eta]], "b": [[gamma / eta]]})
    spectra, eye, none = sample_spectra(5, SAMPLED_CONTEXT, 3), jnp.eye(5), jnp.asarray(0.0)
    for loops in (2, 5):
        found = [float(model.looped(loops).conditional_loss(jnp.diag(jnp.asarray(s)), eye, eye, none)) for s in spectra]
        np.testing.assert_allclose(found, looped_losses(spectra, eta, gamma, loops), rtol=1e-9)


@pytest.mark.slow
def test_the_tiny_preset_runs_and_says_what_it_cannot_judge(tmp_path):
    command = [sys.executable, "-m", "iclearn", "reproduce", "vladymyrov2024", "--preset", "tiny", "--seeds", "1"]
    done = subprocess.run([*command, "--out", str(tmp_path), "--json"], capture_output=True, text=True, check=False)
    told = {v["claim"]: v["verdict"] for v in json.loads(done.stdout)["verdicts"]}
    assert told["gdpp_never_below"] == "reproduced"
    assert told["diag_adapts"] == "failed", "it was not trained"


def test_presets_are_checked():
    with pytest.raises(icl.IclearnError, match="preset"):
        setup.Options("huge")
