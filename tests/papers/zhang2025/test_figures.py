"""Figures of zhang2025 at reduced sizes: collected, drawn, judged; what their judges rest on."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from iclearn.core.recipe import Init
from iclearn.engines.simulate import simulate
from iclearn.papers.base import Figure
from iclearn.papers.collect import load_paper
from iclearn.papers.lab import Lab
from iclearn.papers.zhang2025 import context_lengths, fig1, fig3c, fig4, fig5, fig6, fig13, fig14, fig_landscape
from iclearn.papers.zhang2025.drops import Wait, judge_exponent, judge_waits, learned_times, predicted_drops, waits
from iclearn.papers.zhang2025.examples import (
    altered,
    changed_loss,
    changed_weights,
    curve,
    cut,
    scaled_loss,
    scaled_time,
    separate_run,
    stairs,
)
from iclearn.papers.zhang2025.judges import drops_of, heights_by_level, judge_heights, judge_pooled, judge_within
from iclearn.papers.zhang2025.setup import levels, merged_recipe, public_task, separate_recipe
from iclearn.report.style import figure_style
from iclearn.theory.zhang2025 import saddle_losses

FIGURES = load_paper("zhang2025").figures


def words(figure: Figure, data) -> dict[str, str]:
    return {claim.id: claim.judged(data).verdict for claim in figure.claims}


def drawn(figure: Figure, data) -> list[str]:
    """The figure's axis labels, after drawing it for real."""
    with figure_style():
        made = figure.draw(data)
        made.canvas.draw()
        labels = [text for ax in made.axes for text in (ax.get_xlabel(), ax.get_ylabel()) if text]
        plt.close(made)
    return labels


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_claims_say_what_they_expect_how_closely_and_why(figure):
    assert len({claim.id for claim in figure.claims}) == len(figure.claims)
    for claim in figure.claims:
        assert claim.statement.endswith("."), claim.id
        assert all((claim.expected, claim.tolerance, claim.reason)), claim.id
        assert claim.before or figure.choices, f"{claim.id}: the register must say what came out before"
    assert all((figure.setup, figure.cost))


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.id)
def test_examples_are_drawn_as_the_data_are(example_of, figure):
    assert drawn(figure, example_of(figure))


def test_changed_runs_leave_the_run_as_it_is():
    run = separate_run(0)
    before = run.data.copy(deep=True)
    changes = {
        "loss": scaled_loss(2.0), "time": scaled_time(3.0), "weight_key": changed_weights(lambda _, array: -array),
    }  # fmt: skip
    for name, change in changes.items():
        other = change(run)
        assert not np.array_equal(other.data[name], run.data[name])
        assert other.data.sizes == run.data.sizes
        assert set(other.data.variables) == set(run.data.variables)
        kept = set(run.data.variables) - {*changes} - {"weight_query", "weight_value"}
        assert all(other.data[k].identical(run.data[k]) for k in kept if "time" not in run.data[k].coords)
    assert run.data.identical(before)
    with pytest.raises(ValueError, match="shape"):
        changed_loss(lambda loss: loss[1:])(run)


def test_what_is_read_off_a_run_is_kept_with_it_and_not_with_a_changed_one():
    run = separate_run(0)
    assert waits(run) is waits(run)
    assert [wait.measured for wait in waits(scaled_time(2.0)(run))] == pytest.approx(
        [2 * wait.measured for wait in waits(run)]
    )


