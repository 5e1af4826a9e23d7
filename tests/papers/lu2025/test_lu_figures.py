"""lu2025: what its figures measure is what they say, on small data; the public codes' defects are not here."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.models.predictors import DiscreteMMSE
from iclearn.papers.lu2025 import approach, fig1, fig_gap_scaling, fig_nonmonotone, fig_task_gap, setup
from iclearn.papers.lu2025.printed_numbers import judge_digits
from iclearn.papers.lu2025.setup import Sizes, draw, nested_errors, trained_errors
from iclearn.theory.diversity import nonmonotone_edge, pool_errors


def test_nested_prompts_are_the_first_of_one_draw():
    sizes = Sizes.near(5, 2.0, 1.0, 2.0)
    found = nested_errors(sizes, [12, 40, 50], 0.1, [0.0, 0.3], 4)
    assert found.shape == (3, 2, 2)
    for j, ridge in enumerate((0.0, 0.3)):
        np.testing.assert_allclose(found[2, j], trained_errors(sizes, 0.1, ridge, 4), rtol=1e-9)
    with pytest.raises(icl.IclearnError, match="must grow up to 50"):
        nested_errors(sizes, [40, 12], 0.1, [0.0], 4)


def test_a_pool_of_one_task_is_learned_and_nothing_else():
    """k = 1 (κ = .2 at d = 5): Γ* answers the one task, and new ones as if they were it."""
    sizes = Sizes.near(5, 4.0, 0.2, 2.0)
    assert sizes.num_tasks == 1
    pool, _ = draw(sizes, 0.01, 0)
    assert pool.shape == (1, 5)
    icl_error, idg_error = trained_errors(sizes, 0.01, 0.0, 0)
    assert idg_error < 0.5 < icl_error
    model = DiscreteMMSE(jnp.asarray(pool), 0.01)
    x = np.random.default_rng(0).standard_normal((4, 5))
    found = model.predict_prefixes(jnp.asarray(x), jnp.asarray(x @ pool.T))[:, 0]
    np.testing.assert_allclose(found, x @ pool[0], rtol=1e-12)


def test_the_ratios_that_were_run_are_kept():
    grid = approach.Grid((1.15,), (0.57,), (0.8,), 0.1)
    table = approach.example_table(grid, (12, 20, 32), (4, 4, 4))
    np.testing.assert_allclose(table["kappa_run"].values.ravel(), [7 / 12, 11 / 20, 18 / 32])
    run = [float(table[f"{name}_run"].sel(dim=20).item()) for name in ("alpha", "kappa", "tau")]
    assert float(table["icl_limit"].sel(dim=20).item()) == pytest.approx(
        float(pool_errors(run[0], run[1], run[2], 0.1).icl)
    )
    near = pool_errors(run[0], run[1], run[2] * 20 / 21, 0.1)
    assert float(table["idg_near"].sel(dim=20).item()) == pytest.approx(float(near.idg))


def test_tables_of_sizes_are_joined_with_their_numbers_of_pools():
    grid = approach.Grid((2.0,), (1.0,), (2.0,), 0.1)
    parts = [approach._one_size(grid, dim, count) for dim, count in ((5, 3), (6, 2))]
    table = approach.joined(parts)
    assert table["repetitions"].values.tolist() == [3, 2]
    assert np.isnan(table["icl"].sel(dim=6).values.ravel()).tolist() == [False, False, True]
    wanted = trained_errors(Sizes.near(5, 2.0, 1.0, 2.0), 0.1, 0.0, 1)
    assert table["icl"].sel(dim=5, repetition=1).item() == pytest.approx(wanted[0])


def test_the_extrapolation_has_the_standard_errors_it_says():
    rng, dims, counts = np.random.default_rng(0), np.array([12, 20, 32, 60]), np.array([48, 24, 6, 6])
    noise = rng.standard_normal((400, 4, 48)) * 1.5 / dims[:, None]
    found = approach.extrapolated(dims, (1 + 3 / dims + 10 / dims**2)[:, None] + noise, counts, 2)
    z = (found.value - 1) / found.error
    assert abs(z.mean()) < 0.2
    assert 0.85 < z.std() < 1.15


def test_a_digit_more_or_less_is_seen():
    assert judge_digits([("1.234 .50", [1.2344, 0.4951])]).verdict == "reproduced"
    assert judge_digits([("1.234 .50", [1.2346, 0.5])]).verdict == "contradicted"


def test_trained_matrices_interpolate_up_to_as_many_prompts_as_weights():
    table = fig1.peak(2)
    data = {"peak": table}
    assert fig1.interpolates(data).verdict == "reproduced"
    assert float(table["loss"].sel(prompts=162).min()) > 1e-4


def test_the_edge_read_off_the_curves_is_the_formula():
    assert fig_nonmonotone.numerical_edge(2.0, 0.5) == pytest.approx(nonmonotone_edge(2.0, 0.5), rel=1e-3)
    assert fig_nonmonotone.rising([0.5, 4.0], 2.0, 0.5).tolist() == [True, False]


def test_dmmse_knows_its_pool_and_no_other_task(monkeypatch):
    monkeypatch.setattr(fig_task_gap, "PROMPTS", 32)
    new, pool = fig_task_gap.posterior_errors(6, 2.0, 0)
    assert pool == pytest.approx(fig_task_gap.NOISE, abs=0.01)
    assert new > 0.3


def test_infinitely_many_prompts_memorize_a_small_pool():
    """At long contexts the gap is 1 − κ for κ < 1, and small above."""
    few, many = (fig_gap_scaling.pool_gap(Sizes.near(20, 500.0, kappa, 1.0), 0) for kappa in (0.5, 4.0))
    assert few == pytest.approx(0.5, abs=0.02)
    assert many < 1e-3


def test_presets_are_checked():
    with pytest.raises(icl.IclearnError, match="preset"):
        setup.Options("huge")


@pytest.mark.slow
def test_the_tiny_preset_runs_and_says_what_it_cannot_judge(tmp_path):
    command = [sys.executable, "-m", "iclearn", "reproduce", "lu2025", "--preset", "tiny", "--seeds", "2"]
    done = subprocess.run([*command, "--out", str(tmp_path), "--json"], capture_output=True, text=True, check=False)
    told = {(v["figure"], v["claim"]): v["verdict"] for v in json.loads(done.stdout)["verdicts"]}
    assert told["fig1", "double_descent_numbers"] == told["scaling", "population_engine"] == "reproduced"
    assert told["fig3", "edge"] == told["fig1", "interpolation"] == "reproduced"
    assert told["fig4", "dmmse_released"] == "failed", "it was not run"
