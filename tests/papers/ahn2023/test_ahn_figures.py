"""Figures of ahn2023: presets, what a short training gives, fresh losses, and drawings of the example data."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import iclearn as icl
from iclearn.papers.ahn2023 import fig_depth, fig_l3, fig_lengths, setup
from iclearn.theory import depth


@pytest.mark.parametrize("module", [fig_depth, fig_l3, fig_lengths])
def test_example_data_are_drawn(module):
    plt.close(module.draw(module.example()))


def test_presets():
    assert setup.Options.of({}).preset == "fast"
    assert set(fig_l3.protocols("public")) == {"white", "steps only", "rotated"}
    assert set(fig_l3.protocols("fast")) == {"white", "steps only"}
    assert fig_l3.protocols("public")["rotated"][2].steps == 100_000
    assert fig_lengths.protocol_of("public", 4).optimizer.lr == 0.001
    assert fig_lengths.protocol_of("fast", 20) == fig_l3.protocols("fast")["white"][2], "one run serves three figures"


def test_what_only_the_public_preset_trains_is_unfinished_and_not_contradicted():
    data = {name: table for name, table in fig_l3.example().items() if name != "rotated"}
    found = {v.claim: v.verdict for v in fig_l3.FIGURE.judge("ahn2023", data)}
    assert found["rotated_distance"] == found["rotated_loss"] == "unfinished"
    assert found["white_distance"] == "reproduced"


def test_fresh_losses_are_those_of_the_nearest_gdpp_for_scalar_matrices():
    best = depth.gdpp_minima(5, 20, 2)[0]
    a = np.array(best.steps)[:, None, None, None] * np.eye(5)
    b = np.array([best.curvature[0] / best.steps[0], 0.0])[:, None, None, None] * np.eye(5)
    how = setup.protocol(1e-9, 1, 2, None, (0.9, 0.9))
    recipe = setup.recipe_of("white", how, 0, layers=2).replace(init=icl.Init.given({"a": a, "b": b}))
    trace = icl.simulate(recipe, weights={"a": a, "b": b})
    fresh = setup.fresh_losses(trace)
    assert abs(fresh.mean() - best.loss) < 4 * fresh.std() / len(fresh) ** 0.5
    assert setup.gdpp_population(trace) == pytest.approx(best.loss, rel=1e-6)
    left = depth.gdpp_residual(setup.fresh_spectra(20), best.steps, best.curvature)
    assert np.median(np.sum(left**2, -1)) == pytest.approx(np.median(fresh), rel=0.05), "another sample"


def test_plain_descent_has_the_loss_of_one_step():
    """One step of plain gradient descent on the rotated task in closed form: E tr(Σ R Σ⁻¹ Rᵀ), R = I − ηS."""
    lam = np.array(setup.ROTATED)
    square = np.sum(lam**2) * (1 + 6 / 20)  # E S Σ⁻¹ S = (1 + (1 + d)/N) Σ
    best = 5 - lam.sum() ** 2 / square
    assert fig_depth.plain_descent(20, 20_000)[0] == pytest.approx(best, rel=0.01)
