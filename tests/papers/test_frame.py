"""The frame of papers: claims judged over seeds, data stored once, verdicts kept, a page and a card to read."""

import json
import subprocess
import sys
import threading

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Recipe, Record
from iclearn.core.registry import PAPERS
from iclearn.models import Attention
from iclearn.papers.base import Claim, Counterexample, Figure, Outcome, Paper, judge_close, judge_seeds, judge_true
from iclearn.papers.collect import collect, load_paper, read_json
from iclearn.papers.lab import Lab
from iclearn.report.paper import Drawing, short, summary_line, tally, what_holds, write_report
from iclearn.report.style import figure_style, save_figure, save_formats
from iclearn.tasks import LinearRegression


def recipe(seed: int) -> Recipe:
    return Recipe(
        task=LinearRegression(dim=2, context_len=5, num_prompts=None),
        model=Attention("merged", num_heads=2),
        init=Init(0.1),
        steps=60,
        seed=seed,
        record=Record(weights=3, candidates=10),
    )


def tiny_paper(threshold: float = 2.0) -> Paper:
    def gather(lab: Lab):
        squares = lab.dataset("squares", {"n": 4}, lambda: xr.Dataset({"square": ("n", np.arange(4.0) ** 2)}))
        return {"runs": lab.run([recipe(seed) for seed in lab.seeds]), "squares": squares}

    def draw(data):
        figure, axes = plt.subplots()
        for trace in data["runs"]:
            axes.plot(trace.loss)
        return figure

    claims = (
        Claim(
            "falls", "The loss [always] falls.", "< 2", "none",
            lambda d: judge_seeds([t.final_loss < threshold for t in d["runs"]], [t.final_loss for t in d["runs"]]),
        ),
        Claim("breaks", "A judge that breaks.", "-", "-", lambda d: judge_true(d["missing"], 0), holds=False),
    )  # fmt: skip
    figure = Figure("tiny", "a tiny figure", gather, draw, claims, "pseudocode", "1 s")
    return Paper("tiny2025", "Tiny", "Nobody, 2025", (figure,), notes="A note.")


def test_judges_have_all_their_words():
    assert judge_seeds([True] * 6, 0).verdict == "reproduced"
    assert judge_seeds([True] * 5 + [False], 0).verdict == "inconclusive"
    assert {judge_seeds([one], 0).verdict for one in (True, False)} == {"inconclusive"}, "one seed decides nothing"
    assert judge_seeds([False] * 5, 0) == Outcome(0, "contradicted", 5)
    assert judge_seeds([True] * 11, 0, share=0.8).verdict == "inconclusive"
    assert judge_seeds([True] * 14, 0, share=0.8).verdict == "reproduced"
    assert judge_seeds([], 0).verdict == "failed"
    assert [judge_close(x, 1.0, 0.1).verdict for x in (1.05, 1.2, 2.0, np.nan)] == [
        "reproduced",
        "inconclusive",
        "contradicted",
        "failed",
    ]


def test_collect_judges_stores_and_reports(tmp_path):
    paper = tiny_paper()
    results = collect(paper, [], tmp_path, seeds=6)
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert [(v["claim"], v["verdict"], v["seeds"]) for v in verdicts] == [
        ("falls", "reproduced", 6),
        ("breaks", "failed", 0),
    ]
    assert set(verdicts[0]) >= {
        "paper",
        "figure",
        "claim",
        "statement",
        "expected",
        "measured",
        "tolerance",
        "seeds",
        "verdict",
    }
    assert len(list((tmp_path / "runs").glob("*.zarr"))) == 6
    with Drawing(tmp_path) as draw:
        for result in results:
            draw(result)
    page = write_report(paper, tmp_path)
    text = page.read_text()
    assert "data:image/png;base64," in text
    assert "The loss [always] falls." in text
    assert "http" not in text.split("</style>")[1], "the page is self-contained"
    assert '<a href="#tiny">tiny: ' in text
    assert 'href="figures/tiny.png"' in text
    assert '<div class="pair">' in text, "a square picture has its verdicts at its side"
    (tmp_path / "figures" / "tiny.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x07\xd0\0\0\x02\x00")
    assert '<div class="pair wide">' in write_report(paper, tmp_path).read_text(), "2000 × 512: below it"
    assert {p.suffix for p in (tmp_path / "figures").iterdir()} == {".png", ".pdf", ".svg"}
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["figures"]["tiny"]["seeds_used"] == [0, 1, 2, 3, 4, 5]
    assert len(card["figures"]["tiny"]["recipes"]) == 6
    assert "pseudocode" in (tmp_path / "card.md").read_text()
    assert "contradicted" not in what_holds(paper, verdicts)


