"""oswald2023: its protocol, its closed forms, and its figures for a GPU at their small size."""

import jax
import numpy as np
import pytest

from iclearn.papers.collect import collect, load_paper
from iclearn.papers.lab import Lab
from iclearn.papers.oswald2023 import fig2, fig2c
from iclearn.papers.oswald2023.fig_depth_clip import clipped_gdpp, squares
from iclearn.papers.oswald2023.setup import (
    CONTEXT,
    DIM,
    STEP,
    Options,
    descent,
    evaluation,
    evenly,
    is_full,
    recipe,
    task,
)  # fmt: skip


def test_the_protocol_is_the_public_one():
    one, two, five = recipe(1, 0), recipe(2, 3), recipe(5, 0, tied=False, steps=50_000)
    assert [r.optimizer.clip for r in (one, two, five)] == [0.002, 0.002, 20.0]  # of twice the loss
    assert [r.optimizer.lr for r in (one, two, five)] == [0.001, 0.001, 0.0005]
    assert [r.init.scale for r in (one, two, five)] == pytest.approx([0.002, 0.001, 0.0004])
    assert (one.optimizer.eps, one.optimizer.betas, two.model.tied, five.model.tied) == (2e-8, (0.9, 0.98), True, False)


@pytest.mark.parametrize("steps", [5, 20, 5000, 10_000, 50_000])
def test_no_record_is_thinned_out(steps):
    record = evenly(steps)
    every = -(-steps // record.candidates)
    assert -(-steps // every) + 1 <= record.weights


def test_inputs_have_the_range_of_the_public_code():
    x = np.asarray(evaluation(count=500).prompt.x)
    assert 0.499 < x.max() <= 0.5
    assert -0.5 <= x.min() < -0.499
    assert x.var() == pytest.approx(1 / 12, rel=0.02)


def test_closed_forms_are_what_prompts_give(monkeypatch):
    """One gradient step on another law, larger inputs and with noisy labels."""
    monkeypatch.setattr(fig2c, "COUNT", 5000)
    model = descent([STEP.step])
    chosen = {"law gaussian", "inputs 1.5", "noise 10"}
    seen = 0
    for kind, name, batch, exact in fig2c.cases():
        if f"{kind} {name}" in chosen:
            losses = 0.5 * np.asarray((jax.vmap(model.predict)(batch.prompt) - batch.target) ** 2)
            assert losses.mean() == pytest.approx(exact, abs=4 * losses.std() / np.sqrt(len(losses)))
            seen += 1
    assert seen == len(chosen)


def test_one_direction_of_ten_is_a_tenth_of_the_way():
    assert pytest.approx(0.39562, abs=1e-5) == fig2.ONE_DIRECTION


def test_the_clip_acts_beyond_three_layers_only():
    batch = evaluation(count=50)
    for layers, same in ((3, True), (5, False)):
        plain, clipped = (np.asarray(squares(clipped_gdpp(layers, 25.0, 2.0, clip=c), batch)) for c in (False, True))
        assert np.allclose(plain, clipped, rtol=1e-12) is same
    wanted = jax.vmap(descent([20.0] * 3, [1.9] * 3).predict)(batch.prompt) - batch.target
    found = np.asarray(squares(clipped_gdpp(3, 20.0, 1.9), batch))
    np.testing.assert_allclose(found, 0.5 * np.asarray(wanted)[:, 0] ** 2, rtol=1e-8)


def test_presets(tmp_path):
    assert not is_full(Lab(tmp_path))  # no accelerator in tests
    assert is_full(Lab(tmp_path, options=Options("full")))
    assert task().dim == DIM == CONTEXT


@pytest.mark.slow
def test_figures_for_a_gpu_run_at_their_small_size_and_say_so(tmp_path):
    paper = load_paper("oswald2023")
    results = collect(paper, ["fig3_deep", "fig_softmax", "fig_copy"], tmp_path, seeds=1, options=Options("small"))
    assert {verdict.verdict for result in results for verdict in result.verdicts} == {"unfinished"}
    for result in results:
        result.figure.draw(result.data)
