"""The shipped sweeps: what their judges say of data made up to agree with theory, and of data made up not to."""

from __future__ import annotations

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.engines.reductions import crossings, sample_steps
from iclearn.papers.phase_diagrams import (
    Options,
    examples,
    figure_of,
    minima_claims,
    minima_phases,
    paper_of,
    plan_of,
    prior_gap,
)
from iclearn.papers.phase_diagrams import plateau_claims as claims
from iclearn.papers.phase_diagrams import plateau_phases as plateaus
from iclearn.papers.phase_diagrams import plateau_stays as read
from iclearn.sweeps.api import make_plan
from iclearn.theory.xie2025 import Law, optimum
from iclearn.theory.zhang2025 import drop_sequence, loss_of_progress, progress, read_weights, saddle_losses

GAP = ("boundary", "gap_law", "reaches")


def verdicts(name: str, data) -> dict[str, str]:
    return {v.claim: v.verdict for v in figure_of(name, Options()).judge("sweep", data)}


def test_losses_at_the_optimum_reproduce_every_claim_on_the_gap():
    data = examples.optimal_losses()
    assert verdicts("prior-gap", data) == dict.fromkeys(GAP, "reproduced")
    plt.close(prior_gap.draw(data))


def test_a_boundary_elsewhere_is_noticed():
    """As if d − 1 heads were enough."""
    loss = examples.optimal_losses()["loss"]
    for context in loss["context_len"].values:
        for norm in loss["norm"].values:
            at = {"context_len": context, "norm": norm, "num_heads": 3}
            loss.loc[at] = optimum(Law.isotropic(4, int(context), float(norm))).loss
    found = verdicts("prior-gap", {"loss": loss})
    assert found["boundary"] == "contradicted"
    assert found["reaches"] == "contradicted", "three heads are below what three heads can reach"


def test_the_best_of_the_seeds_does_not_stand_for_all():
    loss = examples.optimal_losses()["loss"]
    most = loss + xr.where(loss["seed"] >= 2, 0.1, 0.0)
    assert verdicts("prior-gap", {"loss": most}) == dict.fromkeys(GAP, "contradicted")
    lost = loss.where(loss["seed"] >= 3)
    assert verdicts("prior-gap", {"loss": lost}) == dict.fromkeys(GAP, "contradicted"), "three of five diverged"


def made_up_crossings(long_at) -> xr.DataArray:
    return examples.crossings(long_at, lambda init: 5.0)


def test_stays_are_read_from_drop_to_drop_in_own_units():
    own = read.stays(made_up_crossings(lambda rank: range(0, 4, rank)))
    assert own.sel(init=0.01, rank=2).isel(decay=0, seed=0).values == pytest.approx([100, 5, 100, 5])
    assert own.sel(init=0.02, rank=3).isel(decay=1, seed=0).values == pytest.approx([50, 5, 5, 50])


def test_plateaus_at_multiples_of_the_rank_reproduce_every_claim():
    data = examples.crossings_at_multiples()
    assert (read.share(read.stays(data["crossing"])).sel(init=0.01) == 1).all()
    assert (read.share(read.stays(data["crossing"])).sel(init=0.3) == 0).all()
    assert set(verdicts("plateaus", data).values()) == {"reproduced"}
    plt.close(plateaus.draw(data))


def test_plateaus_elsewhere_are_noticed():
    right, wrong = (made_up_crossings(f) for f in (lambda rank: range(0, 4, rank), lambda rank: range(4)))
    found = verdicts("plateaus", {"crossing": wrong, "theory": right})
    assert set(found.values()) == {"contradicted", "reproduced"}
    assert found["heads_wait"] == "reproduced", "they last as long as they should, in the wrong place"


def test_a_grid_without_small_weights_says_nothing_of_exponents():
    data = {name: table.isel(init=[2, 3]) for name, table in examples.crossings_at_multiples().items()}
    found = verdicts("plateaus", data)
    assert found["heads_wait"] == found["pairs_wait"] == "inconclusive"