def test_verdicts_at_the_seeds_planned_first_stand_beside():
    """Five of six, then eleven of twelve, then all of a set that is not a list of runs."""
    claim = Claim("most", "s", "e", "t", lambda d: judge_seeds(d["runs"], 0))
    figure = Figure("f", "t", lambda lab: {}, lambda d: plt.figure(), (claim,), "s", planned=(6, 12, 24))
    (verdict,) = figure.judge("p", {"runs": [False] + 23 * [True], "of all": {"a": 1}})
    assert (verdict.verdict, verdict.planned) == ("reproduced", {6: "inconclusive", 12: "reproduced"})
    paper = Paper("p", "t", "c", (figure,))
    assert "| 24. First 6 seeds: inconclusive, first 12 seeds: reproduced |" in what_holds(paper, [verdict.to_dict()])
    old = {name: value for name, value in verdict.to_dict().items() if name != "planned"}
    assert "| 24 |" in what_holds(paper, [old]), "as verdicts were stored before"


def test_what_is_second_hand_is_not_counted_as_the_papers():
    judged = [
        {"source": source, "verdict": word}
        for source, word in (("second-hand", "contradicted"), ("other", "reproduced"), ("paper", "reproduced"))
    ]
    assert summary_line(judged) == (
        "3 claims. the paper: 1 of 1 reproduced; second-hand: 0 of 1 reproduced, 1 contradicted; "
        "another paper: 1 of 1 reproduced."
    )
    assert tally(judged, "paper") == {"reproduced": 1}


def test_labels_that_audits_found_false():
    """Each of these once stood among the statements of a paper's authors, or of its theory."""
    labels = {
        ("oswald2023", "fig_softmax", "two_align"): "second-hand",
        ("looped", "fig_tied", "trained_best_step_long"): "second-hand",
        ("letey2026", "spikes", "kernel_falls_always"): "second-hand",
        ("raventos2023", "fig_threshold", "ridge_for_many"): "ours",
        ("raventos2023", "fig_threshold", "closer_above"): "ours",
        ("raventos2023", "fig_paths", "many_follow_ridge"): "ours",
    }
    for (paper, figure, claim), source in labels.items():
        found = {c.id: c.source for c in load_paper(paper).figure(figure).claims}
        assert found[claim] == source, claim
    transience = load_paper("raventos2023").figure("fig_transience").claims
    assert all(c.source == "other" and c.statement.startswith("Carroll et al. (2025)") for c in transience)
    for paper in map(load_paper, PAPERS.names()):
        own = any(c.source == "paper" for f in paper.figures for c in f.claims)
        assert not (own and "second-hand" in paper.notes), paper.id
    for name in ("fig7", "fig8", "fig10", "fig13"):
        assert "our content" in load_paper("zhang2025").figure(name).title


def test_second_collect_reuses_and_draw_only_never_simulates(tmp_path):
    paper = tiny_paper()
    collect(paper, [], tmp_path, seeds=2)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").glob("*.zarr")}
    again = collect(paper, [], tmp_path, seeds=2, draw_only=True)
    assert again[0].facts["reused"] == 3
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").glob("*.zarr")} == before
    with pytest.raises(IclearnError, match="not stored yet"):
        collect(paper, [], tmp_path, seeds=3, draw_only=True)


def test_a_claim_can_be_contradicted(tmp_path):
    results = collect(tiny_paper(threshold=0.0), [], tmp_path, seeds=5)
    assert results[0].verdicts[0].verdict == "contradicted"


def test_side_by_side_runs_equal_runs_alone(tmp_path):
    recipes = [recipe(seed) for seed in range(4)]
    together = Lab(tmp_path / "a", workers=4).run(recipes)
    alone = Lab(tmp_path / "b", workers=1).run(recipes)
    assert all(a.equals(b) for a, b in zip(together, alone, strict=True))


def test_runs_of_a_program_are_stored_when_they_end(tmp_path, monkeypatch):
    """On a GPU groups of one program follow each other: what has ended is kept when a later one is stopped."""
    monkeypatch.setattr("iclearn.papers.lab.on_accelerator", lambda: True)
    small = [recipe(seed).replace(engine="samples", task__num_prompts=6) for seed in range(2)]
    large = [one.replace(model=Attention("merged", num_heads=3)) for one in small]
    lab, ended = Lab(tmp_path), []

    def stop_after_the_first_program(text):
        ended.append(text)
        if len(ended) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(lab, "say", stop_after_the_first_program)
    with pytest.raises(KeyboardInterrupt):
        lab.run([*small, *large])
    again = Lab(tmp_path)
    assert [again.store.get(one) is not None for one in (*small, *large)] == [True, True, False, False]
    assert len(again.run([*small, *large])) == 4
    assert (again.facts.trained, again.facts.reused) == (2, 2)


def test_collections_side_by_side_note_their_facts_in_the_order_of_the_calls(tmp_path):
    lab, second_done = Lab(tmp_path, workers=4), threading.Event()

    def first(page):
        assert second_done.wait(600)
        return page.run([recipe(0), recipe(1)])

    def second(page):
        traces = page.run([recipe(2)])
        second_done.set()
        return traces

    traces = [trace for found in lab.concurrently(first, second) for trace in found]
    assert lab.facts.runs == [trace.run_id for trace in traces]
    assert [r["seed"] for r in lab.facts.recipes] == [0, 1, 2]
    assert len(lab.facts.content) == 3
    one_at_a_time = Lab(tmp_path, workers=1)
    again = one_at_a_time.concurrently(
        lambda page: page.run([recipe(0), recipe(1)]), lambda page: page.run([recipe(2)])
    )
    assert one_at_a_time.facts.content == lab.facts.content
    assert one_at_a_time.facts.reused == 3
    assert all(a.equals(b) for a, b in zip([t for found in again for t in found], traces, strict=True))


