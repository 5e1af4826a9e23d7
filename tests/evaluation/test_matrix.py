"""The out-of-distribution matrix: closed forms, pairing, references, medians, and what is asked of whom."""

import json
import threading
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.errors import DamagedError
from iclearn.core.prompt import Batch, full_prompt
from iclearn.core.rng import normal
from iclearn.core.task import AbstractDrawnSource, AbstractTask
from iclearn.evaluation import Matrix, evaluate, law_of, shifts_named
from iclearn.evaluation.asking import Effort, Turns, answers
from iclearn.evaluation.baselines import read_baseline
from iclearn.evaluation.cell_bands import mean_exists, references_differ
from iclearn.evaluation.shift_words import read_shifts
from iclearn.report.matrix_figure import shift_curves
from iclearn.tasks import FunctionClass, Shift
from iclearn.theory.functions import averaging_error, least_squares_under

CLEAN = FunctionClass(dim=3, context_len=6)
NOISY = FunctionClass(dim=3, context_len=6, noise=0.25, target="clean")
SHIFTS = ["scale_x=2", "overlapping_train_test", "orthogonal_train_test", "scale_y=1"]


@pytest.fixture(scope="module")
def clean() -> Matrix:
    return evaluate(predictors=["averaging", "zero"], task=CLEAN, shifts=SHIFTS, num_prompts=500, trials=200)


@pytest.fixture(scope="module")
def noisy() -> Matrix:
    shifts = ["prior_mean=2", "scale_x=2", "input_tails=3"]
    return evaluate(predictors=["ridge=0.25", "network=2"], task=NOISY, shifts=shifts, num_prompts=300, trials=200,
                    slow_prompts=40)  # fmt: skip


def test_errors_are_the_closed_forms(clean):
    data = clean.data
    stderr = data["error_std"] / np.sqrt(500)
    for shift in (None, Shift("scale_x", 2.0)):
        label = "standard" if shift is None else shift.label
        here = {"shift": label, "predictor": "least_squares"}
        expected = least_squares_under(shift, np.arange(7), 3)
        assert (abs(data["error"].sel(here) - expected) <= 4 * stderr.sel(here) + 1e-12).all()
    here = {"shift": "standard", "predictor": "averaging"}
    assert (abs(data["error"].sel(here) - averaging_error(np.arange(7), 3)) <= 4 * stderr.sel(here)).all()
    orthogonal = data["error"].sel(shift="orthogonal_train_test", predictor="least_squares").values
    assert np.allclose(orthogonal[:3], 1, atol=0.3)
    assert np.isnan(orthogonal[3:]).all(), "nothing is orthogonal to three directions"
    overlapping = data["error"].sel(shift="overlapping_train_test", predictor="least_squares").values
    assert np.isnan(overlapping[0])
    assert np.nanmax(overlapping) < 1e-12
    low, high = (data[f"error_{side}"].sel(here) for side in ("low", "high"))
    assert ((low < data["error"].sel(here)) & (data["error"].sel(here) < high)).all()


def test_predictors_are_paired_and_shifts_that_change_nothing_are_the_law(clean):
    data = clean.data
    own = data["difference"].sel(predictor="least_squares", reference="least_squares")
    assert (own.sel(shift="standard") == 0).all()
    same = data["difference"].sel(shift="standard", predictor="bayes_shifted", reference="least_squares")
    assert abs(same).max() < 1e-9, "without noise Bayes is least squares, prompt by prompt"
    np.testing.assert_array_equal(data["error"].sel(shift="scale_y=1"), data["error"].sel(shift="standard"))
    mean = data["error_mean"].sel(predictor="averaging") - data["error_mean"].sel(predictor="least_squares")
    apart = data["difference"].sel(predictor="averaging", reference="least_squares")
    np.testing.assert_allclose(apart, mean, atol=1e-12)