class TestJudges:
    def test_heights_are_those_of_the_curve_and_must_be_known_well_enough(self):
        runs = [curve(factor * stairs(*levels(4))) for factor in (0.999, 1.0, 1.001)]
        found = heights_by_level([[run] for run in runs], levels(4))
        assert [len(row) for row in found.values()] == [3, 3, 3, 3]
        assert judge_heights(found, levels(4)).verdict == "reproduced"
        off = {m: [height + 0.02 for height in row] for m, row in found.items()}
        assert judge_heights(off, levels(4)).verdict == "contradicted"
        wild = {m: [0.8 * row[0], row[1], 1.2 * row[2]] for m, row in found.items()}
        assert judge_heights(wild, levels(4)).verdict == "inconclusive"
        assert judge_heights({**found, 2: found[2][:2]}, levels(4)).verdict == "inconclusive"

    def test_heights_of_one_seed_count_once(self):
        runs = [curve(stairs(*levels(4)))] * 3
        assert [len(row) for row in heights_by_level([runs], levels(4)).values()] == [1] * 4
        chosen = heights_by_level([runs], levels(4), lambda trace, m: m == 2)
        assert [len(row) for row in chosen.values()] == [0, 0, 1, 0]

    def test_a_kind_that_fails_does_not_hide_behind_others(self):
        good = {m: [True] * 6 for m in range(4)}
        assert judge_pooled(good, 0).verdict == "reproduced"
        assert judge_pooled({**good, 2: [True] * 3 + [False] * 3}, 0).verdict == "inconclusive"
        assert judge_pooled({**good, 2: [False] * 6}, 0).verdict == "contradicted"
        assert judge_pooled({}, 0).verdict == "failed"
        assert judge_pooled({m: [True, True, True, False] for m in range(9)}, 0, share=0.8).verdict == "inconclusive"

    def test_within_needs_the_whole_interval(self):
        assert judge_within([0.99, 1.0, 1.01], 1.0, 0.1).verdict == "reproduced"
        assert judge_within([0.7, 1.0, 1.3], 1.0, 0.1).verdict == "inconclusive"
        assert judge_within([1.49, 1.5, 1.51], 1.0, 0.1).verdict == "contradicted"
        assert judge_within([1.0, np.nan], 1.0, 0.1).verdict == "failed"
        assert judge_within([1.0], 1.0, 0.1).verdict == "inconclusive"

    def test_small_drops_do_not_count(self):
        assert len(drops_of(curve(stairs(1.0, 0.5, 0.1)))) == 2
        assert len(drops_of(curve(stairs(1.0, 0.11, 0.1)))) == 1


class TestDrops:
    def test_waits_of_a_real_run_follow_from_its_initial_weights(self):
        """Small weights, infinitely many prompts: the theory's leading order to a per cent or two."""
        run = simulate(separate_recipe(4, public_task(prompts=None), heads=5, init=3e-3, steps=40_001))
        found = waits(run)
        assert len(found) >= 3
        assert [wait.new_head for wait in found] == [True] * len(found)
        np.testing.assert_allclose([wait.measured / wait.predicted for wait in found], 1, atol=0.03)

    def test_half_of_a_drop_is_done_when_its_weights_say(self):
        run = separate_run(0)
        times = [drop.time for drop in predicted_drops(run)]
        np.testing.assert_allclose(learned_times(run), times, rtol=1e-2)
        middle = [(levels(4)[m] + levels(4)[m + 1]) / 2 for m in range(4)]
        for time, loss in zip(times, middle, strict=True):
            assert np.interp(time, run.data["time"], run.loss) == pytest.approx(loss, abs=0.03)

    def test_a_wait_that_did_not_end_counts_once_it_is_longer_than_predicted(self):
        run = separate_run(0)
        assert len(waits(cut(0.5)(run))) < 4
        frozen = cut(0.5)(run)
        longer = frozen.data.assign_coords(time=10 * frozen.data["time"])
        late = waits(type(run)(longer, run.status, run.status_step, run.provenance))
        assert late[-1].measured > late[-1].predicted

    def test_judges_of_waits(self):
        rng = np.random.default_rng(0)
        good = [Wait(i % 8, True, 100 * (1 + 0.01 * rng.normal()), 100.0) for i in range(40)]
        assert judge_waits({"all": good}, 0.05, 0.2).verdict == "reproduced"
        assert judge_waits({"all": good[:4]}, 0.05, 0.2).verdict == "inconclusive"
        assert judge_waits({}, 0.05, 0.2).verdict == "failed"
        slow = [Wait(w.component, True, 1.3 * w.measured, w.predicted) for w in good]
        assert judge_waits({"all": good, "one rank": slow}, 0.05, 0.2).verdict == "contradicted"
        assert judge_exponent({"all": good}, 8, 0.5).verdict == "reproduced"
        steep = [Wait(w.component, True, w.measured * (w.component + 1.0), w.predicted) for w in good]
        assert judge_exponent({"all": good, "one kind": steep}, 8, 0.5).verdict == "contradicted"
        assert judge_exponent({"all": good[:3]}, 8, 0.5).verdict == "inconclusive"


