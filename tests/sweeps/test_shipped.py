"""The shipped sweeps: what their judges say of data made up to agree with theory, and of data made up not to."""

from __future__ import annotations

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.engines.reductions import crossings, sample_steps
from iclearn.papers.phase_diagrams import Options, figure_of, paper_of, plan_of, plateau_phases, prior_gap
from iclearn.sweeps.api import make_plan
from iclearn.theory.xie2025 import Law, best_loss, optimum
from iclearn.theory.zhang2025 import drop_sequence, loss_of_progress, progress, read_weights, saddle_losses

CONTEXTS, NORMS = (4, 16), (0.0, 1.0, 2.0)


def made_up_losses(change=lambda loss, law, heads: loss) -> xr.DataArray:
    """Final losses of a training that reaches the optimum of every number of heads."""
    table = np.zeros((2, 6, 3, 2))
    for i, context in enumerate(CONTEXTS):
        for j, heads in enumerate(prior_gap.HEADS):
            for k, norm in enumerate(NORMS):
                law = Law.isotropic(4, context, norm)
                table[i, j, k] = change(best_loss(law, heads).loss, law, heads) + np.array([0, 0.3])
    coords = {"context_len": list(CONTEXTS), "num_heads": list(prior_gap.HEADS), "norm": list(NORMS), "seed": [0, 1]}
    return xr.DataArray(table, coords, tuple(coords))


def verdicts(name: str, data) -> dict[str, str]:
    return {v.claim: v.verdict for v in figure_of(name, Options()).judge("sweep", data)}


def test_losses_at_the_optimum_reproduce_every_claim_on_the_gap():
    data = {"loss": made_up_losses()}
    assert verdicts("prior-gap", data) == dict.fromkeys(("boundary", "gap_law", "reaches"), "reproduced")
    plt.close(prior_gap.draw(data))


def test_a_boundary_elsewhere_is_noticed():
    """As if d − 1 heads were enough."""
    data = {"loss": made_up_losses(lambda loss, law, heads: optimum(law).loss if heads >= 3 else loss)}
    found = verdicts("prior-gap", data)
    assert found["boundary"] == "contradicted"
    assert found["reaches"] == "contradicted", "three heads are below what three heads can reach"


def test_training_that_does_not_arrive_is_noticed():
    data = {"loss": made_up_losses(lambda loss, law, heads: 1.05 * loss)}
    assert verdicts("prior-gap", data) == dict.fromkeys(("boundary", "gap_law", "reaches"), "contradicted")


def made_up_crossings(long_at) -> xr.DataArray:
    """Crossing steps of runs that stay 1/init own units at the levels `long_at(rank)` and 5 elsewhere."""
    inits, decays, seeds = [0.01, 0.02, 0.04, 0.3], [0.5, 1.0], range(3)
    table = np.zeros((len(inits), len(decays), len(plateau_phases.RANKS), len(seeds), 4))
    for i, init in enumerate(inits):
        for j, values in enumerate(plateau_phases.spectra(np.array(decays))):
            unit = 1 / (2 * plateau_phases.LR * plateau_phases.GAIN * values**2)
            for k, rank in enumerate(plateau_phases.RANKS):
                own = [1 / init if m in long_at(rank) else 5.0 for m in range(4)]
                table[i, j, k] = np.cumsum(np.array(own) * unit)
    coords = {"init": inits, "decay": decays, "rank": list(plateau_phases.RANKS), "seed": list(seeds)}
    return xr.DataArray(table, {**coords, "crossing": range(4)}, (*coords, "crossing"))


def test_stays_are_read_from_drop_to_drop_in_own_units():
    own = plateau_phases.stays(made_up_crossings(lambda rank: range(0, 4, rank)))
    assert own.sel(init=0.01, rank=2).isel(decay=0, seed=0).values == pytest.approx([100, 5, 100, 5])
    assert own.sel(init=0.02, rank=3).isel(decay=1, seed=0).values == pytest.approx([50, 5, 5, 50])


