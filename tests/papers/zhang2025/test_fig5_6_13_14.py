"""Figures 5, 6, 13 and 14 at reduced sizes: collected, drawn, judged, and every judge seen to say no."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.core.status import Status
from iclearn.core.trace import Trace
from iclearn.engines.simulate import simulate
from iclearn.papers.base import Claim, Data, Figure
from iclearn.papers.lab import Lab
from iclearn.papers.zhang2025 import fig5, fig6, fig13, fig14
from iclearn.report.style import figure_style
from iclearn.theory.zhang2025 import saddle_losses


def verdict(figure: Figure, claim: str, data: Data) -> str:
    (found,) = [v for v in figure.judge("zhang2025", data) if v.claim == claim]
    return found.verdict


def words(figure: Figure, data: Data) -> dict[str, str]:
    return {v.claim: v.verdict for v in figure.judge("zhang2025", data)}


def drawn(figure: Figure, data: Data) -> list[str]:
    """The figure's axis labels, after drawing it for real."""
    with figure_style():
        made = figure.draw(data)
        made.canvas.draw()
        labels = [text for ax in made.axes for text in (ax.get_xlabel(), ax.get_ylabel()) if text]
        plt.close(made)
    return labels


def curve(loss: np.ndarray, **tests: np.ndarray) -> Trace:
    """A run of which only the curves matter."""
    steps = np.arange(len(loss))
    data = xr.Dataset({"loss": ("step", loss)}, {"step": steps, "time": ("step", steps.astype(float))})
    if tests:
        data = data.assign(test_loss=(("step", "test_set"), np.stack(list(tests.values()), -1)))
        data = data.assign_coords(test_set=np.array(list(tests), dtype=object))
    return Trace(data, Status.FINISHED, len(loss), {"recipe_hash": "0" * 64})


def stairs(*heights: float, width: int = 400) -> np.ndarray:
    """A curve with a plateau at each height and a smooth drop between neighbors."""
    t = np.arange(width * len(heights))
    falls = [(a - b) / (1 + np.exp((t - width * (i + 1)) / 8)) for i, (a, b) in enumerate(pairwise(heights))]
    return heights[-1] + np.sum(falls, axis=0)


@pytest.mark.parametrize("figure", [fig5.FIGURE, fig6.FIGURE, fig13.FIGURE, fig14.FIGURE])
def test_claims_say_what_they_expect_and_how_closely(figure):
    assert len({claim.id for claim in figure.claims}) == len(figure.claims)
    for claim in figure.claims:
        assert isinstance(claim, Claim)
        assert claim.statement.endswith(".")
        assert claim.expected
        assert claim.tolerance
    assert figure.setup
    assert figure.cost


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

    def test_judges_can_say_yes_and_no(self):
        levels = fig5.levels(4)
        good = {"merged": [curve(stairs(1.0, levels[-1]))] * 3, "separate": [curve(stairs(*levels))] * 3}
        assert set(words(fig5.FIGURE, good).values()) == {"reproduced"}
        swapped = {"merged": good["separate"], "separate": good["merged"]}
        found = words(fig5.FIGURE, swapped)
        assert [found[c] for c in ("merged_one_drop", "separate_several", "more_than_merged")] == ["contradicted"] * 3
        elsewhere = {**good, "separate": [curve(stairs(1.0, 0.8, 0.5, 0.3, 0.2))] * 3}
        assert verdict(fig5.FIGURE, "near_linear", elsewhere) == "contradicted"
        unfinished = {family: [curve(stairs(1.0, 0.5))] * 3 for family in good}
        assert verdict(fig5.FIGURE, "final_loss", unfinished) == "contradicted"


@pytest.fixture(scope="module")
def data6(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig6, "MERGED_SCALES", (1e-6, 1e-4, 1e-3, 0.3))
        patch.setattr(fig6, "SEPARATE_SCALES", (5e-3, 1e-2, 1.0))
        return fig6.FIGURE.collect(Lab(tmp_path_factory.mktemp("fig6"), seeds=1))


class TestFig6:
    def test_laws_hold_at_reduced_size(self, data6):
        assert set(words(fig6.FIGURE, data6).values()) == {"reproduced"}

    def test_draws(self, data6):
        assert any("t/\\tau" in label for label in drawn(fig6.FIGURE, data6))

    def test_law_fails_when_the_plateau_does_not_depend_on_init(self, data6):
        one = {family: dict.fromkeys(runs, next(iter(runs.values()))) for family, runs in data6.items()}
        found = words(fig6.FIGURE, one)
        assert found["merged_log"] == found["separate_inverse"] == found["separate_whole"] == "contradicted"

    def test_predictions_fail_for_other_runs_times(self, data6):
        """Curves slowed down by a tenth no longer end when their initial weights say."""

        def slowed(trace: Trace) -> Trace:
            return replace(trace, data=trace.data.assign_coords(time=1.1 * trace.data["time"]))

        slow = {family: {s: [slowed(t) for t in ts] for s, ts in runs.items()} for family, runs in data6.items()}
        found = words(fig6.FIGURE, slow)
        assert found["merged_predicted"] == found["separate_predicted"] == found["merged_log"] == "contradicted"

    def test_small_initialization_is_no_decay_from_step_0(self, data6):
        for family in ("merged", "separate"):
            small = {s: next(iter(data6[family].values())) for s in data6[family]}
            assert verdict(fig6.FIGURE, f"{family}_large", {**data6, family: small}) == "contradicted"

    def test_names_of_scales(self):
        assert [fig6._name(s) for s in (1e-8, 3e-3, 0.1, 1.0)] == ["$10^{-8}$", r"$3\cdot10^{-3}$", "0.1", "1"]


