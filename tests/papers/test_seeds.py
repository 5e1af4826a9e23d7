"""Numbers of seeds: `--seeds n` means n everywhere, and a claim knows how many it needs."""

from __future__ import annotations

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.core.trace import Trace
from iclearn.papers.base import Claim, Figure, Paper
from iclearn.papers.collect import PAPERS, collect, load_paper, planned_seeds
from iclearn.papers.judging import (
    MEAN_SEEDS,
    SHARE_SEEDS,
    judge_mean,
    judge_seeds,
    least_for_mean,
    least_for_share,
)
from iclearn.papers.planning import _Counting, _tried, plan, seconds_of
from iclearn.report.paper import Drawing, what_holds, write_report

EVERY = [load_paper(name) for name in PAPERS.names()]
EXAMPLE_SEEDS = 6  # of example tables that say only how many draws each size has


def cases(papers: list[Paper]):
    return [pytest.param(one, figure, id=f"{one.id}-{figure.id}") for one in papers for figure in one.figures]


FIGURES = cases(EVERY)


def first_seeds(data, count: int):
    """Example data as they would be with so many seeds."""
    if isinstance(data, dict):
        return {key: first_seeds(value, count) for key, value in data.items()}
    if isinstance(data, list) and data and isinstance(data[0], Trace):
        return data[:count]
    if not isinstance(data, xr.Dataset | xr.DataArray):
        return data
    names = set(data.data_vars) if isinstance(data, xr.Dataset) else set()
    for name in names & {"repetitions", "pools"}:  # draws of every size, in proportion to the seeds
        return data.assign({name: data[name] * count // EXAMPLE_SEEDS})
    if count == 1 and names >= {"mean", "error"}:  # one draw has no standard error
        return data.assign(error=data["error"] * np.nan)
    return data.isel({axis: slice(count) for axis in ("seed", "repetition") if axis in data.dims})


@pytest.mark.parametrize(("paper", "figure"), FIGURES)
def test_a_claim_needs_the_least_number_at_which_it_can_be_judged(example_of, paper, figure):
    data = example_of(figure)
    for claim in figure.claims:
        least = claim.min_seeds
        assert claim.judged(first_seeds(data, max(least, 1))).verdict == "reproduced", claim.id
        if least and claim.id != "trained_hurts_bottom":  # its example has differences of draws already
            on_errors = MEAN_SEEDS <= least < SHARE_SEEDS  # few values have a standard error, but a doubtful one
            word = claim.judged(first_seeds(data, 1 if on_errors else least - 1)).verdict
            assert word not in (["reproduced"] if on_errors else ["reproduced", "contradicted"]), (claim.id, word)


@pytest.mark.parametrize(("paper", "figure"), FIGURES)
def test_planned_seeds_are_enough(paper, figure):
    assert planned_seeds(paper, figure) >= max((claim.min_seeds for claim in figure.claims), default=0)


def test_the_least_numbers_follow_from_the_rules():
    assert (SHARE_SEEDS, MEAN_SEEDS) == (least_for_share(), least_for_mean()) == (5, 3)
    for share in (0.5, 0.8):
        least = least_for_share(share)
        assert judge_seeds([True] * least, 0, share=share).verdict == "reproduced"
        assert judge_seeds([False] * least, 0, share=share).verdict == "contradicted"
        assert judge_seeds([True] * (least - 1), 0, share=share).verdict == "inconclusive"
    rng = np.random.default_rng(0)
    wrong = {
        n: np.mean([judge_mean(rng.normal(size=n), 0.0, cap=1e9).verdict == "contradicted" for _ in range(4000)])
        for n in (MEAN_SEEDS - 1, MEAN_SEEDS)
    }
    assert wrong[MEAN_SEEDS] < 0.05 < wrong[MEAN_SEEDS - 1], "a true statement is contradicted too often by two values"


def asked_for(tmp_path, figure, planned: int, seeds: int | None) -> set[int]:
    lab = _Counting(tmp_path, seeds=seeds, offline=True, workers=1)
    lab.recipes = {}
    _tried(figure.collect, lab.fork(None, planned))
    return {recipe.seed for recipe in lab.recipes.values()}


@pytest.mark.parametrize(("paper", "figure"), cases([paper for paper in EVERY if paper.options is None]))
def test_seeds_asked_for_are_those_of_every_figure(tmp_path, paper, figure):
    found = asked_for(tmp_path, figure, planned_seeds(paper, figure), 3)
    assert found in (set(), {0, 1, 2}), "three seeds are three seeds"  # none: it stores tables, not runs


def test_planned_seeds_are_those_of_the_stored_verdicts(tmp_path):
    paper = load_paper("zhang2025")
    found = {
        figure.id: len(asked_for(tmp_path, figure, planned_seeds(paper, figure), None)) for figure in paper.figures
    }
    many = {"fig1": 12, "fig3a": 24, "fig3b": 24, "fig3d": 24, "fig11": 12, "fig13": 12}
    first = {"fig2": 0, "fig8": 0, "landscape": 0}  # these ask for a table first
    assert found == {figure.id: many.get(figure.id, 6) for figure in paper.figures} | first


def noisy_paper() -> Paper:
    """A mean that two seeds are sure is not 0, because they happen to lie close together."""
    values = np.array([1.0, 1.01, -2.0, 0.3, -0.5])
    claims = (
        Claim("zero", "The mean is 0.", "0", "-", lambda d: judge_mean(d["values"], 0.0, 9.0), min_seeds=MEAN_SEEDS),
        Claim(
            "share", "Most are.", "-", "-", lambda d: judge_seeds((d["values"] < 9).tolist(), 0), min_seeds=SHARE_SEEDS
        ),
    )
    figure = Figure(
        "one", "a mean", lambda lab: {"values": values[: lab.num_seeds]}, lambda data: plt.figure(), claims, ""
    )
    return Paper("noisy2025", "Noisy", "Nobody, 2025", (figure,), seeds=5)


def test_too_few_seeds_are_no_verdict_anywhere(tmp_path):
    paper = noisy_paper()
    (result,) = collect(paper, [], tmp_path, seeds=2, each=Drawing(tmp_path, ["png"]))
    assert paper.figures[0].claims[0].judged(result.data).verdict == "contradicted", "what the rule alone would say"
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert [(v["verdict"], v["min_seeds"], v["counterexamples"]) for v in verdicts] == [
        ("too few seeds", 3, {}), ("too few seeds", 5, {})
    ]  # fmt: skip
    with Drawing(tmp_path, ["png"]) as draw:
        draw(result)
    assert "too few seeds: needs 5" in write_report(paper, tmp_path).read_text()
    assert "# too few seeds: needs 3" in what_holds(paper, verdicts)
    words = {n: [v.verdict for v in collect(paper, [], tmp_path, seeds=n)[0].verdicts] for n in (3, 5)}
    assert words == {3: ["reproduced", "too few seeds"], 5: ["reproduced", "reproduced"]}
    assert [v.verdict for v in collect(paper, [], tmp_path)[0].verdicts] == words[5], "as planned"


def test_what_cannot_be_judged_is_told_before_the_first_run(tmp_path):
    first, head, *rest = plan(load_paper("xie2025"), [], tmp_path / "new", seeds=3)
    assert first.startswith("xie2025: 10 figures, at least 63 runs (0 stored")
    assert head == "too few seeds to judge 28 of 39 claims; --seeds 5 judges all:"
    assert "fig_prior_mean: slope, size, yq_is_gd;" in rest[0]
    assert len(list(plan(load_paper("xie2025"), [], tmp_path / "new", seeds=5))) == 1
    assert not (tmp_path / "new").exists(), "nothing is stored by looking"


def test_costs_are_read_or_said_to_be_unknown():
    assert seconds_of("15 s on 2 cores") == 15
    assert seconds_of("--preset small: minutes on 2 cores; --preset full: for a GPU") is None
    known = [seconds_of(figure.cost) for figure in load_paper("zhang2025").figures]
    assert None not in known, "every figure of zhang2025 says what it costs"
