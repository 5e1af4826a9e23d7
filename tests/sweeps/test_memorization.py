"""`iclearn sweep memorization`: the grid is what it says, errors are compared with ridge and dMMSE of the same pool."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.papers.lab import Lab
from iclearn.papers.phase_diagrams import Options, figure_of, memorization_map, paper_of, plan_of

TINY = memorization_map.Sizes(2, 3, 64, 1e-3, ((1, 4),), (70, 140), (2, 8), 2)


def test_every_run_of_the_grid_goes_up_and_down_once():
    for preset in ("small", "full"):
        options = Options(preset, chunk=8)
        plan = plan_of("memorization", options)
        assert f"({plan.num_runs} runs)" in paper_of("memorization", options).figures[0].title
        last = plan.recipe(tuple(size - 1 for size in plan.shape))
        sizes = memorization_map.SIZES[preset]
        assert last.steps == last.optimizer.triangle == sizes.lengths[-1]
        assert last.task.num_tasks == sizes.pools[-1]
        assert (last.model.layers, last.model.width) == sizes.models[-1]


def test_gains_are_shares_of_the_error_of_ridge():
    data = memorization_map.example()
    exact = {**data, "error": data["error"] * 0 + data["known"]["dmmse"]}
    gains = memorization_map.gains(exact).isel(model=0, length=0)
    np.testing.assert_allclose(gains, memorization_map.most(data))
    assert float(gains.isel(pool=0).mean()) == pytest.approx(0.75)
    assert memorization_map.no_better(exact).verdict == "reproduced"
    plt.close(memorization_map.draw(data))


def test_errors_are_losses_without_the_noise_of_targets():
    rng = np.random.default_rng(0)
    curve = xr.DataArray(2.25 * (1 + 0.1 * rng.normal(size=(50, 129))), dims=("seed", "sample"))
    found = memorization_map.errors_of(curve, 4)
    assert float(found["error"].mean()) == pytest.approx(0.5, abs=0.01)
    assert float(found["spread"].mean()) == pytest.approx(0.1 / 4 * 2.25 / 4, rel=0.1)
    assert float(found["error"].std()) == pytest.approx(float(found["spread"].mean()), rel=0.3)


@pytest.mark.slow
def test_a_tiny_map_end_to_end(tmp_path, monkeypatch):
    monkeypatch.setitem(memorization_map.SIZES, "small", TINY)
    figure = figure_of("memorization", Options())
    data = figure.collect(Lab(tmp_path))
    assert dict(data["error"].sizes) == {"model": 1, "length": 2, "pool": 2, "seed": 2}
    start = 1.0  # ‖w‖²/d on average: an untrained model answers 0
    assert 0.1 < float(data["error"].mean()) < 3 * start
    known = data["known"]
    assert (known["dmmse"] < known["ridge"]).all()
    assert "failed" not in {verdict.verdict for verdict in figure.judge("sweep", data)}
    again = figure.collect(Lab(tmp_path, offline=True))
    np.testing.assert_array_equal(again["error"], data["error"])
    plt.close(figure.draw(data))
