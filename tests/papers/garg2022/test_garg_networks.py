"""garg2022: networks and algorithms answer the same prompts, and what a preset cannot show is unfinished."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from iclearn.engines.batch.inputs import program_of, run_inputs
from iclearn.engines.build import prepare
from iclearn.models.predictors import Bayes, LeastSquares, Ridge
from iclearn.papers.base import PaperOptions
from iclearn.papers.collect import planned_seeds
from iclearn.papers.garg2022 import PAPER, paired_prompts, prior_or_algorithm, setup, shift_tables
from iclearn.papers.garg2022.class_tables import law_of
from iclearn.papers.garg2022.network_judges import judge_ranges, word_above
from iclearn.papers.garg2022.noted_numbers import SHIFTED, Range
from iclearn.papers.garg2022.paired_prompts import Row
from iclearn.papers.perturbing import changed, times
from iclearn.tasks.prompt_shifts import Shift

TINY = setup.PRESETS["tiny"]
TASK = setup.task_of(TINY.linear)


@pytest.fixture(scope="module")
def rows():
    shifts = (None, Shift("scale_y", 2.0), Shift("overlapping_train_test"))
    return paired_prompts.drawn_rows([Row(TASK, shift) for shift in shifts], 4)


@pytest.fixture(scope="module")
def network():
    recipe = setup.recipe_of(TINY.linear, 0)
    return recipe.model.initial(TASK, recipe.init, 0, "float32")


def test_prompts_of_all_shifts_come_from_one_draw_and_are_those_of_the_task(rows):
    np.testing.assert_allclose(rows.y[1], 2 * rows.y[0], rtol=1e-12)
    np.testing.assert_array_equal(rows.x[0], rows.x[2])
    alone = TASK.evaluation(Shift("overlapping_train_test"), num_prompts=4)
    np.testing.assert_allclose(rows.query[0], alone.query, rtol=1e-12)
    np.testing.assert_allclose(rows.target[2], alone.targets()[..., 0], rtol=1e-12)
    assert rows.plain == 2
    with pytest.raises(ValueError, match="come last"):
        paired_prompts.drawn_rows([Row(TASK, Shift("overlapping_train_test")), Row(TASK)], 2)


def test_networks_answer_queries_as_they_answer_prompts(rows, network):
    """One pass with the query in its place is the prompt of that position, for networks of one program."""
    second = jax.tree.map(lambda a: 1.5 * a, network)
    found = paired_prompts.network_answers([network, second], rows)
    assert found.shape == (2, 3, 4, TINY.linear.points)
    points = TASK.evaluation(Shift("overlapping_train_test"), num_prompts=4, dtype="float32")
    for model, answers in zip((network, second), found, strict=True):
        np.testing.assert_allclose(answers[2], points.answers(model), atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_algorithms_answer_every_row(rows):
    ours, ridge = paired_prompts.algorithm_answers((LeastSquares(), Ridge(0.25)), rows)
    assert np.abs((ours - rows.target)[:2, :, TINY.linear.dim :]).max() < 1e-8
    assert np.abs((ours - rows.target)[2, :, 1:]).max() < 1e-8  # the query is in the context
    part = paired_prompts.PromptRows(rows.x[:2], rows.y[:2], rows.query[:0], rows.target[:2])
    eye, mean = np.eye(TINY.linear.dim), np.zeros((TINY.linear.dim, 1))
    own = paired_prompts.row_answers([Bayes(mean, eye, 0.25), Bayes(mean, 4 * eye, 1.0)], part)
    np.testing.assert_allclose(own, ridge[:2], atol=1e-9)  # λ = σ²/τ² = ¼ for both


def test_a_network_that_diverged_is_no_evidence(rows, network):
    found = shift_tables.answers_or_nan([network, None], rows)
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


def test_networks_with_and_without_noise_are_one_program():
    recipes = shift_tables.recipes_of(TINY, 2)
    assert [(r.task.noise, r.seed) for r in recipes] == [(0.0, 0), (0.0, 1), (0.25, 0), (0.25, 1)]
    programs = set()
    for recipe in (recipes[0], recipes[3]):
        made = prepare(recipe)
        programs.add(program_of(recipe, run_inputs(recipe, made.model, made.engine)))
    assert len(programs) == 1


def test_presets_name_what_the_notes_know():
    for preset in setup.PRESETS.values():
        training, labels = preset.linear, set(shift_tables.plan_of(preset).names(False))
        assert training.places[2] < training.points
        assert set(SHIFTED.get(preset.known, {})) <= labels
        assert len(labels) == 21  # without a shift, 14, opposite quadrants, and five of ours
        for name, kind in preset.classes.items():
            assert max(law_of(name).places) < kind.training.points
            assert setup.task_of(kind.training, functions=kind.functions).curriculum is not None
    grown = setup.task_of(setup.GROWING).curriculum
    assert [int(grown.at(step)[0]) for step in (0, 1666, 10_000, 19_999)] == [2, 3, 8, 8]


def test_seeds_are_those_of_the_preset_where_none_are_asked_for():
    assert planned_seeds(PAPER, PAPER.figures[0], setup.Options("small")) == 1
    assert planned_seeds(PAPER, PAPER.figures[0], setup.Options("medium")) == 3
    assert planned_seeds(PAPER, PAPER.figures[0], PaperOptions()) == 3


def test_one_seed_decides_by_its_prompts_and_the_worst_network_counts():
    value, error = np.array([0.5, 0.6]), np.array([0.1, 0.1])
    assert word_above(value, error, 0.3) == "reproduced"
    assert word_above(value, error, 0.4) == "inconclusive"
    assert word_above(value, error, 0.7) == "contradicted"
    assert word_above(np.array([0.5, np.nan]), error, 0.0) == "failed"
    assert word_above(value[:0], error[:0], 0.0) == "failed"


def test_ranges_have_room_and_an_end():
    known, positions, error = {2: Range(0.6, 0.62), 6: Range(0.02, 0.03)}, np.arange(7), np.full((1, 7), 1e-3)
    values = np.full((1, 7), 0.61)
    for last, word in ((0.025, "reproduced"), (0.04, "reproduced"), (0.045, "inconclusive"), (0.1, "contradicted")):
        values[0, 6] = last
        assert judge_ranges(values, error, positions, known, dim=5).verdict == word


def test_a_network_that_never_began_to_learn_is_unfinished_and_hides_no_contradiction():
    figure = prior_or_algorithm.FIGURE
    data = figure.example()
    late = changed(data, "table/noisy_error", lambda values: 0 * values + 0.99, law=shift_tables.TRAINING_LAW, seed=[0])
    late = changed(late, "table/lead", times(-1.0), seed=[0])
    claims = {claim.id: claim for claim in figure.claims if claim.id in ("learned_prior", "noisy_ranges")}
    for claim in claims.values():
        found = claim.judge(late)
        assert (claim.judge(data).verdict, found.verdict) == ("reproduced", "unfinished")
        assert found.measured["not begun to learn, seeds"] == [0]
    others = changed(late, "table/lead", times(-1.0), seed=[1])
    assert claims["learned_prior"].judge(others).verdict == "contradicted"
    nobody = changed(data, "table/noisy_error", lambda values: 0 * values + 1.0)
    assert claims["noisy_ranges"].judge(nobody).verdict == "unfinished"


def test_a_preset_that_cannot_show_a_claim_says_unfinished():
    exact = {
        "least_squares_formula", "averaging_formula", "not_below_bayes", "formulas", "bayes_table", "errors_split",
        "algorithms", "exact_lasso",
    }  # fmt: skip
    for figure in PAPER.figures:
        data = {**figure.example(), "judged": False}
        words = {claim.id: claim.judged(data).verdict for claim in figure.claims}
        assert {name for name, word in words.items() if word != "unfinished"} <= exact, figure.id


def test_figures_draw_where_a_run_diverged_or_none_was_trained():
    for figure in PAPER.figures:
        data = dict(figure.example())
        name = "networks" if "networks" in data else "table"
        table = data[name].copy(deep=True)
        table["error"].loc[{"seed": 1}] = np.nan
        figure.draw({**data, name: table})
        if name == "networks":
            figure.draw({**data, name: None})
        if figure.id == "fig_prior":
            figure.draw({**data, name: table.drop_vars("lead")})


@pytest.mark.slow
def test_reproduce_tiny_end_to_end(tmp_path):
    command = [sys.executable, "-m", "iclearn", "reproduce", "garg2022", "--preset", "tiny", "--json"]
    told = subprocess.run([*command, "--out", tmp_path], capture_output=True, text=True, check=False)
    verdicts = json.loads(told.stdout)["verdicts"]
    assert {v["figure"] for v in verdicts} == {figure.id for figure in PAPER.figures}
    assert not [v["claim"] for v in verdicts if v["verdict"] in ("failed", "contradicted")]
    assert len(list(tmp_path.rglob("*.png"))) >= len(PAPER.figures)
