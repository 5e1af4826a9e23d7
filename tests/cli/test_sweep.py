"""`iclearn sweep`: plans are printed, sweeps are carried out and go on, and bad input is one line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import xarray as xr

from iclearn.cli import main
from iclearn.papers.phase_diagrams import Options, plan_of
from iclearn.sweeps import SweepFolder, plan_from_file

SPEC = """
name: demo
base:
  task: {dim: 2, context_len: 8, num_prompts: inf, covariance: {shape: power, parameters: 1, rotate: false}}
  model: {family: separate_reduced, num_heads: 2}
  init: 0.1
  optimizer: {lr: 2e-2}
  steps: 50
axes:
  optimizer.lr: {logspace: [1e-3, 1e-1, 3]}
  decay: {field: task.covariance.parameters, values: [0.5, 1]}
  model.rank: [1, 2]
seeds: 2
reduce: {levels: zhang2025, samples: 10}
"""
EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sweeps"


@pytest.fixture
def spec(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "demo.yaml"
    path.write_text(SPEC)
    return path


def test_a_dry_run_prints_the_plan_and_does_nothing(spec, capsys):
    assert main(["sweep", "demo.yaml", "--dry-run", "--chunk", "4"]) == 0
    said = capsys.readouterr().out
    assert "demo: 24 runs of 50 steps" in said
    assert "lr: 3 values (0.001 … 0.1) of optimizer.lr, side by side, 1 in a chunk" in said
    assert "rank: 2 values (1 … 2) of model.rank, a program each" in said
    assert "2 static groups, 6 chunks of at most 4 runs" in said
    assert [p.name for p in spec.parent.iterdir()] == ["demo.yaml"]


def test_a_sweep_is_carried_out_once_and_its_status_told(spec, capsys):
    words = ["sweep", "demo.yaml", "--out", "out", "--path", "vmap"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "24 runs: " in said
    assert "stored in out" in said
    data = xr.open_zarr("out/data.zarr", consolidated=False)
    assert dict(data["final_loss"].sizes) == {"lr": 3, "decay": 2, "rank": 2, "seed": 2}
    before = SweepFolder.open("out").entries()
    assert main(words) == 0
    assert SweepFolder.open("out").entries() == before
    capsys.readouterr()
    assert main(["sweep", "status", "out"]) == 0
    assert capsys.readouterr().out.startswith("demo: 24 of 24 runs (100.0 %), 2 of 2 chunks done")
    assert main(["sweep", "status", "out", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs_done"] == 24


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda text: text + "axes: {", "cannot be read as YAML"),
        (lambda text: "just words", "must be a table of fields, not 'just words'"),
        (lambda text: text.replace("seeds:", "seedz:"), "has no key 'seedz'; keys are name, base, axes"),
        (lambda text: text.replace("num_heads", "heads"), "base.model has no field 'heads'; its fields are family"),
        (lambda text: text.replace("steps: 50", "steps: many"), "base.steps must be a whole number, not 'many'"),
        (lambda text: text.replace("[1, 2]", "[1, 7]"), "rank 7 is larger than the 3 entries of a token"),
        (lambda text: text.replace("seeds: 2", "seeds: 0"), "seeds has no values: give at least one"),
        (lambda text: text.replace("levels: zhang2025", "levels: [1]"), "reduce.levels must be a word, not [1]"),
        (lambda text: text.replace("axes:", "axes: 3\nold:"), "has no key 'old'"),
    ],
)
def test_bad_specs_are_one_line_and_exit_2(spec, capsys, change, line):
    spec.write_text(change(SPEC))
    assert main(["sweep", "demo.yaml", "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("iclearn sweep: ")
    assert said.count("\n") == 1
    assert line in said


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["missing.yaml"], "there is no file missing.yaml"),
        (
            ["plateau"],
            "'plateau' is no YAML file and no shipped sweep (plateaus, prior-gap, minima, memorization, pools)",
        ),
        (["status"], "status needs the folder of a sweep"),
        (["status", "."], "no sweep in .: it has no plan.json"),
        (["demo.yaml", "elsewhere"], "a folder is given with --out"),
        (["demo.yaml", "--cluster", "cloud", "--out", "a"], "cluster must be local, slurm, pbs or an address"),
        (["demo.yaml", "--workers", "-1", "--out", "b"], "the number of workers must be at least 0, not -1"),
        (["demo.yaml", "--chunk", "0"], "the chunk size must be at least 1, not 0"),
        (["demo.yaml", "--path", "quick"], "path"),
        (["plateaus", "--draw-only", "--out", "nothing"], "no sweep in nothing"),
    ],
)
def test_bad_command_lines_are_one_line_and_exit_2(spec, capsys, words, line):
    assert main(["sweep", *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert line in said


def test_a_queue_without_its_package_says_what_to_install(spec, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    assert main(["sweep", "demo.yaml", "--cluster", "slurm", "--out", "s"]) == 2
    assert "needs dask-jobqueue: pip install 'iclearn[dask]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plateaus", "prior-gap"])
def test_the_examples_of_shipped_sweeps_are_the_shipped_ones(name):
    assert plan_from_file(EXAMPLES / f"{name}.yaml", chunk=1000).hash == plan_of(name, Options(chunk=1000)).hash


def test_the_first_example_is_a_sweep():
    plan = plan_from_file(EXAMPLES / "learning-rate.yaml", chunk=1000)
    assert plan.shape == (5, 2, 8)
    assert plan.axes[1].coords == ("narrow", "wide")
    assert plan.numeric == (True, False, True)


def test_a_shipped_sweep_prints_its_plan(spec, capsys):
    assert main(["sweep", "plateaus", "--dry-run", "--preset", "small"]) == 0
    said = capsys.readouterr().out
    assert "rank: 4 values (1 … 4) of model.rank, a program each" in said
