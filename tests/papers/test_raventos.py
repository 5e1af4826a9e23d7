"""raventos2023: transformers on pools are measured as the figures say, and what a preset cannot show is unfinished."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.models.predictors import DiscreteMMSE, Ridge
from iclearn.papers.judging import judge_above
from iclearn.papers.lab import Lab
from iclearn.papers.perturbing import changed, times
from iclearn.papers.raventos2023 import PAPER, interpolated_pools, pool_trainings, setup
from iclearn.papers.raventos2023.examples import example

TINY = setup.PRESETS["tiny"]


def test_new_sequences_are_the_same_for_every_pool_and_dmmse_is_not():
    few, many = (pool_trainings.answered_set(TINY, k, 0, "new") for k in (1, 16))
    np.testing.assert_array_equal(few.x, many.x)
    np.testing.assert_array_equal(few.answers[:2], many.answers[:2])
    assert float(jnp.abs(few.answers[2] - many.answers[2]).max()) > 0.1
    alone = pool_trainings.answered_set(TINY, 1, 0, "pool")  # the shapes of before: nothing is compiled again
    np.testing.assert_allclose(alone.answers[2], alone.answers[0], rtol=1e-12)


def test_a_model_is_measured_against_each_reference():
    test = pool_trainings.answered_set(TINY, 16, 1, "pool")
    ridge, dmmse = Ridge(setup.NOISE), DiscreteMMSE(setup.task_of(TINY, 16).pool(1), setup.NOISE)
    for model, index in ((ridge, 1), (dmmse, 2)):
        rows = pool_trainings.rows_of(pool_trainings.answers_of(model, test), test)
        assert rows.shape == (3, TINY.sequences)
        assert rows[index].max() < 1e-9
        errors = np.asarray(test.answers[index] - test.answers[0]) ** 2
        np.testing.assert_allclose(rows[0], errors.mean(-1) / TINY.dim, rtol=1e-3, atol=1e-6)


def test_the_first_task_is_in_every_pool():
    few, many = (pool_trainings.first_task(TINY, k, 3) for k in (1, 16))
    np.testing.assert_array_equal(few.y, many.y)
    w = setup.task_of(TINY, 16).pool(3)[0]
    np.testing.assert_allclose(many.answers[0], many.x @ w, rtol=1e-12)


def test_paths_lead_from_task_to_task_with_the_same_inputs_and_noise():
    test = pool_trainings.path_set(TINY, 2, 0)
    places = len(pool_trainings.PLACES)
    shape = (places, TINY.pairs * TINY.each, TINY.points)
    x, y, truth = (np.asarray(a).reshape(*shape, -1) for a in (test.x, test.y, test.answers[0]))
    assert all(np.array_equal(x[0], one) for one in x)
    np.testing.assert_allclose(y - truth, np.broadcast_to(y[0] - truth[0], truth.shape), atol=1e-12)
    tasks = np.asarray(setup.task_of(TINY, 2).pool(0))
    radius = np.linalg.norm(tasks, axis=1).mean()
    for place, w in ((-1, tasks[0]), (0, tasks[1])):
        np.testing.assert_allclose(
            truth[place, ..., 0], x[place] @ w * radius / np.linalg.norm(w), rtol=1e-9, atol=1e-12
        )


@pytest.mark.slow
def test_trained_transformers_are_measured_at_every_record(monkeypatch):
    traces = []

    def kept(recipes, finished):
        traces.extend(simulate_many(recipes, finished=finished))

    simulate_many = pool_trainings.simulate_many
    monkeypatch.setattr(pool_trainings, "simulate_many", kept)
    table, other = pool_trainings.train_and_measure(TINY, "long", [0, 1])
    assert float(abs(table["delta"] - other["delta"]).max()) > 0, "seeds differ"
    assert table["record"].values.tolist() == [2, 4, 6, 8]
    assert dict(table["delta"].sizes) == {"pool": 2, "record": 4, "test": 2, "reference": 3}
    assert np.isfinite(table["score"]).all()
    assert np.isfinite(table["path"]).all()
    test = pool_trainings.answered_set(TINY, 16, 0, "new")
    rows = pool_trainings.rows_of(pool_trainings.answers_of(traces[1].model(), test), test)
    last = table["delta"].sel(pool=16, test="new").isel(record=-1)
    np.testing.assert_allclose(last, rows.mean(-1), rtol=1e-4)
    base = float(table["between"].sel(pool=16, test="new", pair="ridge-truth"))
    missed = float(last.sel(reference="truth") - last.sel(reference="ridge")) - base
    assert float(table["cross"].sel(pool=16, test="new")) == pytest.approx(missed, abs=1e-6)


@pytest.mark.parametrize("accelerator", [True, False])
def test_on_a_gpu_the_seeds_that_are_not_stored_are_trained_together(tmp_path, monkeypatch, accelerator):
    asked = []

    def made(preset, length, seeds):
        asked.append(list(seeds))
        models = [Ridge(setup.NOISE)] * preset.of(length).records
        found = {s: [pool_trainings.measured(models, k, s, preset, length) for k in (2, 16)] for s in seeds}
        return [pool_trainings.as_table(found[s], preset, length) for s in seeds]

    monkeypatch.setattr(pool_trainings, "train_and_measure", made)
    monkeypatch.setattr(pool_trainings, "on_accelerator", lambda: accelerator)
    options = setup.Options("tiny")
    assert pool_trainings.trained(Lab(tmp_path, seeds=1, options=options), "short").sizes["seed"] == 1
    table = pool_trainings.trained(Lab(tmp_path, seeds=3, options=options), "short")
    assert asked == ([[0], [1, 2]] if accelerator else [[0], [1], [2]])
    assert table.sizes["seed"] == 3
    assert float(table["between"].std("seed").max()) > 0, "every seed has its own pools"
    assert pool_trainings.trained(Lab(tmp_path, seeds=3, options=options, offline=True), "short").identical(table)


def test_a_transformer_that_has_not_memorized_its_pool_contradicts_nothing():
    """The middle of the paths is judged of transformers that are dMMSE on the pool itself."""
    data = interpolated_pools.example()
    size = data["roles"].paths[0]
    wrong = changed(data, "long/path", times(4.0), pool=size, measure="transformer-dmmse")
    assert interpolated_pools.few_follow(wrong).verdict == "contradicted"
    early = changed(wrong, "long/delta", times(1e6), pool=size, test="pool", reference="dmmse")
    found = interpolated_pools.few_follow(early)
    assert found.verdict == "unfinished"
    assert any("on its pool" in name for name in found.measured)


def test_what_is_measured_of_one_run_is_laid_out_by_record():
    """A run that begins as ridge and ends as dMMSE, without training one."""
    models = [Ridge(setup.NOISE)] * 3 + [DiscreteMMSE(setup.task_of(TINY, 16).pool(0), setup.NOISE)]
    found = pool_trainings.measured(models, 16, 0, TINY, "long")
    table = pool_trainings.as_table([found, found], TINY, "long").isel(pool=1)
    distance = table["delta"].sel(test="pool")
    np.testing.assert_allclose(distance.sel(reference="ridge")[:3], 0, atol=1e-9)
    np.testing.assert_allclose(distance.sel(reference="dmmse")[3], 0, atol=1e-9)
    apart = float(table["between"].sel(test="pool", pair="dmmse-ridge"))
    np.testing.assert_allclose(distance.sel(reference="dmmse")[0], apart, rtol=1e-4)
    np.testing.assert_allclose(table["score"][0], table["ridge_score"], atol=1e-4)
    np.testing.assert_allclose(table["score"][3], table["dmmse_score"], atol=1e-4)
    assert float(table["path"].sel(measure="transformer-dmmse").max()) < 1e-9
    assert float(table["path"].sel(measure="transformer-ridge").min()) > 1e-4
    lost = pool_trainings.measured([], 16, 0, TINY, "short")
    assert np.isnan(lost["delta"]).all(), "a run that diverged is no evidence"
    assert np.isfinite(lost["between"]).all()


def test_a_preset_that_cannot_show_a_claim_says_unfinished():
    words = {}
    for scope in ("none", "directions", "all"):
        words[scope] = {
            claim.id: claim.judged({**figure.example(), "scope": scope}).verdict
            for figure in PAPER.figures
            for claim in figure.claims
        }
    exact = {"ridge_prefixes", "table", "identities", "order", "errors_split"}
    assert {name for name, word in words["none"].items() if word != "unfinished"} == exact
    shown = {name for name, word in words["directions"].items() if word == "reproduced"} - exact
    assert shown == {"two_sides", "closer_above", "beats_dmmse", "many_follow_ridge"}
    assert set(words["all"].values()) == {"reproduced"}


def test_roles_are_pools_that_are_trained():
    for preset in setup.PRESETS.values():
        roles = preset.roles
        assert {*roles.below, *roles.above} <= {*preset.short.pools} & {*preset.long.pools}
        assert {*roles.memorized, *roles.transient, *roles.lasting, *roles.paths} <= {*preset.long.pools}
        for role in (roles.beats, roles.many, roles.dmmse_side, roles.ridge_side):
            assert {*role} <= {*preset.short.pools, *preset.long.pools}
        assert 2 * preset.pairs <= min(roles.paths)


def test_figures_draw_where_a_run_diverged():
    data = example()
    data["long"]["delta"].loc[{"pool": 32, "seed": 1}] = np.nan
    data["long"]["score"].loc[{"pool": 32, "seed": 0}] = np.nan
    for figure in PAPER.figures[1:]:
        figure.draw(data)


def test_a_bound_over_seeds_needs_seeds_that_agree():
    assert judge_above([0.3, 0.31, 0.29], 0.0).verdict == "reproduced"
    assert judge_above([-0.3, -0.31, -0.29], 0.0).verdict == "contradicted"
    assert judge_above([0.9, 0.1, -0.4], 0.0).verdict == "inconclusive"
    assert judge_above([5.0], 0.0).verdict == "inconclusive"
    assert judge_above([1.0, float("nan")], 0.0).verdict == "failed"
    assert judge_above([], 0.0).verdict == "failed"


@pytest.mark.slow
def test_reproduce_tiny_end_to_end(tmp_path):
    command = [
        sys.executable,
        "-m",
        "iclearn",
        "reproduce",
        "raventos2023",
        "--preset",
        "tiny",
        "--seeds",
        "1",
        "--json",
    ]
    told = subprocess.run([*command, "--out", tmp_path], capture_output=True, text=True, check=False)
    verdicts = json.loads(told.stdout)["verdicts"]
    assert {v["figure"] for v in verdicts} == {"fig_predictors", "fig_threshold", "fig_transience", "fig_paths"}
    assert not [v["claim"] for v in verdicts if v["verdict"] == "failed"]
    assert len(list(tmp_path.rglob("*.svg")) + list(tmp_path.rglob("*.png"))) >= 4
