"""The loop around the loop: outcomes, chunks, records, provenance, and the choice of engine."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from engine_cases import DATA, POPULATION, numpy_data, recipe, run
from naive_loss import merged_loss

from iclearn.core.dataset import Arrays
from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Record
from iclearn.core.status import Status
from iclearn.engines import simulate
from iclearn.engines.finish import select_records
from iclearn.models import Attention
from iclearn.tasks import GivenData

LOOP = importlib.import_module("iclearn.engines.simulate")


def test_a_run_that_diverges_says_at_which_step_and_ends_before_it():
    trace = run(recipe("merged", lr=0.08, steps=500, engine="moments"))
    assert trace.status is Status.DIVERGED
    assert trace.sentence == f"diverged at step {trace.status_step}"
    assert np.isfinite(trace.loss).all()
    assert len(trace.loss) == trace.status_step
    assert trace.loss.max() <= 1e6 * trace.loss[0]
    for name in ("weight_value", "weight_kq"):
        assert np.isfinite(trace.data[name]).all()
    assert (trace.data["record"] < trace.status_step).all()

    # The same steps by hand: the next loss is the first beyond 10⁶ times the first one, or no number.
    import jax

    assert isinstance(DATA.train, Arrays)
    train = DATA.train
    step = jax.jit(jax.value_and_grad(lambda w: merged_loss(train, w["value"], w["kq"])))
    weights, losses = trace.weights(0), []
    with np.errstate(all="ignore"):
        for _ in range(trace.status_step + 1):
            loss, gradient = step(weights)
            losses.append(float(loss))
            weights = {n: weights[n] - 0.08 * np.asarray(gradient[n]) for n in weights}
    np.testing.assert_allclose(trace.loss, losses[:-1], rtol=1e-6)
    assert not losses[-1] <= 1e6 * losses[0]


def test_divergence_does_not_depend_on_chunks(monkeypatch):
    made = recipe("merged", lr=0.08, steps=500, engine="moments")
    one = run(made)
    monkeypatch.setattr(LOOP, "CHUNK_SECONDS", 0.0)
    assert run(made).equals(one)


def test_converged_means_no_excess_over_the_minimum_is_left():
    trace = run(recipe("mlp", lr=0.02, steps=4000))
    assert trace.status is Status.CONVERGED
    assert trace.status_step == 4000
    least = float(trace.data["loss_minimum"])
    excess = (trace.final_loss - least) / (float(trace.loss[0]) - least)
    assert -1e-12 < excess < 1e-4, "no weights can do better, and these do as well"


def test_a_run_that_could_go_on_is_called_finished():
    trace = run(recipe("mlp", lr=0.02, steps=20))
    assert trace.status is Status.FINISHED
    assert trace.sentence == "ran all its steps; the loss may still fall"
    assert run(recipe("merged", engine="samples")).status is Status.FINISHED, "no minimum is known there"


@pytest.mark.parametrize("seconds", [0.0, 1e9])
@pytest.mark.parametrize(
    ("steps", "record"), [(700, Record(20, 20)), (2500, Record(50, 300)), (2500, Record(2, 2)), (1, Record())]
)
def test_chunks_do_not_change_numbers(monkeypatch, seconds, steps, record):
    """From chunks of one recording interval to chunks as long as the buffers allow."""
    made = recipe("merged", steps=steps, record=record, engine="moments")
    one = run(made)
    monkeypatch.setattr(LOOP, "CHUNK_SECONDS", seconds)
    other = run(made)
    assert other.equals(one)
    assert len(other.loss) == steps


def test_few_candidates_do_not_shorten_the_curve():
    """2500 steps with two candidates are longer apart than one call of the loop can hold."""
    made = recipe("merged", steps=2500, engine="moments")
    sparse, dense = run(made.replace(record=Record(2, 2))), run(made)
    np.testing.assert_array_equal(sparse.loss, dense.loss)
    np.testing.assert_array_equal(sparse.weights()["value"], dense.weights()["value"])
    assert sparse.data["record"].values[-1] == 2500


def test_a_longer_run_begins_with_the_shorter_one():
    short, long = run(recipe("merged", steps=40)), run(recipe("merged", steps=60))
    np.testing.assert_array_equal(short.loss, long.loss[:40])


def test_recorded_weights_are_those_at_their_step():
    """The weights recorded at step s are the last ones of a run of s steps."""
    trace = run(recipe("merged", steps=100, record=Record(10, 50)))
    records = trace.data["record"].values
    assert records[0] == 0
    assert records[-1] == 100
    assert (np.diff(records) > 0).all()
    assert len(records) <= 10
    assert records.dtype.kind == "i"
    for index in (1, len(records) // 2):
        short = run(recipe("merged", steps=int(records[index])))
        for name, weights in short.weights().items():
            np.testing.assert_array_equal(trace.weights(index)[name], weights)


def test_no_weights_are_kept_when_none_are_asked_for():
    trace = run(recipe("merged", record=Record(weights=0)))
    assert not [n for n in trace.data.data_vars if str(n).startswith("weight_")]
    assert "record" not in trace.data.coords
    only = run(recipe("merged", record=Record(weights=1)))
    assert list(only.data["record"].values) == [60], "the last ones are kept first"


def test_records_are_dense_where_the_loss_moves():
    """A plateau and a drop: the tenth of the steps in which the loss falls gets about half of the records."""
    trace = run(recipe("merged", data=None, init=Init(1e-3), lr=0.02, steps=4000, record=Record(100, 2000)))
    loss, records = trace.loss.values, trace.data["record"].values[:-1]
    falling = (loss < 0.95 * loss[0]) & (loss > 1.05 * loss[-1])
    assert 0.01 < falling.mean() < 0.2, "the drop is a small part of the run"
    share = falling[records].mean()
    assert share > 0.3
    assert np.diff(records).max() < 200, "and the plateaus are still covered"


def test_selecting_records():
    flat, steep = np.ones(100), np.concatenate([np.ones(50), np.full(50, 1e-3)])
    np.testing.assert_array_equal(select_records(flat, 200), np.arange(100))
    np.testing.assert_array_equal(select_records(flat, 0), [])
    spread = select_records(flat, 11)
    assert len(spread) == 11
    assert (spread[0], spread[-1]) == (0, 99)
    assert np.ptp(np.diff(spread)) <= 1, "without movement, evenly"
    around = select_records(steep, 11)
    assert {0, 50, 99} <= set(around), "the step after the jump is there"
    assert len(around) <= 11


def test_every_axis_has_a_name_and_a_coordinate():
    data = numpy_data(2, tests=True)
    trace = run(recipe("separate", data=data), data)
    shapes = {str(name): dict(array.sizes) for name, array in trace.data.data_vars.items()}
    records = trace.data.sizes["record"]
    assert shapes == {
        "loss": {"step": 60},
        "test_loss": {"step": 60, "test_set": 2},
        "weight_value": {"record": records, "head": 2, "output": 2, "entry": 4},
        "weight_key": {"record": records, "head": 2, "rank": 2, "entry": 4},
        "weight_query": {"record": records, "head": 2, "rank": 2, "input": 2},
        "covariance": {"input": 2, "key_input": 2},
        "loss_minimum": {},
    }
    assert set(trace.data.dims) <= set(trace.data.coords)


def test_provenance_leads_back_to_the_run():
    made = recipe("merged", data=None, seed=5)
    trace = run(made)
    facts = trace.provenance
    assert trace.recipe == made
    assert facts["recipe_hash"] == made.hash
    assert trace.run_id == made.hash[:12]
    assert (facts["engine"], facts["dtype"], facts["seed"], facts["platform"]) == ("population", "float64", 5, "cpu")
    assert {"iclearn", "jax", "numpy", "python", "device", "created", "machine"} <= set(facts)
    assert facts["wall_seconds"] >= facts["setup_seconds"] >= 0
    assert facts["compile_seconds"] >= 0
    np.testing.assert_allclose(trace.data["covariance"], POPULATION.covariance_matrix(5))


def test_progress_is_told_between_chunks(monkeypatch):
    monkeypatch.setattr(LOOP, "CHUNK_SECONDS", 0.0)
    told = []
    trace = run(
        recipe("merged", steps=50, record=Record(5, 5), engine="moments"), progress=lambda *now: told.append(now)
    )
    assert [step for step, _, _ in told] == [10, 20, 30, 40, 50]
    assert {steps for _, steps, _ in told} == {50}
    assert [loss for _, _, loss in told] == [float(trace.loss[s - 1]) for s, _, _ in told]


AUTO = [
    (recipe("merged", data=None), "population"),
    (recipe("merged"), "moments"),
    (recipe("mlp"), "moments"),
    (recipe("merged", softmax=True), "samples"),
    (recipe("merged", "sgd", batch_size=4), "samples"),
    (recipe("merged", "sgd", data=None, batch_size=16), "samples"),
]


@pytest.mark.parametrize(("made", "engine"), AUTO, ids=[f"{m.model.family}-{e}" for m, e in AUTO])  # type: ignore[attr-defined]
def test_the_cheapest_exact_engine_is_chosen_and_named(made, engine):
    assert run(made.replace(steps=3)).provenance["engine"] == engine


def given_weights(**changes) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"value": rng.normal(size=(2, 1, 3)) * 0.1, "kq": rng.normal(size=(2, 2, 3)) * 0.1} | changes


def test_runs_from_given_weights_start_there():
    weights = given_weights()
    made = recipe("merged", init=Init.given(weights), steps=3)
    trace = run(made, weights=weights)
    for name, array in weights.items():
        np.testing.assert_array_equal(trace.weights(0)[name], array)


CUBIC = GivenData(dim=2, context_len=0, out_dim=1, num_prompts=3, digest="d")
REFUSED = [
    (
        lambda: simulate(recipe("merged", data=None), dataset=DATA),
        "a dataset was given, but the recipe's task draws its own: use GivenData.of(dataset)",
    ),
    (lambda: simulate(recipe("merged")), "this recipe describes a dataset brought by the user: pass it as dataset="),
    (
        lambda: run(recipe("merged"), weights=given_weights()),
        "weights were given, but the recipe draws its own: set init scheme='given'",
    ),
    (
        lambda: run(recipe("merged", init=Init(scheme="given"))),
        "this recipe starts from given weights: pass them as weights=",
    ),
    (
        lambda: run(recipe("separate", rank=4)),
        "rank 4 is larger than the 3 entries of a token (dim 2 + out_dim 1): choose at most 3",
    ),
    (
        lambda: simulate(recipe("merged", task=CUBIC)),
        "this dataset holds cubic features, which only the mlp model reads: choose model mlp, or bring tokens",
    ),
    (
        lambda: run(recipe("merged", softmax=True, engine="moments")),
        "engine moments needs a linear model: for softmax attention use engine samples",
    ),
]


@pytest.mark.parametrize(("start", "message"), REFUSED, ids=[m[:45] for _, m in REFUSED])
def test_impossible_combinations(start, message):
    with pytest.raises(IclearnError) as caught:
        start()
    assert str(caught.value) == message


def test_other_weights_than_the_recipe_means_are_refused():
    made = recipe("merged", init=Init.given(given_weights()))
    other = given_weights(value=np.zeros((2, 1, 3)))
    with pytest.raises(IclearnError, match=f"the recipe wants {made.init.digest[:12]}"):
        run(made, weights=other)


def test_numbers_json_cannot_hold_are_refused_before_training():
    with pytest.raises(IclearnError, match="init scale must be a finite number, not inf"):
        run(recipe("merged", init=Init(float("inf"))))


def test_normalize_is_a_choice_that_shows():
    losses = {}
    for normalize in ("none", "context", "tokens"):
        made = recipe("merged", normalize=normalize, steps=1)
        assert isinstance(made.model, Attention)
        losses[normalize] = run(made).final_loss
        assert run(made).recipe.model.normalize == normalize  # type: ignore[attr-defined]
    assert len(set(losses.values())) == 3