def test_theory_is_asked_for_the_very_weights_of_each_run():
    axes = {
        "init": {"field": "init.scale", "values": [0.02, 0.3]},
        "decay": {"field": "task.covariance.parameters", "values": [0.4, 1.7]},
        "model.rank": [1, 3],
    }
    kept = {"levels": "zhang2025", "samples": 300}
    plan = make_plan(plateaus.base("small"), axes, 3, reduce=kept, chunk=24)
    steps, table = sample_steps(plan.base.steps, 300), plateaus.predicted(plan, 2)["crossing_step"]
    assert table.shape == (2, 2, 2, 2, 4)
    for at in np.ndindex(2, 2, 2, 2):
        recipe = plan.recipe(at)
        weights = read_weights(recipe.model.initial(recipe.task, recipe.init, recipe.seed, "float64").weights())
        drawn = plateaus.initial_weights(recipe, range(2))
        for name in ("value", "key", "query"):
            np.testing.assert_array_equal(getattr(drawn, name)[at[-1]], getattr(weights, name))
        sizes = (recipe.task.covariance.values(4), read.CONTEXT)
        drops = drop_sequence(weights, *sizes, gain=read.GAIN)
        done = progress(2 * read.LR * steps, drops, *sizes, gain=read.GAIN)
        alone = crossings(*map(jnp.asarray, (loss_of_progress(done, sizes[0], 31), steps, saddle_losses(*sizes))))
        np.testing.assert_allclose(table[at], alone, rtol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_slopes_are_those_of_power_laws_where_three_points_are_known():
    inits = np.array([0.01, 0.02, 0.03, 0.04])
    table = xr.DataArray(np.stack([3 / inits, inits**-0.5, 1 / inits]), {"decay": [0, 1, 2], "init": inits})
    table[1, 0] = np.nan
    table[2, 1:3] = np.nan
    slopes = claims.slope_of_logs(table)
    assert slopes.values[:2] == pytest.approx([-1, -0.5])
    assert np.isnan(slopes.values[2]), "two points are no fit"


def test_runs_that_did_not_finish_are_left_out():
    crossing = made_up_crossings(lambda rank: range(0, 4, rank))
    crossing[{"seed": range(9), "crossing": 3, "decay": 0}] = np.nan
    found = read.share(read.stays(crossing)).sel(init=0.01)
    assert found.isel(decay=0).isnull().all(), "most runs of the cell are unfinished"
    assert (found.isel(decay=1) == 1).all()


def test_runs_that_follow_the_flow_reproduce_every_claim_on_the_minima():
    data = minima_claims.example()
    assert set(verdicts("minima", data).values()) == {"reproduced"}
    ends, flow = minima_claims.ends_of(data)
    assert ends.sel(rule="gd").isel(lr=0).values.tolist() == flow.values.tolist()
    assert (ends.sel(rule="gd").isel(lr=-1) == 4).all(), "beyond every edge"
    plt.close(minima_phases.draw(data))
    beyond = {**data, "loss": data["loss"].where(data["loss"]["lr"] != 0.002, data["basins"]["height"].sel(minimum=3))}
    assert verdicts("minima", beyond)["stability"] == "contradicted", "the third minimum at twice its edge"


def test_flows_start_from_the_weights_of_the_runs():
    recipe = plan_of("minima", Options()).recipe((1, 0, 2, 3, 5))
    drawn = recipe.model.initial(recipe.task, recipe.init, recipe.seed, "float64").weights()
    found = minima_phases.starting_weights(recipe, [4, 5])
    np.testing.assert_array_equal(found[1], np.concatenate([drawn["a"][:, 0], drawn["b"][:, 0]]))


@pytest.mark.parametrize("name", ["plateaus", "prior-gap", "minima"])
def test_the_full_sweeps_are_as_large_as_they_say(name):
    options = Options("full", chunk=1 << 17)
    plan, paper = plan_of(name, options), paper_of(name, options)
    assert f"({plan.num_runs} runs)" in paper.figures[0].title
    if name != "prior-gap":
        assert 10**5 <= plan.num_runs <= 10**6
