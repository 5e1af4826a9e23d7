"""Minibatches and fresh prompts: unbiased, reproducible, and independent of how a run is cut into chunks."""

from __future__ import annotations

import importlib

import jax
import numpy as np
import pytest
from engine_cases import POPULATION, PROMPTS, numpy_arrays, recipe, run

from iclearn.core.dataset import Dataset
from iclearn.core.errors import IclearnError
from iclearn.engines import prepare

LOOP = importlib.import_module("iclearn.engines.simulate")
SIGMAS = 4
MINIBATCH = recipe("merged", "sgd", batch_size=8)
FRESH = recipe("merged", "sgd", task=POPULATION, batch_size=16, engine="samples")


def mean_over_keys(setup, count: int) -> tuple[float, float]:
    """Mean and standard error of the stochastic loss of the initial weights."""
    loss = jax.jit(jax.vmap(lambda k: setup.engine.loss(setup.model, k)))
    drawn = np.asarray(loss(jax.random.split(jax.random.key(0), count)))
    return drawn.mean(), drawn.std() / np.sqrt(count)


@pytest.mark.parametrize("prompts", [PROMPTS, 3])
def test_minibatch_losses_average_to_the_loss_of_the_set(prompts):
    data = Dataset(numpy_arrays(prompts))
    setup = prepare(recipe("merged", "sgd", data=data, batch_size=8), dataset=data)
    assert setup.engine.stochastic
    mean, error = mean_over_keys(setup, 4000)
    exact = float(run(recipe("merged", data=data, steps=1), data).loss[0])
    assert abs(mean - exact) < SIGMAS * error


@pytest.mark.parametrize("made", [MINIBATCH, FRESH], ids=["minibatch", "fresh"])
def test_every_step_has_prompts_of_its_own(made):
    """With weights that hardly move the losses of different steps are those of different prompts."""
    losses = run(made.replace(optimizer__lr=1e-12)).loss.values
    assert losses.std() > 0.05 * losses.mean()
    neighbors = np.corrcoef(losses[:-1], losses[1:])[0, 1]
    assert abs(neighbors) < 4 / np.sqrt(len(losses))


def test_losses_on_fresh_prompts_average_to_the_population_loss():
    mean, error = mean_over_keys(prepare(FRESH), 2000)
    exact = float(run(recipe("merged", data=None, steps=1)).loss[0])
    assert abs(mean - exact) < SIGMAS * error


@pytest.mark.parametrize("made", [MINIBATCH, FRESH], ids=["minibatch", "fresh"])
def test_reproducible_and_free_of_chunks(made, monkeypatch):
    one = run(made)
    assert one.provenance["engine"] == "samples"
    assert run(made).equals(one)
    monkeypatch.setattr(LOOP, "CHUNK_SECONDS", 0.0)
    assert run(made).equals(one)
    other = run(made.replace(seed=11, init=made.init))
    assert np.abs(other.loss.values - one.loss.values).max() > 1e-3
    assert np.abs(np.diff(one.loss)).min() > 0, "a new batch at every step"


def test_fresh_prompts_of_the_old_stream_are_still_there():
    """The first loss of a run on `jax.random.normal`, as it was before prompts were drawn in pairs."""
    old, new = (run(FRESH.replace(task__fresh_normals=which, steps=3)) for which in ("jax", "paired"))
    assert old.loss[0] != new.loss[0]
    assert "fresh_normals" not in new.recipe.to_dict()["task"], "the hash of a recipe with the default stays"
    batch = POPULATION.unchecked(num_prompts=16, fresh_normals="jax").source(FRESH.seed, "float64")
    assert not batch.paired


def test_longer_runs_begin_with_shorter_ones():
    short, long = run(FRESH.replace(steps=20)), run(FRESH)
    np.testing.assert_array_equal(short.loss, long.loss[:20])


def test_learning_on_fresh_prompts_lowers_the_population_loss():
    trace = run(FRESH.replace(optimizer__lr=0.005, optimizer__batch_size=64, steps=400))
    first, last = trace.loss.values[:50], trace.loss.values[-50:]
    error = np.hypot(first.std(), last.std()) / np.sqrt(50)
    assert last.mean() < first.mean() - SIGMAS * error


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (
            recipe("merged", "sgd", data=None, engine="samples"),
            "fresh prompts at every step need a batch size; without one, give a number of prompts or choose a model "
            "with a closed-form population loss",
        ),
        (
            recipe("merged", "adam", batch_size=8, engine="moments"),
            "engine moments uses every prompt at each step; with batch size 8 use engine samples",
        ),
        (
            recipe("merged", "adam", data=None, batch_size=8, engine="population"),
            "engine population uses every prompt at each step; with batch size 8 use engine samples",
        ),
        (
            recipe("merged", data=None, engine="moments"),
            "engine moments needs a number of prompts; for infinitely many use engine population or samples",
        ),
    ],
)
def test_impossible_combinations(made, message):
    with pytest.raises(IclearnError) as caught:
        run(made)
    assert str(caught.value) == message