def test_plateaus_at_multiples_of_the_rank_reproduce_every_claim():
    data = dict.fromkeys(("crossing", "theory"), made_up_crossings(lambda rank: range(0, 4, rank)))
    assert (plateau_phases.share(plateau_phases.stays(data["crossing"])).sel(init=0.01) == 1).all()
    assert (plateau_phases.share(plateau_phases.stays(data["crossing"])).sel(init=0.3) == 0).all()
    assert set(verdicts("plateaus", data).values()) == {"reproduced"}
    plt.close(plateau_phases.draw(data))


def test_plateaus_elsewhere_are_noticed():
    right, wrong = (made_up_crossings(f) for f in (lambda rank: range(0, 4, rank), lambda rank: range(4)))
    found = verdicts("plateaus", {"crossing": wrong, "theory": right})
    assert found["boundary"] == found["where_small"] == found["times"] == "contradicted"


def test_theory_is_asked_for_the_very_weights_of_each_run():
    axes = {
        "init": {"field": "init.scale", "values": [0.02, 0.3]},
        "decay": {"field": "task.covariance.parameters", "values": [0.4, 1.7]},
        "model.rank": [1, 3],
    }
    kept = {"levels": "zhang2025", "samples": 300}
    plan = make_plan(plateau_phases.base("small"), axes, 3, reduce=kept, chunk=24)
    steps, table = sample_steps(plan.base.steps, 300), plateau_phases.predicted(plan, 2)["crossing_step"]
    assert table.shape == (2, 2, 2, 2, 4)
    for at in np.ndindex(2, 2, 2, 2):
        recipe = plan.recipe(at)
        weights = read_weights(recipe.model.initial(recipe.task, recipe.init, recipe.seed, "float64").weights())
        drawn = plateau_phases.initial_weights(recipe, range(2))
        for name in ("value", "key", "query"):
            np.testing.assert_array_equal(getattr(drawn, name)[at[-1]], getattr(weights, name))
        sizes = (recipe.task.covariance.values(4), plateau_phases.CONTEXT)
        drops = drop_sequence(weights, *sizes, gain=plateau_phases.GAIN)
        done = progress(2 * plateau_phases.LR * steps, drops, *sizes, gain=plateau_phases.GAIN)
        alone = crossings(*map(jnp.asarray, (loss_of_progress(done, sizes[0], 31), steps, saddle_losses(*sizes))))
        np.testing.assert_allclose(table[at], alone, rtol=1e-9)


@pytest.mark.filterwarnings("error")
def test_slopes_are_those_of_power_laws_where_three_points_are_known():
    inits = np.array([0.01, 0.02, 0.03, 0.04])
    table = xr.DataArray(np.stack([3 / inits, inits**-0.5, 1 / inits]), {"decay": [0, 1, 2], "init": inits})
    table[1, 0] = np.nan
    table[2, 1:3] = np.nan
    slopes = plateau_phases.slope_of_logs(table)
    assert slopes.values[:2] == pytest.approx([-1, -0.5])
    assert np.isnan(slopes.values[2]), "two points are no fit"


def test_runs_that_did_not_finish_are_left_out():
    crossing = made_up_crossings(lambda rank: range(0, 4, rank))
    crossing[{"seed": [0, 1], "crossing": 3, "decay": 0}] = np.nan
    found = plateau_phases.share(plateau_phases.stays(crossing)).sel(init=0.01)
    assert found.isel(decay=0).isnull().all(), "most runs of the cell are unfinished"
    assert (found.isel(decay=1) == 1).all()


@pytest.mark.parametrize("name", ["plateaus", "prior-gap"])
def test_the_full_sweeps_are_as_large_as_they_say(name):
    options = Options("full", chunk=1 << 17)
    plan, paper = plan_of(name, options), paper_of(name, options)
    assert f"({plan.num_runs} runs)" in paper.figures[0].title
    if name == "plateaus":
        assert 10**5 <= plan.num_runs <= 10**6
