"""Training on fresh prompts by compiled code is the loop in JAX on the same prompts, to single precision."""

import jax
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.rng import stream
from iclearn.engines.batch.inputs import run_inputs
from iclearn.engines.build import prepare
from iclearn.engines.compiled import sampled
from iclearn.engines.compiled.switch import SWITCH
from iclearn.engines.run_kinds import OneRun, SampledRuns, one_run
from iclearn.models import LSATogether

pytest.importorskip("numba", reason="compiled code needs numba (pip install 'iclearn[fast]')")

GROUP = LSATogether((icl.LSA(1, "trainable"), icl.LSA(1), icl.LSA(3)))
TASK = icl.LinearRegression(
    dim=3,
    context_len=4,
    covariance=icl.Covariance.white(trace=None),
    prior_mean=(1.0, 0.0, -2.0),
    num_prompts=None,
)
RECIPE = icl.Recipe(
    task=TASK,
    model=GROUP,
    init=icl.Init(0.1),
    optimizer=icl.Optimizer("adam", 2e-3, batch_size=512),
    steps=sampled.LEAST_STEPS,
    engine="samples",
    dtype="float32",
)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setenv(SWITCH, "auto")


def test_keys_are_those_of_the_loop():
    key = stream(3, "steps")
    found = sampled.prompt_keys(np.asarray(jax.random.key_data(key)), np.arange(5, 8))
    for words, step in zip(found, (5, 6, 7), strict=True):
        wanted = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, step), 0))
        np.testing.assert_array_equal(words, np.asarray(jax.random.key_data(wanted)).ravel())


MOMENTUM = {"model": icl.LSA(2), "optimizer__rule": "momentum", "optimizer__lr": 1e-3}


@pytest.mark.parametrize("change", [{}, pytest.param(MOMENTUM, marks=pytest.mark.slow)])
def test_the_run_is_that_of_the_loop(monkeypatch, change):
    recipe = RECIPE.replace(**change)
    fast = icl.simulate(recipe)
    monkeypatch.setenv(SWITCH, "off")
    plain = icl.simulate(recipe)
    assert fast.provenance["path"].startswith("compiled")
    assert plain.provenance["path"] == "xla"
    # prompts agree to 3e-7; 500 steps of training have not amplified that beyond the fifth digit
    np.testing.assert_allclose(fast.loss, plain.loss, rtol=2e-5)
    np.testing.assert_array_equal(fast.data["record"], plain.data["record"])
    for name, path in plain.weight_paths().items():
        np.testing.assert_allclose(fast.weight_paths()[name], path, atol=2e-5)


def test_a_checkpoint_of_either_goes_on_in_the_other():
    setup = prepare(RECIPE)
    fast, plain = one_run(RECIPE, setup), OneRun(run_inputs(RECIPE, setup.model, setup.engine))
    assert isinstance(fast, SampledRuns)
    whole = fast.advance(0, 60, 10)
    again = SampledRuns(run_inputs(RECIPE, setup.model, setup.engine), setup, fast.sizes, 512)
    first = again.advance(0, 30, 10)
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(again.final_state(0))]
    assert plain._restore(leaves) == 30
    second = plain.advance(30, 60, 10)
    np.testing.assert_allclose(np.append(first.loss[0], second.loss[0, :30]), whole.loss[0], rtol=1e-5)
    assert fast._restore([np.asarray(leaf) for leaf in jax.tree.leaves(plain.final_state(0))]) == 60
    assert np.isfinite(fast.advance(60, 70, 10).loss).all()


@pytest.mark.parametrize(
    "change",
    [
        {"task__noise": 0.1},
        {"task__fresh_normals": "jax"},
        {"task__covariance": icl.Covariance.linear()},
        {"task__context_len": 4, "task__num_prompts": 600},
        {"optimizer__batch_size": 768},
        {"optimizer__batch_size": 64},
        {"dtype": "float64"},
        {"steps": 20},
        {"model": icl.Attention()},
    ],
)
def test_other_runs_are_left_to_the_loop(change):
    recipe = RECIPE.replace(**change)
    assert sampled.prompt_sizes(recipe, prepare(recipe)) is None
