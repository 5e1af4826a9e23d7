"""letey2026, linear-transience and the sweep pools: what they measure is what they say, on small data."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.cli import main
from iclearn.core.errors import IclearnError
from iclearn.papers.lab import Lab
from iclearn.papers.letey2026 import PAPER, setup, spike_tests
from iclearn.papers.letey2026.size_order import approach, falling_as, judge_approach
from iclearn.papers.linear_transience import best_ridges
from iclearn.papers.linear_transience import setup as flows
from iclearn.papers.lu2025.setup import Sizes
from iclearn.papers.phase_diagrams import Options, figure_of, pool_planes
from iclearn.theory.diversity import best_ridge

DIMS = (12, 16, 24, 32, 40)


def table(mean, error=0.002):
    limit = xr.DataArray(np.ones((5, 1)), {"dim": list(DIMS), "law": ["one"]}, ("dim", "law"))
    return falling_as(limit, DIMS, error=error).assign(mean=limit * xr.DataArray(mean, {"dim": list(DIMS)}, ("dim",)))


def test_an_order_is_told_from_a_limit_that_is_elsewhere():
    d = np.array(DIMS, float)
    assert judge_approach(table(1 + 4 / d - 9 / d**2)).verdict == "reproduced"
    assert judge_approach(table(1.1 + 4 / d)).verdict == "contradicted"
    assert judge_approach(table(1 + 2 / np.sqrt(d), error=0.0005)).verdict == "contradicted", "another order"
    assert judge_approach(table(1 + 4 / d, error=0.1)).verdict == "inconclusive", "too rough to tell"
    assert judge_approach(table(1 + 4 / d).isel(dim=[0, 4])).verdict == "unfinished"
    assert judge_approach(table(np.nan * d)).verdict == "failed"


def test_the_standard_error_of_the_limit_covers_it():
    rng, d = np.random.default_rng(0), np.array(DIMS, float)
    found = [approach(d, 3 / d + 0.01 * rng.normal(size=5), 0.01 * np.ones(5)) for _ in range(400)]
    assert np.std([one.limit for one in found]) == pytest.approx(found[0].limit_error, rel=0.15)


def test_draws_of_one_seed_are_paired_and_pools_nested():
    few, many = (Sizes.near(6, 2.0, kappa, 2.0) for kappa in (0.5, 2.0))
    _, small = setup.trained_gamma(np.ones(6), few, 3)
    _, large = setup.trained_gamma(4 * np.ones(6), many, 3)
    np.testing.assert_allclose(large[:3], 2 * small)


def test_more_context_at_test_time_is_a_straight_line_for_any_draw():
    sizes = Sizes.near(6, 2.0, 1.0, 3.0)
    lengths = [3, 12, 60, 6000]
    errors, _ = setup.trained_errors(np.ones(6), np.ones((1, 6)), sizes, 0, lengths=lengths)
    slopes = np.diff(errors[:, 0]) / np.diff(1 / np.array(lengths, float))
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)


def test_the_spectrum_of_the_simulations_keeps_its_ends():
    for dim in (12, 120):
        assert spike_tests.spectrum(dim)[[0, -1]] == pytest.approx([240 / 121, 2 / 121])
        assert spike_tests.spectrum(dim).mean() == pytest.approx(1)
        assert spike_tests.bands(dim).mean(1) == pytest.approx(np.ones(5))


def test_published_runs_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(IclearnError, match="published"):
        setup.published(Lab(tmp_path, options=setup.Options(published=str(tmp_path / "none.npz"))))
    with pytest.raises(IclearnError, match="preset"):
        setup.Options("huge")


def judged(figure, lab):
    data = figure.collect(lab)
    plt.close(figure.draw(data))
    return {verdict.claim: verdict.verdict for verdict in figure.judge("letey2026", data)}


def test_the_tiny_preset_runs_draws_and_says_what_it_cannot_judge(tmp_path):
    told = judged(PAPER.figure("spikes"), Lab(tmp_path, seeds=2, options=setup.Options("tiny")))
    assert told["numbers"] == "reproduced", "theory needs no sizes"
    assert told["order"] == "unfinished"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fig1", "powers", "test-time"])
def test_every_figure_has_a_tiny_preset(tmp_path, name):
    told = judged(PAPER.figure(name), Lab(tmp_path, seeds=2, options=setup.Options("tiny")))
    assert told["numbers"] == "reproduced"


def test_published_runs_are_drawn_beside_ours(tmp_path, golden):
    path = golden.path("diversity/published_sims")
    data = PAPER.figure("spikes").collect(Lab(tmp_path, seeds=2, options=setup.Options("tiny", str(path))))
    assert data["published"].sizes == {"spike": len(golden("diversity/published_sims")["spike_index"]), "kappa": 21}
    plt.close(PAPER.figure("spikes").draw(data))


@pytest.mark.slow
def test_transience_runs_from_the_command_line(tmp_path, capsys):
    main(["reproduce", "linear-transience", "--preset", "tiny", "--seeds", "2", "--out", str(tmp_path), "--json"])
    told = {v["claim"]: v["verdict"] for v in json.loads(capsys.readouterr().out)["verdicts"]}
    assert told["transient"] == "unfinished"
    assert told["memorized"] == "reproduced"
    assert told["wants_more"] == "contradicted", "at κ ≥ .7, many prompts and little noise"


def test_ridges_and_the_end_of_the_flow_are_of_one_matrix():
    found = flows.paths_of(flows.Case(3.0, 0.5, 3.0, 0.1), 1, 6)
    assert found["ridge_icl"][0] == pytest.approx(found["icl"][-1], rel=0.02), "λ = .001"
    assert found["ridge_icl"][-1] < 1.2, "a large ridge answers nearly zero"


def test_best_ridges_of_arrays_are_those_of_the_theory():
    found, errors = best_ridges.best_ridges(10.0, np.array([0.5, 2.0]), 2.0, 0.1)
    for row, kappa in enumerate((0.5, 2.0)):
        for column, which in enumerate(("icl", "idg")):
            ridge, error = best_ridge(10.0, kappa, 2.0, 0.1, which)
            assert found[row, column] == pytest.approx(ridge, rel=1e-3)
            assert errors[row, column] == pytest.approx(error, rel=1e-8)


def test_pools_are_solved_drawn_and_judged(tmp_path, monkeypatch):
    monkeypatch.setitem(pool_planes.DIMS, "small", (6, 8))
    monkeypatch.setattr(pool_planes, "DRAWS", 1)
    monkeypatch.setattr(pool_planes, "PLANES", {"tau": (0.5, 2.0), "rho": (0.1, 0.5)})
    figure = figure_of("pools", Options())
    data = figure.collect(Lab(tmp_path))
    assert data["tau"]["mean"].sizes == {"dim": 2, "which": 2, "kappa": 5, "second": 2}
    assert np.isfinite(data["rho"]["mean"]).all()
    plt.close(figure.draw(data))


@pytest.mark.parametrize(
    ("words", "line"), [(["--dry-run"], "solves for its points"), (["--workers", "2"], "--workers")]
)
def test_options_of_other_sweeps_are_refused_by_pools(tmp_path, capsys, words, line):
    assert main(["sweep", "pools", "--out", str(tmp_path), *words]) == 2
    assert line in capsys.readouterr().err