@pytest.fixture(scope="module")
def data13(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig13, "PROMPTS", {"merged": 1000, "separate": None})
        patch.setattr(fig13, "STEPS", {"merged": 2501, "separate": 4001})
        patch.setattr(fig13, "TEST_PROMPTS", 500)
        patch.setattr(fig13, "SAMPLED", (8, 64))
        return fig13.FIGURE.collect(Lab(tmp_path_factory.mktemp("fig13"), seeds=2))


class TestFig13:
    def test_one_length_gives_equation_19(self):
        np.testing.assert_allclose(fig13.prefix_levels(False), saddle_losses([0.4, 0.3, 0.2, 0.1], 31), rtol=1e-12)

    def test_last_level_is_where_training_on_prefixes_ends(self):
        final = simulate(fig13.recipe("merged", 0, None, prefixes=True)).final_loss
        assert final == pytest.approx(fig13.prefix_levels(True)[-1], rel=1e-4)

    def test_claims_that_need_no_long_run(self, data13):
        found = words(fig13.FIGURE, data13)
        for claim in ("merged_drop", "shorter_contexts", "longer_contexts", "optimum", "division"):
            assert found[claim] == "reproduced", claim
        assert found["separate_drops"] != "reproduced"  # 4001 steps are too few for the last eigenvector

    def test_draws(self, data13):
        assert "pairs in the test context" in drawn(fig13.FIGURE, data13)

    def test_judges_can_say_no(self, data13):
        tests = data13["tests"]
        swapped = tests.assign_coords(training=np.array(["fixed", "prefixes", "fixed, sum over tokens"], dtype=object))
        found = words(fig13.FIGURE, {**data13, "tests": swapped})
        assert found["shorter_contexts"] == found["longer_contexts"] == "contradicted"
        found = words(fig13.FIGURE, {**data13, "tests": tests.assign(closed=tests["closed"] / 30)})
        assert found["optimum"] == found["division"] == found["sampled"] == "contradicted"
        runs = dict(data13["runs"])
        runs["merged", "prefixes"] = [curve(stairs(1.0, 0.6, 0.3))] * 3
        runs["separate", "prefixes"] = [
            curve(stairs(1.0, *(h + d for h in (0.75, 0.55, 0.4)), 0.32)) for d in (0, 1e-3, -1e-3)
        ]
        found = words(fig13.FIGURE, {**data13, "runs": runs})
        assert found["merged_drop"] == found["heights"] == "contradicted"
        assert found["separate_drops"] == "reproduced"
        runs["separate", "prefixes"] = runs["merged", "prefixes"]
        assert verdict(fig13.FIGURE, "separate_drops", {**data13, "runs": runs}) == "contradicted"


@pytest.fixture(scope="module")
def data14(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig14, "PROMPTS", 1000)
        return fig14.FIGURE.collect(Lab(tmp_path_factory.mktemp("fig14"), seeds=3))


class TestFig14:
    def test_claims_hold_at_reduced_size(self, data14):
        found = words(fig14.FIGURE, data14)
        for claim in ("in_weight_only", "first_then_lost", "weights_before_context", "never_learned"):
            assert found[claim] == "reproduced", claim

    def test_draws(self, data14):
        assert {"step", "loss"} <= set(drawn(fig14.FIGURE, data14))

    def test_judges_say_no_when_the_test_sets_are_swapped(self, data14):
        names = np.array(["in_context", "in_weight"], dtype=object)
        swapped = {
            c: [replace(t, data=t.data.assign_coords(test_set=names)) for t in traces]
            for c, traces in data14["runs"].items()
        }
        found = words(fig14.FIGURE, {"runs": swapped})
        for claim in ("in_weight_only", "first_then_lost", "weights_before_context", "minima", "never_learned"):
            assert found[claim] == "contradicted", claim

    def test_numbers_of_one_run_are_judged_by_the_spread_of_ours(self):
        def runs(ends: list[float]):
            flat = np.ones(10)
            return {"runs": {0.0: [curve(flat, in_weight=flat, in_context=flat * end) for end in ends]}}

        assert verdict(fig14.FIGURE, "published_rise", runs([2.2, 2.3, 2.4])) == "reproduced"
        assert verdict(fig14.FIGURE, "published_rise", runs([2.5, 2.51, 2.52])) == "contradicted"
        assert verdict(fig14.FIGURE, "published_rise", runs([2.2])) == "inconclusive"

    def test_minima_must_move_with_the_mix(self, data14):
        same = dict.fromkeys(data14["runs"], data14["runs"][0.4])
        assert verdict(fig14.FIGURE, "later_and_shallower", {"runs": same}) == "contradicted"
