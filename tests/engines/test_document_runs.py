"""Training on fresh documents by compiled code is the loop in JAX on the same documents, to single precision."""

import jax
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.rng import stream
from iclearn.core.status import Status
from iclearn.engines.batch.inputs import run_inputs
from iclearn.engines.build import prepare
from iclearn.engines.compiled import document_runs
from iclearn.engines.compiled.switch import SWITCH
from iclearn.engines.run_kinds import FreshDocuments, OneRun, many_runs, one_run
from iclearn.models.softmax_layers import SoftmaxLayer
from iclearn.tasks.softmax_regression import SoftmaxRegression

pytest.importorskip("numba", reason="compiled code needs numba (pip install 'iclearn[fast]')")

RECIPE = icl.Recipe(
    task=SoftmaxRegression(context_len=11, dim=5, scale=1.0),
    model=SoftmaxLayer("log_label"),
    init=icl.Init(0.02),
    optimizer=icl.Optimizer("adam", 5e-3, batch_size=8),
    steps=document_runs.LEAST_STEPS,
    record=icl.Record(weights=5, candidates=5),
    dtype="float32",
)


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    monkeypatch.setenv(SWITCH, "auto")


def test_keys_are_those_of_the_loop():
    key = stream(3, "steps")
    found = document_runs.document_keys(np.asarray(jax.random.key_data(key)), np.arange(5, 8))
    for words, step in zip(found, (5, 6, 7), strict=True):
        wanted = jax.random.split(jax.random.fold_in(key, step))
        np.testing.assert_array_equal(words, np.asarray(jax.random.key_data(wanted)).ravel())


@pytest.mark.parametrize(
    ("form", "change"),
    [
        ("log_label", {}),
        pytest.param("raw_label", {"optimizer__rule": "sgd", "optimizer__lr": 0.1}, marks=pytest.mark.slow),
        ("query", {"task__context_len": 4, "optimizer__lr": 1e-3}),
        pytest.param("log_label", {"dtype": "float64"}, marks=pytest.mark.slow),
        pytest.param("query", {"dtype": "float64"}, marks=pytest.mark.slow),
    ],
)
def test_runs_are_those_of_the_loop_whatever_runs_beside_them(monkeypatch, form, change):
    base = RECIPE.replace(model=SoftmaxLayer(form), **change)
    recipes = [base, base.replace(seed=1), base.replace(task__scale=0.5)]  # the last reads the documents of the first
    fast = icl.simulate_many(recipes)
    alone = icl.simulate(recipes[2])
    monkeypatch.setenv(SWITCH, "off")
    for found, plain in zip(fast, icl.simulate_many(recipes), strict=True):
        assert found.provenance["path"].startswith("compiled")
        assert plain.provenance["path"] == "xla"
        # words agree to a few units of the last digit; 200 steps have not amplified that beyond the fifth
        np.testing.assert_allclose(found.loss, plain.loss, rtol=2e-5)
        np.testing.assert_array_equal(found.data["record"], plain.data["record"])
        for name, path in plain.weight_paths().items():
            np.testing.assert_allclose(found.weight_paths()[name], path, atol=2e-5)
    np.testing.assert_array_equal(alone.loss, fast[2].loss)


def test_a_checkpoint_of_either_goes_on_in_the_other():
    setup = prepare(RECIPE)
    inputs = run_inputs(RECIPE, setup.model, setup.engine)
    fast, plain = one_run(RECIPE, setup), OneRun(inputs)
    assert isinstance(fast, FreshDocuments)
    whole = fast.advance(0, 150, 25)
    again = one_run(RECIPE, setup)
    first = again.advance(0, 50, 25)
    assert plain._restore([np.asarray(leaf) for leaf in jax.tree.leaves(again.final_state(0))]) == 50
    second = plain.advance(50, 150, 25)
    np.testing.assert_allclose(np.append(first.loss[0], second.loss[0, :100]), whole.loss[0], rtol=1e-5)
    assert fast._restore([np.asarray(leaf) for leaf in jax.tree.leaves(plain.final_state(0))]) == 150
    assert np.isfinite(fast.advance(150, 160, 10).loss).all()


def test_threads_change_nothing(monkeypatch):
    setups = [prepare(RECIPE.replace(seed=seed)) for seed in (0, 1, 2)]
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("ICLEARN_THREADS", threads)
        inputs = [run_inputs(RECIPE.replace(seed=i), setup.model, setup.engine) for i, setup in enumerate(setups)]
        found.append(many_runs(RECIPE, setups[0], inputs).advance(0, 20, 10))
    np.testing.assert_array_equal(found[0].loss, found[1].loss)
    np.testing.assert_array_equal(found[0].weights["value"], found[1].weights["value"])


def test_a_run_that_diverges_says_so():
    trace = icl.simulate(RECIPE.replace(optimizer=icl.Optimizer("sgd", 1e30, batch_size=8)))
    assert trace.provenance["path"].startswith("compiled")
    assert trace.status is Status.DIVERGED


@pytest.mark.parametrize(
    "change",
    [
        {"model": SoftmaxLayer("stack")},
        {"task__embedding": "sign"},
        {"task__in_sample": True},
        {"task__query_len": 4},
        {"task__num_prompts": 20},
        {"task__test_prompts": 3},
        {"steps": 20},
    ],
)
def test_others_are_trained_by_the_loop(change):
    recipe = RECIPE.replace(**change)
    assert document_runs.document_sizes(recipe, prepare(recipe)) is None


def test_the_series_are_those_of_the_error_function():
    from scipy.special import erfinv

    from iclearn.engines.compiled.document_programs import erfinv_series

    below, above = (np.polynomial.Polynomial(series) for series in erfinv_series())
    u = 1 - np.geomspace(1, 2.0**-23, 2000)[1:]
    w = -np.log1p(-u * u)
    ratio = np.where(w < 5, below(w - 2.5), above(np.sqrt(w) - 3))
    np.testing.assert_allclose(ratio * u, erfinv(u), rtol=1e-7)