def test_means_that_do_not_exist_are_medians(noisy):
    data = noisy.data.sel(shift="standard")
    told = data["is_mean"].sel(predictor="least_squares").values
    assert told.tolist() == [True, True, False, False, False, True, True]
    medians = data["error_median"].sel(predictor="least_squares").values
    np.testing.assert_array_equal(data["error"].sel(predictor="least_squares").values[2:5], medians[2:5])
    np.testing.assert_array_equal(
        data["error"].sel(predictor="ridge=0.25"), data["error_mean"].sel(predictor="ridge=0.25")
    )
    assert not noisy.data["is_mean"].sel(shift="input_tails=3").any(), "squared labels have no variance"
    law = FunctionClass(dim=4, noise=0.5)
    assert mean_exists(law, Shift("half_subspace"), True, 6).tolist() == [True, False, False, False, True, True]
    assert mean_exists(law.replace(noise=0.0), Shift("noise", 0.0), True, 6).all()
    assert not mean_exists(law.replace(noise=0.0), Shift("noisyLR"), True, 6)[4]


def test_the_two_bayes_references_follow_themselves(noisy):
    assert noisy.follows("bayes_shifted", "prior_mean=2", 2) == "algorithm"
    assert noisy.follows("bayes_training", "prior_mean=2", 2) == "prior"
    assert noisy.follows("ridge=0.25", "prior_mean=2", 2) == "prior", "it is Bayes of the training law"
    assert noisy.follows("network=2", "prior_mean=2", 3) == "neither", "it is far from both"
    assert noisy.follows("bayes_training", "scale_x=2", 2) == "", "inputs say nothing about the prior"
    error = noisy.data["error"].sel(shift="prior_mean=2", position=2)
    assert error.sel(predictor="bayes_shifted") < 0.5 * error.sel(predictor="bayes_training")
    distance = noisy.data["distance"].sel(shift="prior_mean=2", predictor="ridge=0.25")
    assert distance.sel(reference="bayes_training").max() < 1e-12
    assert references_differ(NOISY, Shift("noise", 1.0)), "another noise"
    assert not references_differ(NOISY, Shift("scale_y", 2.0)), "prior and noise are scaled together"
    assert not references_differ(CLEAN, Shift("prior_scale", 2.0)), "without noise the scale has no effect"
    assert references_differ(CLEAN, Shift("prior_mean", 1.0))


def test_slow_predictors_are_asked_less_and_exactly_the_same(noisy):
    counts = noisy.data["prompts"].sel(shift="standard")
    assert (int(counts.sel(predictor="network=2")), int(counts.sel(predictor="ridge=0.25"))) == (40, 300)
    few = noisy.data["error"].sel(shift="standard", predictor="network=2").values
    assert np.flatnonzero(np.isfinite(few)).tolist() == [1, 3, 6]
    whole = evaluate(predictors=["network=2"], task=NOISY, shifts=["standard"], num_prompts=40, trials=20, exact=True)
    exact = whole.data["error"].sel(shift="standard", predictor="network=2").values
    assert np.isfinite(exact).all()
    np.testing.assert_allclose(few[[1, 3, 6]], exact[[1, 3, 6]], rtol=1e-9)
    effort = Effort(False, 40, (1, 3, 6))
    assert effort.asked("costly", 300, 7, 7) == (300, (1, 3, 6))
    assert effort.asked("costly", 300, 28, 7) == (40, (1, 3, 6, 27)), "longer than in training"


@pytest.mark.parametrize("shift", [None, Shift("random_quadrants")])
def test_answers_in_groups_are_those_of_the_set(shift):
    points = CLEAN.evaluation(shift, num_prompts=45)
    model = icl.predictors.Ridge(0.3)
    whole = np.asarray(points.answers(model))
    np.testing.assert_allclose(answers(model, points, 45), whole, rtol=1e-10, atol=1e-12)
    part = answers(model, points, 20, (0, 4))
    np.testing.assert_allclose(part[:, [0, 4]], whole[:20, [0, 4]], rtol=1e-10, atol=1e-12)
    assert np.isnan(part[:, 1]).all()


