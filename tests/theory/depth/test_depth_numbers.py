"""Every number of the theory of depth, to its printed digits."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize

import iclearn as icl
from iclearn.cli import main
from iclearn.theory import depth


def test_one_layer():
    spectrum = [1, 1, 0.25, 0.0625, 1]
    best = depth.one_layer(spectrum, 20)
    assert best.loss == pytest.approx(0.68175638, abs=5e-9)
    assert best.preconditioner[[0, 2, 3]] == pytest.approx([0.82262, 2.33577, 4.32432], abs=5e-6)
    inverse = depth.one_layer(spectrum, 20, "inverse")
    assert inverse.loss == pytest.approx(5 * 6 / 26, rel=1e-14)
    assert inverse.preconditioner * spectrum == pytest.approx([20 / 26] * 5)


def test_uniform_inputs():
    best = depth.uniform_step(10, 10)
    assert best.step == pytest.approx(6.060606, abs=5e-7)
    assert best.loss == pytest.approx(0.2062290, abs=5e-8)
    ranges = {0.5: 0.08115, 0.75: 0.13866, 1.25: 0.42627, 1.5: 1.20384, 2.0: 8.40067}
    for scale, loss in ranges.items():
        assert depth.uniform_loss(10, 10, best.step, scale) == pytest.approx(loss, abs=5e-6)


def test_krylov_optimum():
    printed = {
        1: (1.1538462, [0.769231]), 2: (0.3612397, [0.515371, 1.249572]),
        3: (0.1336084, [0.422409, 0.689126, 1.714217]), 4: (0.0549526, [0.362057, 0.520499, 0.888982, 2.138845]),
    }  # fmt: skip
    for layers, (loss, steps) in printed.items():
        best = depth.krylov(5, 20, layers)
        assert best.loss == pytest.approx(loss, abs=5e-8)
        assert best.steps == pytest.approx(steps, abs=5e-7)
        assert depth.gdpp_loss(5, 20, best.steps, ()) == pytest.approx(best.loss, rel=1e-10), "the roots are the steps"
    assert depth.krylov(5, 20, 8).loss == pytest.approx(0.00340, abs=5e-6)
    assert depth.krylov(5, 20, 13).loss == pytest.approx(0.000286, abs=5e-7)


def test_krylov_is_what_a_search_over_steps_finds():
    found = minimize(lambda a: depth.gdpp_loss(5, 20, tuple(a), ()), [0.3, 0.8, 1.2], method="BFGS", tol=1e-10)
    assert found.fun == pytest.approx(depth.krylov(5, 20, 3).loss, rel=1e-9)
    assert sorted(found.x) == pytest.approx(depth.krylov(5, 20, 3).steps, rel=1e-4)


def test_tied_descent():
    printed = {
        20: [(0.76923, 1.15385), (0.74252, 0.499007), (0.71559, 0.268342), (0.68895, 0.163253), (0.59368, 0.0425074)],
        200: [(0.97087, 0.145631), (0.96668, 9.22836e-3), (0.96222, 7.97798e-4), (0.95746, 8.42351e-5),
              (0.93667, 3.8087e-8)],
    }  # fmt: skip
    for context, rows in printed.items():
        for layers, (step, loss) in zip((1, 2, 3, 4, 8), rows, strict=True):
            best = depth.tied_descent(5, context, layers)
            assert best.steps[0] == pytest.approx(step, abs=6e-6)
            assert best.loss == pytest.approx(loss, rel=5e-6)
    assert depth.tied_descent(10, 1000, 1).steps[0] == pytest.approx(0.98912, abs=5e-6)
    assert depth.tied_descent(10, 1000, 8).steps[0] == pytest.approx(0.98312, abs=5e-6)


def test_two_layers_of_gdpp_have_three_minima():
    minima = depth.gdpp_minima(5, 20, 2, restarts=40)
    printed = [
        (0.05750115, (0.516762, 3.474664), 0.448787), (0.08654791, (0.769318, 2.643954), 0.271918),
        (0.10234491, (1.83252, 1.33421), 0.18815),
    ]  # fmt: skip
    assert len(minima) == 3
    for best, (loss, steps, curvature) in zip(minima, printed, strict=True):
        assert best.loss == pytest.approx(loss, abs=1e-8)
        assert best.steps == pytest.approx(steps, abs=6e-6)
        assert best.curvature[0] == pytest.approx(curvature, abs=6e-6)
    assert minima[0].loss > depth.krylov(5, 20, 4).loss, "the bound of its degree"


def test_deeper_gdpp():
    lowest = depth.gdpp_minimum(5, 20, (0.34, 2.1, 8.6, 0.3, 1.2), 3)
    assert lowest.loss == pytest.approx(0.00096131, abs=5e-9)
    assert (*lowest.steps, *lowest.curvature) == pytest.approx(
        (0.338297, 2.090841, 8.568057, 0.296882, 1.208845), abs=5e-6
    )
    small = depth.gdpp_minimum(5, 20, (0.72, 2.65, 7.2, 0.24, 0.91), 3)
    assert small.loss == pytest.approx(0.00129847, abs=5e-9)
    assert (*small.steps, *small.curvature) == pytest.approx(
        (0.716588, 2.648727, 7.163206, 0.244485, 0.912808), abs=5e-6
    )
    four = depth.gdpp_minimum(5, 20, (1.686, 1.059, 4.869, 17.266, 0.1445, 0.6659, 2.473), 4)
    assert four.loss == pytest.approx(1.112e-5, abs=5e-9)


def test_tied_gdpp():
    printed = {
        2: (0.118725, 1.491358, 0.204971),
        3: (0.0141689, 2.050808, 0.212962),
        4: (0.00215597, 2.49066, 0.209367),
    }
    for layers, (loss, step, curvature) in printed.items():
        best = depth.gdpp_minimum(5, 20, (step + 0.01, curvature), layers, tied=True)
        assert best.loss == pytest.approx(loss, rel=5e-6)
        assert (best.steps[0], best.curvature[0]) == pytest.approx((step, curvature), abs=5e-6)
    assert depth.tied_gdpp(5, 20, 2).loss == pytest.approx(0.118725, rel=5e-6)


def test_noise():
    """Exact values; the spec's (oracle .32497, 1.76951, 3.12258, constant .34201, 2.08181, 3.84571) were sampled."""
    oracle = {1: 0.324540, 3: 1.768499, 5: 3.121387}
    constant = {1: 0.341496, 3: 2.080524, 5: 3.844293}
    spec = {1: (0.32497, 0.34201), 3: (1.76951, 2.08181), 5: (3.12258, 3.84571)}
    for largest in (1, 3, 5):
        found = (depth.oracle_ridge_loss(10, 20, largest), depth.constant_ridge_loss(10, 20, largest))
        assert found == pytest.approx((oracle[largest], constant[largest]), abs=1e-6)
        assert found == pytest.approx(spec[largest], rel=2e-3)
        assert depth.one_layer([1.0] * 10, 20, noise=largest**2 / 3).loss > found[1] > found[0]
    assert depth.one_layer([1.0] * 10, 20, noise=3.0).loss == pytest.approx(10 * 0.7 / 1.7, rel=1e-12)
    starts = [(0.4, 2.4, 0.4), (0.87, 1.5, 0.18)]
    best = [depth.gdpp_minimum(10, 20, start, 2, noise=3.0) for start in starts]
    assert [b.loss for b in best] == pytest.approx([2.187352, 2.267595], abs=2e-6)  # the spec's 2.270 is the second
    assert best[0].loss > constant[3], "no model that is linear in the labels beats ridge with the mean level"