class TestExamples:
    def test_only_what_is_named_is_altered_and_nothing_in_place(self):
        data = {"a": {1: [curve(np.ones(10))] * 2}, "b": [curve(np.ones(10))]}
        made = altered(scaled_loss(2.0), "a", half=True)(data)
        assert [t.final_loss for t in made["a"][1]] == [2.0, 1.0]
        assert made["b"][0].final_loss == data["a"][1][0].final_loss == 1.0

    def test_an_example_run_learns_in_order_with_the_theorys_levels(self):
        run = separate_run(1, 8, 2, heads=9)
        assert run.final_loss == pytest.approx(levels(8)[-1], rel=1e-3)
        assert [drop.new_head for drop in predicted_drops(run)] == [True, False] * 4


class TestFig1:
    def test_reduced_attention_and_the_network_are_one_trajectory(self):
        """The same sum written twice: equal to rounding at every step, for any prompts."""
        curves = [
            simulate(merged_recipe(0, public_task(prompts=200), family, init=Init(1e-2), steps=800)).loss.values
            for family in ("merged_reduced", "mlp")
        ]
        np.testing.assert_allclose(*curves, rtol=1e-9)

    def test_collects_and_judges(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig1, "PROMPTS", (200, 400, 800))
        data = fig1.FIGURE.collect(Lab(tmp_path, seeds=2))
        assert [len(runs) for runs in data["mlp"].values()] == [2, 2, 2]
        found = words(fig1.FIGURE, data)
        assert "failed" not in found.values()
        assert found["one_drop"] == "inconclusive", "two seeds are too few"


class TestRanks:
    def test_collects_both_initializations(self, tmp_path, monkeypatch):
        from iclearn.papers.zhang2025 import ranks

        monkeypatch.setattr(ranks, "STEPS", 40)
        monkeypatch.setattr(ranks, "public_task", lambda dim, prompts: public_task(dim, 50))
        data = fig4.FIGURE.collect(Lab(tmp_path, seeds=1))
        assert list(data) == ["entries", "per_head"]
        assert all(list(runs) == ["R=1", "R=2", "R=4", "R=8"] for runs in data.values())
        sizes = {s: float(np.std(data[s]["R=2"][0].data["weight_query"][0])) for s in data}
        assert sizes["entries"] / sizes["per_head"] == pytest.approx(18**0.5)
        assert words(fig4.FIGURE, data)["finished"] != "reproduced"


def test_the_path_is_found_in_the_weights():
    run = separate_run(0, own=500)
    assert fig_landscape.visits(run) == [tuple(range(m)) for m in range(5)]
    assert fig_landscape.visits(cut(0.02)(run)) == [()]


def test_alignment_is_lost_by_the_angle_that_keys_are_turned():
    run = separate_run(0)
    turned = fig3c.cosines(fig3c.tilted(0.1)(run))
    assert [turned[d] for d in range(4)] == pytest.approx([np.cos(0.1)] * 4, abs=1e-3)


class TestFig5:
    def test_recipes_scale_to_more_prompts(self):
        plans = fig5.recipes(range(2), 80_000)
        assert [len(plan) for plan in plans.values()] == [2, 2]
        for recipe in (*plans["merged"], *plans["separate"]):
            assert recipe.task.num_prompts == 80_000  # type: ignore[attr-defined]
            assert recipe.model.softmax  # type: ignore[attr-defined]
        assert len({r.hash for plan in plans.values() for r in plan}) == 4

    def test_collects_and_draws(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig5, "PROMPTS", 50)
        monkeypatch.setattr(fig5, "SIZES", {"merged": (1e-2, 0.1, 200), "separate": (0.05, 0.3, 200)})
        data = fig5.FIGURE.collect(Lab(tmp_path, seeds=1))
        assert [len(data[family]) for family in ("merged", "separate")] == [1, 1]
        assert all(trace.final_loss < 0.8 * float(trace.loss[0]) for trace in data["merged"])
        assert "training loss" in drawn(fig5.FIGURE, data)
        assert "failed" not in words(fig5.FIGURE, data).values()


