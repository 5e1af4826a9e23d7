"""`iclearn reproduce` and `iclearn theory` end to end."""

import json

import pytest
from matplotlib.figure import Figure as MplFigure

from iclearn.cli import main
from iclearn.cli.reproduce import ReproduceArgs
from iclearn.core.registry import PAPERS
from iclearn.papers.base import Claim, Figure, Paper, judge_true


def test_reproduce_one_figure_then_draw_only(tmp_path, capsys):
    assert main(["reproduce", "zhang2025", "fig2", "--seeds", "2", "--out", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "2 claims. " in told
    assert "contradicted" not in told
    verdicts = json.loads((tmp_path / "verdicts.json").read_text())
    assert {v["claim"] for v in verdicts} == {"merged_is_mlp", "separate_is_conv"}
    (tmp_path / "figures" / "fig2.png").unlink()
    assert main(["reproduce", "zhang2025", "fig2", "--seeds", "2", "--draw-only", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "figures" / "fig2.png").exists()
    assert (tmp_path / "index.html").exists()


def test_list_tells_figures_and_claims(capsys):
    assert main(["reproduce", "zhang2025", "--list"]) == 0
    told = capsys.readouterr().out
    assert "fig3a: separate rank-one attention" in told


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["reproduce", "nope"], "unknown paper 'nope'"),
        (["reproduce", "zhang2025", "fig99"], "has no figure 'fig99'"),
        (["reproduce", "zhang2025", "fig2", "--seeds", "0"], "the number of seeds must be at least 1"),
        (["theory", "nope"], "unknown theory 'nope'"),
        (["theory"], "name a paper first"),
        (["theory", "zhang2025", "--eigenvalues", "-1"], "eigenvalues must be"),
    ],
)
def test_errors_are_one_line(argv, line, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    told = capsys.readouterr().err
    assert line in told
    assert told.count("\n") == 1


def test_theory_prints_the_saddles(capsys):
    assert main(["theory", "zhang2025", "--eigenvalues", "0.4", "0.3", "0.2", "0.1", "--context", "31", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["saddle_losses"] == pytest.approx([1, 0.64057971, 0.37737216, 0.2098046, 0.13599507], abs=1e-8)


def test_help_of_one_paper_has_its_own_options(capsys):
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "letey2026", "--help"])
    assert end.value.code == 0
    assert "--published" in capsys.readouterr().out


def test_help_names_every_paper():
    for name in PAPERS.names():
        assert name in " ".join((ReproduceArgs.__doc__ or "").split()), name


def test_one_line_says_what_it_takes_and_verdicts_come_by_figure(tmp_path, capfd):
    """Into a file as well: figures, runs, time and folder first, then what cannot be judged, then figure by figure."""
    folder = tmp_path / "r"
    words = ["reproduce", "zhang2025", "landscape", "fig2", "--seeds", "1", "--workers", "1", "--out", str(folder)]
    assert main(words) == 0
    told = capfd.readouterr().out
    first, few, which, *tables = told.splitlines()
    assert first.startswith("zhang2025: 2 figures")
    assert f"into {folder}, " in first
    assert few == "too few seeds to judge 1 of 5 claims; --seeds 5 judges all:"
    assert which == "  5 needed: landscape: path"
    assert sum("verdict" in line for line in tables) == 2, "a table for every figure"
    assert "too few seeds: needs 5" in " ".join(told.split())
    assert tables[-1] == f"open it: {folder / 'index.html'}"
    assert main([*words, "--quiet"]) == 0
    assert not capfd.readouterr().out
    assert main([*words, "--json"]) == 0
    verdicts = json.loads(capfd.readouterr().out)["verdicts"]
    assert {v["claim"]: v["min_seeds"] for v in verdicts if v["verdict"] == "too few seeds"} == {"path": 5}


def test_the_list_has_seeds_costs_and_a_total(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "zhang2025", "fig3a", "fig4", "--list"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("(24 seeds; 10 s on 2 cores)")
    assert told[1].startswith("    drops: ")
    assert told[1].endswith("[at least 5]")
    assert told[-1].startswith("zhang2025: 2 figures, at least 96 runs (0 stored")
    assert not list(tmp_path.iterdir())


def test_the_exit_status_says_whether_all_is_as_expected(tmp_path, monkeypatch, capsys):
    """0: as expected, also where a claim that need not hold does not; 1: contradicted, or not the stored verdict."""
    holds = {"value": True}
    claims = (
        Claim("yes", "It holds.", "-", "-", lambda data: judge_true(data["value"], 0)),
        Claim("no", "It is known not to hold.", "-", "-", lambda data: judge_true(False, 0), holds=False),
    )
    figure = Figure("one", "one", lambda lab: dict(holds), lambda data: MplFigure(), claims, "")
    paper = Paper("status2025", "Status", "Nobody, 2025", (figure,))
    monkeypatch.setitem(PAPERS._registered, paper.id, paper)
    words = ["reproduce", paper.id, "--out", str(tmp_path)]
    assert [main(words), main(words)] == [0, 0]
    capsys.readouterr()
    holds["value"] = False
    assert main(words) == 1
    told = capsys.readouterr().err
    assert "one/yes should hold and is contradicted" in told
    assert "one/yes was reproduced here and is contradicted" in told
    holds["value"] = True
    assert main(words) == 1, "the stored verdict was another one"
    assert main(words) == 0
    assert main([*words, "--seeds", "0"]) == 2