def test_newton_and_looped_layers():
    spectra = depth.sample_spectra(5, 20, 20_000)
    printed = [2.68, 1.99, 1.34, 0.80, 0.405, 0.166, 0.0515]
    assert depth.newton_losses(spectra, 6) == pytest.approx(printed, rel=0.04)
    step = depth.tied_descent(5, 20, 4).steps[0]
    assert np.median(depth.looped_losses(spectra, step, 0.0, 64)) < 1e-14
    assert np.mean(depth.looped_losses(spectra, step, 0.0, 16)) > 1, "spectra beyond 2/a rule the mean"
    for eta, gamma, printed_slope, measured in [(1.491358, 0.204971, 7.28, 7.0), (2.49066, 0.209367, 11.90, 11.5)]:
        assert depth.loop_exponent(eta, gamma) == pytest.approx(printed_slope, abs=0.006)
        early, late = (np.median(depth.looped_losses(spectra[:3000], eta, gamma, n)) for n in (128, 256))
        assert np.log2(early / late) == pytest.approx(measured, abs=0.15)


def test_the_command_prints_it(capsys):
    assert main(["theory", "ahn2023", "--dim", "5", "--context", "20", "--layers", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["gd"][1]["loss"] == pytest.approx(0.3612397, abs=5e-8)
    assert [row["loss"] for row in told["gdpp_minima"]] == pytest.approx([0.05750115, 0.08654791, 0.10234491], abs=1e-8)
    assert told["krylov_bound"] == {"degree": 4, "loss": pytest.approx(0.0549526, abs=5e-8)}
    assert main(["theory", "ahn2023", "--layers", "0"]) == 2


def test_the_theory_of_a_recipe():
    task = icl.LinearRegression(dim=5, context_len=20, covariance=icl.Covariance.white(trace=None), num_prompts=None)
    recipe = icl.Recipe(task=task, model=icl.LinearTransformer(layers=2, blocks="gd"))
    levels = icl.theory.levels_of(recipe, "ahn2023")
    assert levels.heights == pytest.approx([5, 30 / 26, 0.3612397], abs=5e-8)
    assert icl.theory.theory_of(recipe).name == "ahn2023"  # type: ignore[union-attr]
    scaled = recipe.replace(task__covariance=icl.Covariance.white())
    assert icl.theory.levels_of(scaled, "ahn2023").heights == pytest.approx(levels.heights / 5)
    theory = icl.theory.theory_of(recipe.replace(model__layers=4, model__blocks="sparse"))
    assert theory is None