@pytest.mark.parametrize(("model", "where"), [("Ridge", None), ("NearestNeighbors", None), ("ArcCosine", (1, 4))])
def test_what_fills_sequences_up_has_no_part_in_answers(model, where):
    points = CLEAN.evaluation(None, num_prompts=10)
    predictor = getattr(icl.predictors, model)(1)
    found = answers(predictor, points, 10, where, room=points.x.shape[1] + 3)
    np.testing.assert_allclose(found, answers(predictor, points, 10, where), rtol=1e-12, atol=1e-12)
    assert found.shape == points.x.shape[:2]


def test_programs_that_solve_run_alone_and_others_together():
    turns, together, log = Turns(), threading.Barrier(2), []

    def plain() -> None:
        with turns.taken(alone=False):
            together.wait(600)  # both are there at once
            log.append("plain")

    def solving() -> None:
        with turns.taken(alone=True):
            log.append("alone")
            inside.set()
            assert not entered.wait(0.2)
            log.append("done")

    def later() -> None:
        inside.wait()
        with turns.taken(alone=False):
            entered.set()

    inside, entered = threading.Event(), threading.Event()
    for works in ((plain, plain), (solving, later)):
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(600)
    assert log == ["plain", "plain", "alone", "done"]
    assert entered.is_set()