def test_unknown_names_say_what_there_is(tmp_path):
    with pytest.raises(IclearnError, match="unknown paper 'nope'; known are"):
        load_paper("nope")
    with pytest.raises(IclearnError, match="has no figure 'fig9'; it has tiny"):
        collect(tiny_paper(), ["fig9"], tmp_path)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(IclearnError, match="damaged"):
        read_json(tmp_path / "bad.json", [])


def test_measured_values_read_well():
    assert short({"a": 0.123456, "b": [1, 2.0]}) == "a: 0.1235, b: [1, 2]"


def test_figures_collected_by_processes_of_their_own_are_the_same(tmp_path):
    """With cores to spare each figure has a process; verdicts, facts and data are those of one process."""
    paper, names, said = load_paper("zhang2025"), ["fig2", "landscape"], []
    draw = Drawing(tmp_path / "apart", ["svg"])
    tell = lambda figure, text: said.append((figure, text))  # noqa: E731
    apart = collect(paper, names, tmp_path / "apart", seeds=1, workers=2, each=draw, progress=tell)
    together = collect(paper, names, tmp_path / "together", seeds=1, workers=1)
    assert [r.figure.id for r in apart] == names
    plain_verdicts = [[v.to_dict() for v in r.verdicts] for r in together]
    assert [[v.to_dict() for v in r.verdicts] for r in apart] == plain_verdicts
    facts = [json.loads((tmp_path / name / "facts.json").read_text()) for name in ("apart", "together")]
    for figure in names:
        assert facts[0][figure]["content"] == facts[1][figure]["content"]
        assert facts[0][figure]["simulated_seconds"] > 0  # the cost of the process that computed, not of the look-up
    assert {path.name for path in (tmp_path / "apart/figures").iterdir()} == {"fig2.svg", "landscape.svg"}
    assert {"fig2", "landscape"} == {figure for figure, _ in said}
    assert apart[0].data.keys() == together[0].data.keys()


def test_a_script_that_does_not_expect_processes_is_not_run_again_by_them(tmp_path):
    """And an error in one of them is an error of the script."""
    (tmp_path / "script.py").write_text(
        "print('begun')\n"
        "from iclearn.papers.collect import collect, load_paper\n"
        "from pathlib import Path\n"
        "try:\n"
        "    collect(load_paper('zhang2025'), ['fig2', 'fig10'], Path('out'), seeds=1, workers=2, draw_only=True)\n"
        "except Exception as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == "begun", done.stderr
    assert "not stored yet" in done.stdout.splitlines()[1], done.stderr
    assert len(done.stdout.splitlines()) == 2


def test_a_counterexample_of_several_claims_is_made_once_and_judged_by_each():
    made = []

    def perturb(data):
        made.append(data)
        return {"number": -data["number"]}

    shared, broken = Counterexample("negative", perturb), Counterexample("no such data", lambda data: data["missing"])
    judges = {"positive": lambda d: judge_true(d["number"] > 0, 0), "small": lambda d: judge_true(d["number"] < 9, 0)}
    claims = tuple(Claim(name, ".", "", "", j, counterexamples=(shared, broken)) for name, j in judges.items())
    figure = Figure("one", "", lambda lab: {}, lambda data: plt.figure(), claims, "")
    data = {"number": 7}
    assert [verdict.counterexamples for verdict in figure.judge("tiny2025", data)] == [
        {"negative": word, "no such data (cannot be made from this data)": "failed"}
        for word in ("contradicted", "reproduced")
    ]
    assert made == [data], "made once, from the data as they are"
    assert claims[0].refusals(data, strict=False)["negative"] == "contradicted"
    with pytest.raises(IclearnError, match="counter-example 'no such data' of small breaks"):
        claims[1].refusals(data)


def test_several_formats_have_the_layout_of_the_first(tmp_path):
    def made():
        figure, axes = plt.subplots(1, 2, figsize=(4, 2))
        axes[1].set(ylabel="a label that needs\nroom", title="and a title", yscale="log", ylim=(1e-3, 1e4))
        return figure

    with figure_style():
        alone, together = made(), made()
        save_figure(alone, tmp_path / "alone.png")
        save_formats(together, tmp_path, "together", ("png", "pdf", "svg"))
    assert (tmp_path / "together.png").read_bytes() == (tmp_path / "alone.png").read_bytes()
    assert [ax.get_position().bounds for ax in together.axes] == [ax.get_position().bounds for ax in alone.axes]
    assert together.dpi == 100
    assert (tmp_path / "together.svg").stat().st_size > 0 < (tmp_path / "together.pdf").stat().st_size
    plt.close("all")