class TestFig6:
    @pytest.mark.slow
    def test_laws_hold_at_reduced_size(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig6, "MERGED_SCALES", (1e-6, 1e-3, 0.3))
        monkeypatch.setattr(fig6, "SEPARATE_SCALES", (5e-3, 1e-2, 1.0))
        data = fig6.FIGURE.collect(Lab(tmp_path, seeds=6))
        assert set(words(fig6.FIGURE, data).values()) == {"reproduced"}
        assert any("t/\\tau" in label for label in drawn(fig6.FIGURE, data))

    def test_names_of_scales(self):
        assert [fig6._name(s) for s in (1e-8, 3e-3, 0.1, 1.0)] == ["$10^{-8}$", r"$3\cdot10^{-3}$", "0.1", "1"]


class TestFig13:
    def test_one_length_gives_equation_19(self):
        expected = saddle_losses([0.4, 0.3, 0.2, 0.1], 31)
        np.testing.assert_allclose(context_lengths.prefix_levels(False), expected, rtol=1e-12)

    def test_last_level_is_where_training_on_prefixes_ends(self):
        final = simulate(fig13.recipe("merged", 0, None, prefixes=True)).final_loss
        assert final == pytest.approx(context_lengths.prefix_levels(True)[-1], rel=1e-4)

    def test_collects_and_draws(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig13, "PROMPTS", {"merged": 100, "separate": None})
        monkeypatch.setattr(fig13, "STEPS", {"merged": 80, "separate": 80})
        for module in (fig13, context_lengths):
            monkeypatch.setattr(module, "TEST_PROMPTS", 50)
            monkeypatch.setattr(module, "SAMPLED", (8, 64))
        data = fig13.FIGURE.collect(Lab(tmp_path, seeds=1))
        assert "reproduced" not in {words(fig13.FIGURE, data)[claim] for claim in ("merged_drop", "separate_drops")}
        assert "pairs in the test context" in drawn(fig13.FIGURE, data)

    @pytest.mark.slow
    def test_claims_that_need_no_long_run(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig13, "PROMPTS", {"merged": 1000, "separate": None})
        monkeypatch.setattr(fig13, "STEPS", {"merged": 2501, "separate": 4001})
        for module in (fig13, context_lengths):
            monkeypatch.setattr(module, "TEST_PROMPTS", 500)
            monkeypatch.setattr(module, "SAMPLED", (8, 64))
        data = fig13.FIGURE.collect(Lab(tmp_path, seeds=6))
        found = words(fig13.FIGURE, data)
        for claim in ("merged_drop", "shorter_contexts", "longer_contexts", "optimum", "division"):
            assert found[claim] == "reproduced", claim
        assert found["separate_drops"] != "reproduced"  # 4001 steps are too few for the last eigenvector
        assert "pairs in the test context" in drawn(fig13.FIGURE, data)


class TestFig14:
    def test_collects_and_draws(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig14, "PROMPTS", 100)
        monkeypatch.setattr(fig14, "STEPS", 80)
        data = fig14.FIGURE.collect(Lab(tmp_path, seeds=1))
        assert "reproduced" not in words(fig14.FIGURE, data).values()
        assert {"step", "loss"} <= set(drawn(fig14.FIGURE, data))

    @pytest.mark.slow
    def test_claims_hold_at_reduced_size(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fig14, "PROMPTS", 1000)
        data = fig14.FIGURE.collect(Lab(tmp_path, seeds=6))
        found = words(fig14.FIGURE, data)
        for claim in ("in_weight_only", "weights_before_context", "never_learned"):
            assert found[claim] == "reproduced", claim
        assert {"step", "loss"} <= set(drawn(fig14.FIGURE, data))

    def test_numbers_of_one_run_are_judged_by_the_spread_of_ours(self):
        def judged(*values: float) -> str:
            return fig14.judge_one_run({"end": values}, {"end": 2.2}).verdict

        assert judged(2.2, 2.3, 2.4) == "reproduced"
        assert judged(2.5, 2.51, 2.52) == "contradicted"
        assert judged(2.2) == "inconclusive"
        assert judged(1.2, 2.2, 3.2) == "inconclusive", "too much scatter to tell"
        assert judged(2.2, 2.3, np.nan) == "failed"