def test_a_matrix_is_stored_whole(clean, tmp_path):
    path = clean.save(tmp_path / "matrix.zarr")
    again = Matrix.load(path)
    assert again.data.identical(clean.data)
    assert again.facts["num_prompts"] == 500
    assert again.up_to_date
    chunk = next(p for p in (path / "error" / "c").rglob("*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes()[::-1])
    with pytest.raises(DamagedError):
        Matrix.load(path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    with pytest.raises(icl.IclearnError, match="no stored matrix"):
        clean.save(tmp_path / "notes")


def trained(task, model, **fields) -> icl.Trace:
    return icl.simulate(icl.Recipe(task=task, model=model, init=icl.Init(0.1), steps=2, **fields))


@pytest.mark.slow
def test_runs_of_every_kind_stand_beside_predictors():
    spread = icl.Covariance.eigenvalues([2.0, 0.5])
    linear = icl.LinearRegression(dim=2, context_len=4, num_prompts=None, covariance=spread)
    merged = trained(linear, icl.Attention("merged"))
    others = {
        "deep": icl.LinearTransformer(layers=2).initial(linear, icl.Init(0.1), 0, "float64"),
        "causal": icl.CausalTransformer(layers=1, width=8).initial(linear, icl.Init(0.1), 0, "float32"),
    }
    shifts = ["length=2", "random_quadrants"]
    found = evaluate([merged], (), models=others, shifts=shifts, num_prompts=64, trials=20)
    assert found.runs == (merged.run_id, "deep", "causal")
    assert np.isfinite(found.data["error"].sel(shift="random_quadrants", position=slice(0, 4))).all()
    assert "positions were learned for 5 inputs" in found.facts["refused"]["causal on length=2"]
    assert np.isnan(found.data["error"].sel(shift="length=2", predictor="causal")).all()
    covariance = np.array(found.facts["covariance"])
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance), [0.5, 2.0], rtol=1e-9)
    law = law_of(merged.recipe)
    points = law.points(None, 4000, 0)
    np.testing.assert_allclose(np.cov(np.asarray(points.x).reshape(-1, 2).T), covariance, atol=0.1)
    assert law.normalizer == pytest.approx(2.5), "answering 0 scores 1"
    some = evaluate([merged], (), shifts=["standard"], num_prompts=64, trials=20, contexts=[4])
    told = np.isfinite(some.data["error"].sel(shift="standard", predictor=merged.run_id).values)
    assert told.tolist() == [False, False, False, False, True]


def test_what_cannot_be_evaluated_is_told_why():
    two = trained(icl.LinearRegression(dim=2, context_len=4, num_prompts=None), icl.Attention("merged"))
    three = trained(icl.LinearRegression(dim=3, context_len=4, num_prompts=None), icl.Attention("merged"))
    for call, message in (
        (lambda: evaluate([two, three]), f"run {three.run_id} has inputs of dimension 3, and the prompts have 2"),
        (lambda: evaluate([two, two]), "each run is evaluated once"),
        (lambda: evaluate(), "without a run needs a task"),
        (lambda: evaluate([two], ["lasos"]), "unknown predictor 'lasos'; did you mean lasso"),
        (lambda: evaluate([two], ["lad=3"]), "takes no number"),
        (lambda: evaluate([two], ["gd=1.5"]), "takes a whole number"),
        (lambda: evaluate([two], shifts=["skwed"]), r"unknown shift 'skwed' \(did you mean skewed\?\)"),
        (lambda: evaluate([two], shifts=["scale_x=wide"]), "'wide' is no number"),
        (lambda: evaluate([two], shifts=["noise_tails=3"]), "there is none"),
        (lambda: evaluate([two], shifts=["standard"], contexts=[9]), "between 0 and 4"),
        (lambda: evaluate([two], num_prompts=1), "num_prompts"),
        (lambda: evaluate(task=FunctionClass(functions=icl.tasks.SignFunctions()), predictors=["lad"]), "real labels"),
        (lambda: evaluate([two], models={"lad": icl.predictors.Averaging()}), "is the name of a predictor"),
    ):  # fmt: skip
        with pytest.raises(icl.IclearnError, match=message):
            call()
    guess = icl.LinearRegression(dim=2, context_len=4, prior_mean=(1.0, 0.0))
    with pytest.raises(icl.IclearnError, match=r"a prior of its own.*--standard"):
        law_of(icl.Recipe(task=guess, model=icl.Attention("merged")))
    words = icl.Recipe(task=icl.SoftmaxRegression(), model=icl.SoftmaxLayer())
    with pytest.raises(icl.IclearnError, match="no class of functions"):
        law_of(words)


def test_shifts_and_predictors_by_their_words():
    assert [s.label for s in shifts_named("scale-y=3", 5)] == ["scale_y=3"]
    assert len(shifts_named("all", 5)) > len(shifts_named("garg", 5)) == 15
    assert [s.label for s in shifts_named("prior_mean", 5)][-1] == "prior_mean=3"
    trees = FunctionClass(functions=icl.tasks.TreeFunctions())
    asked = read_shifts(["sweeps"], trees)
    assert "prior_mean=1" in asked.left_out
    assert "scale_x=2" in asked.shifts
    assert read_baseline("neighbors").label == "neighbors=3"


def test_wrong_signs_are_counted_for_labels_of_two_classes():
    law = FunctionClass(dim=2, context_len=4, functions=icl.tasks.SignFunctions())
    found = evaluate(predictors=["averaging"], task=law, shifts=["skewed"], num_prompts=100, trials=20)
    assert found.facts["metric"] == "misclassified"
    errors = found.data["error"].sel(shift="standard", predictor="averaging").values
    assert errors[0] == 1, "0 has no sign"
    assert 0 < errors[-1] < 0.4
    assert found.data.sizes["reference"] == 1, "Bayes is no closed form here"
    json.dumps(found.facts)


def test_tables_say_what_they_are_and_what_errors_were_divided_by(clean, noisy):
    for name in set(clean.data.data_vars) - {"is_mean", "prompts"}:
        assert clean.data[name].attrs["normalizer"] == clean.facts["normalizer"] == 3
        assert clean.data[name].attrs["units"] == "label²/3"
    assert all("long_name" in table.attrs for table in noisy.data.data_vars.values())
    points = CLEAN.evaluation(None, num_prompts=500)
    own = np.mean(np.asarray(points.truth)[..., 0] ** 2, 0) / clean.data["error"].attrs["normalizer"]
    here = {"shift": "standard", "predictor": "zero"}
    np.testing.assert_allclose(clean.data["error"].sel(here), own, rtol=1e-12)


@dataclass(frozen=True)
class SignsAndNoise(AbstractTask, kind="test_signs_and_noise"):
    """A task of one's own: labels sign(w·x), with noise in the context; some pairs may be masked out."""

    dim: int = 2
    context_len: int = 5
    num_prompts: int | None = 64
    masked: bool = False
    out_dim, prefixes = 1, False

    def source(self, seed, dtype, which="train"):
        return SignsSource.of(self, seed, dtype, which, tokens=self.context_len + 1, dim=self.dim, masked=self.masked)


class SignsSource(AbstractDrawnSource):
    tokens: int = eqx.field(static=True)
    dim: int = eqx.field(static=True)
    masked: bool = eqx.field(static=True)

    def draw(self, key, count, weight):
        x_key, w_key, noise_key = jax.random.split(key, 3)
        x, w = normal(x_key, (count, self.tokens, self.dim), self.dtype), normal(w_key, (count, self.dim), self.dtype)
        y = jnp.sign(jnp.einsum("bti,bi->bt", x, w))[..., None]
        shown = y + normal(noise_key, y.shape, self.dtype)
        prompt = full_prompt(x[:, :-1], shown[:, :-1], x[:, -1])
        prompt = eqx.tree_at(lambda p: p.mask, prompt, prompt.mask.at[:, 0].set(not self.masked))
        return Batch(prompt, y[:, -1], weight)


def test_a_task_of_ones_own_is_evaluated_at_its_query():
    task = SignsAndNoise()
    found = evaluate(predictors=["averaging", "zero", "lad"], task=task, num_prompts=300, trials=20)
    batch = task.replace(num_prompts=300).source(0, "float64").everything()
    answers = np.asarray(jax.vmap(icl.predictors.Averaging().predict)(batch.prompt))
    error = found.data["error"].sel(shift="standard")
    expected = np.mean((answers - np.asarray(batch.target)) ** 2)
    assert float(error.sel(predictor="averaging", position=5)) == pytest.approx(expected, rel=1e-12)
    assert float(error.sel(predictor="zero", position=5)) == 1
    assert np.isnan(error.sel(position=slice(0, 4))).all(), "shorter prefixes are no prompts of this task"
    assert (found.shifts, found.told_positions()) == (("standard",), (5,))
    assert found.data.sizes["reference"] == 1, "its Bayes predictor is not known"
    assert "test_signs_and_noise is evaluated without any" in found.facts["left_out"]["all"]
    assert shift_curves(found) is None, "there is no curve of one position"
    usual = evaluate(task=task, num_prompts=20, trials=20, slow_prompts=2).predictors
    assert ("huber=1.345" in usual, "arc_cosine" in usual) == (True, False)
    run = trained(task, icl.Attention("merged"))
    assert np.isfinite(evaluate(run, (), num_prompts=64, trials=20).data["error"].sel(predictor=run.run_id, position=5))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"predictors": ["arc_cosine"]}, "arc_cosine knows the law .* which test_signs_and_noise is not"),
        ({"shifts": ["scale_x=2"]}, "test_signs_and_noise is evaluated without any: leave out shifts"),
        ({"target": "clean"}, "leave out target"),
        ({"task": task.replace(masked=True)}, "the task has prompts with masked pairs"),
    ]
    for given, message in refused:
        with pytest.raises(icl.IclearnError, match=message):
            evaluate(**{"task": task, **given})


def test_linear_regression_is_the_class_of_linear_functions():
    white = icl.Covariance.eigenvalues([1.0, 1.0])
    task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None, noise=0.5, covariance=white)
    given: dict[str, Any] = {"predictors": ["averaging"], "shifts": ["scale_x=2"], "num_prompts": 64, "trials": 20}
    linear = FunctionClass(dim=2, context_len=4, noise=0.5, target="clean")
    np.testing.assert_allclose(
        evaluate(task=task, **given).data["error"], evaluate(task=linear, **given).data["error"], rtol=1e-12
    )


def test_models_of_ones_own_are_evaluated():
    class Nothing(icl.AbstractModel):
        def predict(self, prompt):
            return jnp.zeros(1)

    found = evaluate(predictors=(), models={"nothing": Nothing()}, task=CLEAN, shifts=["standard"], num_prompts=64)
    assert found.runs == ("nothing",)
    assert float(found.data["error"].sel(shift="standard", predictor="nothing", position=6)) == pytest.approx(
        1, abs=0.5
    )
