"""`iclearn reproduce` and `iclearn theory` end to end."""

import json

import pytest

from iclearn.cli import main
from iclearn.cli.reproduce import ReproduceArgs
from iclearn.core.registry import PAPERS


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
