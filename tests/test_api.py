"""The API a researcher types: recipe, trace, theory, plateaus, plot, and a report that shows itself."""

import html
import re
import subprocess
import sys

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest

import iclearn as icl


@pytest.fixture(scope="module")
def recipe() -> icl.Recipe:
    task = icl.LinearRegression(
        dim=2, context_len=8, num_prompts=None, covariance=icl.Covariance.eigenvalues([0.7, 0.3])
    )
    model = icl.Attention("separate", num_heads=2)
    return icl.Recipe(task=task, model=model, init=icl.Init(0.1), optimizer=icl.Optimizer(lr=0.05), steps=600)


@pytest.fixture(scope="module")
def trace(recipe) -> icl.Trace:
    return icl.simulate(recipe)


def test_everything_is_one_dot_away():
    for name in icl.__all__:
        assert getattr(icl, name) is not None
    assert icl.theory.zhang2025.saddle_losses([0.5, 0.5], 10)[0] == pytest.approx(1.0)
    assert icl.probes.find_plateaus is icl.find_plateaus
    assert icl.predictors.Ridge(1.0) is not None
    assert "zhang2025" in icl.papers.names()
    assert set(dir(icl)) >= {"theory", "probes", "predictors", "papers", "reproduce", "predict"}


def test_the_theory_of_a_trace_needs_nothing_retyped(trace, recipe):
    theory = icl.predict(trace)
    assert theory["loss"].sizes == {"step": 600}
    np.testing.assert_array_equal(theory["time"], trace.data["time"])
    np.testing.assert_allclose(theory["covariance"], trace.data["covariance"], atol=1e-12)
    flow = icl.predict(trace, method="flow")
    np.testing.assert_allclose(flow["loss"], trace.loss, atol=0.1)  # steps of gradient descent are not small here
    np.testing.assert_allclose(icl.predict(recipe)["loss"], theory["loss"], rtol=1e-9)


def test_a_run_outside_every_theory_is_told_why(recipe):
    with pytest.raises(icl.IclearnError, match=r"no theory covers this run .*zhang2025 needs linear attention"):
        icl.predict(recipe.replace(model=icl.Attention("merged", softmax=True), task__num_prompts=10))
    levels = icl.theory.theory_of(recipe.replace(model=icl.LSA(2))).levels(recipe.replace(model=icl.LSA(2)))
    assert levels.names[-1] in ("Bayes", "optimum of 2 heads", "gradient step from w*")


def test_the_model_at_a_step_predicts(trace):
    from iclearn.core.prompt import full_prompt

    prompt = full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2))
    first, last = trace.model(0).predict(prompt), trace.model().predict(prompt)
    assert abs(float(first[0])) < abs(float(last[0]))


def test_a_step_outside_the_run_is_refused_and_minus_one_is_the_last(trace):
    np.testing.assert_array_equal(trace.model(-1).value, trace.weights(-1)["value"])
    np.testing.assert_array_equal(trace.model(600).value, trace.weights(-1)["value"])
    np.testing.assert_array_equal(trace.model(0).value, trace.weights(0)["value"])
    for step in (-2, 601, 10**9):
        with pytest.raises(icl.IclearnError, match=rf"from 0 to 600, or -1 for the last, not {step}$"):
            trace.model(step)
    count = trace.data.sizes["record"]
    for record in (count, -count - 1):
        with pytest.raises(icl.IclearnError, match=f"index into the {count} records of this run, not {record}"):
            trace.weights(record)


@pytest.mark.parametrize("rule", ["gd", "momentum", "adam", "flow"])
def test_training_on_is_the_longer_run(recipe, rule):
    short = recipe.replace(steps=256, optimizer__rule=rule, optimizer__lr=0.02, record__candidates=300)
    longer = icl.simulate(short.replace(steps=512))
    on = icl.simulate(short).continue_(256)
    assert on.recipe == longer.recipe
    np.testing.assert_allclose(on.loss, longer.loss, rtol=1e-10)
    for name, weight in longer.weights(-1).items():
        np.testing.assert_allclose(on.weights(-1)[name], weight, rtol=1e-8, atol=1e-12)


def test_traces_are_equal_when_their_numbers_are(trace):
    twice = icl.Trace(trace.data * 2, trace.status, trace.status_step, trace.provenance)
    assert trace != twice
    assert trace == icl.Trace(trace.data.copy(), trace.status, trace.status_step, {})


def test_a_trace_draws_and_shows_itself(trace):
    figure = trace.plot(theory=True, values=True)
    assert len(figure.axes) == 2
    labels = [line.get_label() for line in figure.axes[0].lines]
    assert {"training loss", "theory"} <= set(labels)
    plt.close(figure)
    page = trace._repr_html_()
    assert trace.run_id in page
    assert "<svg" in page


def test_reproduce_returns_a_report(tmp_path):
    report = icl.reproduce("zhang2025", ["fig2"], seeds=2, out=tmp_path)
    assert [v.claim for v in report.verdicts] == ["merged_is_mlp", "separate_is_conv"]
    assert report.figures["fig2"].exists()
    assert "fig2" in report.data
    assert report.stale == 0
    assert "merged_is_mlp" not in repr(report)
    frame = report._repr_html_()
    assert re.fullmatch("<iframe [^<>]*></iframe>", frame), "its style reaches nothing else"
    page = html.unescape(frame)
    assert "data:image/png" in page
    assert report.verdicts[0].statement.split(".")[0] in page
    assert "reproduced" in report.verdicts[0]._repr_html_()


def test_results_of_other_code_are_recognized_said_and_made_again(tmp_path, monkeypatch):
    from iclearn.core import provenance

    assert icl.reproduce("zhang2025", ["fig2"], seeds=2, out=tmp_path).stale == 0
    provenance.numerics.cache_clear()
    monkeypatch.setattr(provenance, "NUMERICS", 99)
    report = icl.reproduce("zhang2025", ["fig2"], seeds=2, out=tmp_path)
    assert report.stale > 0
    assert {v.verdict for v in report.verdicts} == {"outdated"}, "results of other code are never silently judged"
    assert "made by other code" in repr(report)
    assert "made by other code" in report.page.read_text()
    assert icl.reproduce("zhang2025", ["fig2"], seeds=2, out=tmp_path, refresh=True).stale == 0
    provenance.numerics.cache_clear()


def test_configure_says_and_sets_what_importing_does():
    code = """
import os, iclearn as icl
print(icl.configure().x64, icl.configure().matmul_precision, icl.configure(compile_cache=False).compile_cache)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "highest", "None"]


def test_the_quickstart_runs_and_fits_on_a_screen(tmp_path):
    from pathlib import Path

    file = Path(__file__).resolve().parents[1] / "examples" / "quickstart.py"
    assert len(file.read_text().splitlines()) <= 25
    done = subprocess.run([sys.executable, file], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "drops predicted at steps" in done.stdout
    assert (tmp_path / "quickstart.png").stat().st_size > 10_000
