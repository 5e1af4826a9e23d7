"""Numbers at the edge: divergence says why and what to try, rest is said, the smallest sizes run."""

from __future__ import annotations

import re

import numpy as np
import pytest

import iclearn as icl
from iclearn.cli import main

SMALL = ["--dim", "2", "--context", "8", "--prompts", "200", "--steps", "300", "--heads", "2", "--no-text"]


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("model", ["attnM", "attnS"])
def test_divergence_names_the_step_the_loss_and_a_rate_that_works(model, capsys):
    words = ["train", "--model", model, *SMALL, "--init", "0.5"]
    assert main([*words, "--lr", "5"]) == 2
    told = capsys.readouterr().err
    found = re.search(r"diverged at step (\d+) \(loss .* the step before, .* at first\).* try --lr ([\d.e-]+) ", told)
    assert found, told
    assert main([*words, "--lr", found[2]]) == 0


@pytest.mark.parametrize("words", [["--init", "1e200"], ["--init", "1e308"]])
def test_a_loss_that_is_not_finite_at_first_is_not_blamed_on_the_rate(words, capsys):
    assert main(["train", *SMALL, *words]) == 2
    told = capsys.readouterr().err
    assert "before the first step: the data, the noise or the initial weights (--init) are too large" in told
    assert "--lr" not in told


@pytest.mark.parametrize("words", [["--eigenvalues", "1e300", "1"], ["--eigenvalues", "1e-300", "1e-320"]])
def test_covariances_at_the_edge_of_floating_point_are_no_traceback(words, capsys, monkeypatch):
    monkeypatch.delenv("ICLEARN_TRACEBACK", raising=False)
    for prompts in ("50", "inf"):
        code = main(["train", "--context", "8", "--steps", "5", "--prompts", prompts, "--no-text", *words])
        told = capsys.readouterr().err
        assert code in (0, 2)
        assert "bug" not in told
        assert "Traceback" not in told


def test_weights_of_zero_are_said_to_be_at_rest(capsys):
    assert main(["train", *SMALL, "--init", "0"]) == 0
    assert "is at rest: the gradient is zero, or its steps are below what float64 resolves" in capsys.readouterr().out


def test_a_plateau_below_what_float32_resolves_is_said():
    task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    recipe = icl.Recipe(
        task=task, model=icl.Attention("merged_reduced"), init=icl.Init(1.0), optimizer=icl.Optimizer(lr=1e-12),
        steps=5, dtype="float32",
    )  # fmt: skip
    assert "below what float32 resolves" in icl.simulate(recipe).sentence
    assert "may still fall" in icl.simulate(recipe.replace(dtype="float64")).sentence


@pytest.mark.parametrize("engine", ["population", "moments", "samples"])
@pytest.mark.parametrize("family", ["merged", "separate", "merged_reduced", "separate_reduced", "mlp"])
def test_the_smallest_sizes_run(engine, family):
    task = icl.LinearRegression(dim=1, context_len=1, num_prompts=None if engine == "population" else 1)
    recipe = icl.Recipe(task=task, model=icl.Attention(family), engine=engine, steps=2)
    assert np.isfinite(icl.simulate(recipe).loss).all()


def test_equal_and_nearly_equal_eigenvalues_run():
    for values in ([0.5, 0.5], [0.5, 0.5 + 1e-16], [1.0, 1e-12]):
        task = icl.LinearRegression(
            dim=2, context_len=4, num_prompts=None, covariance=icl.Covariance.eigenvalues(values)
        )
        trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("separate"), steps=20))
        assert np.isfinite(trace.loss).all()
        assert np.isfinite(icl.predict(trace)["loss"]).all()
    with pytest.raises(icl.IclearnError, match="eigenvalues must be positive"):
        icl.simulate(icl.Recipe(task=task.replace(covariance=icl.Covariance.eigenvalues([1.0, 0.0])), model=icl.LSA()))


THEORY = {
    "zhang2025 --init 10": "outside the theory",
    "zhang2025 --init 1e300": "outside the theory",
    "zhang2025 --init inf": "init must be positive and finite, not inf",
    "zhang2025 --init 0": "init must be positive and finite, not 0",
    "zhang2025 --rank 100": "rank must be between 1 and 4",
    "zhang2025 --eigenvalues": "--eigenvalues takes at least one value",
    "zhang2025 --eigenvalues 1e300 1": "outside the theory",
    "xie2025 --noise 1e300": "",
    "xie2025 --prior-norm inf": "",
}


@pytest.mark.parametrize("line", THEORY)
def test_theory_at_the_edge_is_one_line(line, capsys, monkeypatch):
    monkeypatch.delenv("ICLEARN_TRACEBACK", raising=False)
    assert main(["theory", *line.split()]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "bug" not in told
    assert THEORY[line] in told


def test_labels_beyond_floating_point_make_a_run_that_diverged():
    """Found by the fuzzer: moments with infinite entries have no eigenvalues."""
    task = icl.LinearRegression(dim=2, context_len=3, num_prompts=20, noise=1e300)
    trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged"), steps=2, engine="moments"))
    assert trace.status is icl.Status.DIVERGED
