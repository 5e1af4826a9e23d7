"""What does not fit is refused before it is begun, with what it needs and what to change; nothing hangs in silence."""

from __future__ import annotations

import numpy as np
import pytest

import iclearn as icl
from iclearn.cli import main
from iclearn.core.memory import available_bytes
from iclearn.engines.cost import MOST_SECONDS, estimate

NEEDS = {
    "--heads 100000000": "most of it for weights",
    "--model mlp --heads 1000000000": "most of it for weights",
    "--heads 100000000 --model attnS --prompts inf": "most of it for weights",
    "--softmax --prompts 1000000000": "most of it for prompts",
    "--out-dim 1000000": "or fewer outputs",
    "--dim 50000 --prompts inf": "choose",
    "--prompts 1e30": "this would take about",
    "--steps 10000000000000": "most of it for losses, and",
    "--optimizer sgd --batch-size 1000000000 --prompts inf": "or a batch size",
    "--softmax --context 10000000": "a shorter context",
    "--vary-len --softmax --context 50000": "of memory",
}


@pytest.mark.parametrize("line", NEEDS)
def test_a_run_that_cannot_be_is_refused_in_one_line(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = line.split() if "--steps" in line else ["--steps", "20", *line.split()]
    assert main(["train", *words]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert NEEDS[line] in told
    assert list(tmp_path.iterdir()) == []


def test_a_long_run_says_so_beforehand(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("iclearn.store.runs.simulate", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main(["train", "--prompts", "1000000000000"]) == 130
    assert "days of work on one core" in capsys.readouterr().err
    monkeypatch.setenv(MOST_SECONDS, "100")
    assert main(["train", "--prompts", "1000000000000"]) == 2
    assert "this would take about" in capsys.readouterr().err


def test_sizes_beyond_any_number_are_refused():
    recipe = icl.Recipe(task=icl.LinearRegression(dim=2, out_dim=10**200), model=icl.Attention(), steps=1)
    with pytest.raises(icl.IclearnError, match=r"beyond any machine|of memory"):
        icl.simulate(recipe)


@pytest.mark.parametrize("softmax", [False, True])
def test_estimates_of_memory_are_those_of_the_arrays(softmax):
    """The samples engine keeps the prompts: what it has in memory is within a factor of four of the estimate."""
    task = icl.LinearRegression(dim=3, context_len=20, num_prompts=20_000)
    recipe = icl.Recipe(task=task, model=icl.Attention(softmax=softmax), engine="samples", steps=1)
    from iclearn.engines.build import prepare

    engine = prepare(recipe).engine
    held = sum(np.asarray(a).nbytes for a in (engine.train.prompt.x, engine.train.prompt.y))  # type: ignore[attr-defined]
    assert 1 < estimate(recipe).parts["prompts"] / held < 8


def test_memory_is_looked_up():
    assert 1 << 24 < available_bytes() < 1 << 50


BASE = "base: {task: {dim: 2, context_len: 8, num_prompts: inf}, model: {family: separate_reduced}, steps: 20}\n"
GRIDS = {
    "axes: {optimizer.lr: {linspace: [0.001, 0.1, 1000000000000]}}": "an axis holds at most 10000000",
    "seeds: 1000000000000": "an axis holds at most 10000000",
    "axes: {steps: {range: [1, 100001]}}": "100000 runs in 100000 static groups are more than 10000",
    "axes: {steps: {range: [1, 5, 0]}}": "range cannot go by [1, 5, 0]",
    "{name: ../../evil, seeds: 2}": "a sweep's name may hold letters",
    "{name: /evil, seeds: 2}": "a sweep's name may hold letters",
    "axes: {final_loss: {field: optimizer.lr, values: [0.1, 0.2]}}": "an axis cannot be called 'final_loss'",
    "axes: {a: {field: optimizer.lr, values: [0.1, 0.2], coords: [x, x]}}": "gives two points the label 'x'",
    "seeds: 2\nseeds: 3": "the key 'seeds' is given twice",
    "axes: {task.num_prompts: [1000000000000000000]}": "this would take about",
}


@pytest.mark.parametrize("text", GRIDS)
def test_a_grid_that_cannot_be_is_refused_without_being_listed(text, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    body = text.strip("{}").replace(", ", "\n") if text.startswith("{name") else text
    (tmp_path / "grid.yaml").write_text(BASE + body + "\n")
    assert main(["sweep", "grid.yaml", "--dry-run"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert GRIDS[text] in told
    assert [p.name for p in tmp_path.iterdir()] == ["grid.yaml"]


def test_a_huge_grid_is_counted_and_not_listed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    axes = (
        "axes: {optimizer.lr: {linspace: [0.001, 0.1, 3000]}, init.scale: {linspace: [0.01, 0.1, 3000]}}\nseeds: 100000"
    )
    (tmp_path / "grid.yaml").write_text(f"{BASE}{axes}\nchunk: 10000\n")
    assert main(["sweep", "grid.yaml", "--dry-run"]) == 0
    told = capsys.readouterr().out
    assert "900000000000 runs of 20 steps" in told
    assert "90000000 chunks of at most 10000 runs" in told
    assert main(["sweep", "grid.yaml"]) == 2
    assert "make 90000000 chunks, more than 1000000" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--draw-only", "--preset full", "--device gpu"])
def test_flags_that_would_say_nothing_are_refused(flag, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text(f"{BASE}seeds: 2\n")
    assert main(["sweep", "grid.yaml", *flag.split()]) == 2
    assert flag.split()[0] in capsys.readouterr().err


def test_a_sweep_of_single_steps_is_trained(tmp_path):
    task = {"dim": 2, "context_len": 8, "num_prompts": "inf"}
    base = {"task": task, "model": {"family": "separate_reduced"}}
    data = icl.sweep(base, {"steps": [1, 2]}, out=tmp_path / "s", chunk=2)
    assert np.isfinite(data["final_loss"]).all()
    assert np.isnan(data["slow_count"]).all()
