"""Predicted runs carry the names and axes of a Trace, and lie over simulated ones."""

import json

import numpy as np
import pytest

import iclearn as icl
from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Optimizer, Recipe
from iclearn.engines.simulate import simulate
from iclearn.models import Attention
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.regression import LinearRegression
from iclearn.theory import levels_of
from iclearn.theory.zhang2025 import eigenpairs, gain_of, predict, random_separate, saddle_losses, summary

STEPS, LR = 3000, 0.02


def recipe_of(family: str, init: float, values=(0.5, 0.3, 0.2), noise: float = 0.0) -> Recipe:
    covariance = Covariance.eigenvalues(values, rotate=True)
    return Recipe(
        task=LinearRegression(dim=3, covariance=covariance, noise=noise, num_prompts=None),
        model=Attention(family, num_heads=3),  # type: ignore[arg-type]
        init=Init(init),
        optimizer=Optimizer("gd", LR if family == "separate_reduced" else LR / 10),
        steps=STEPS,
        engine="population",
        seed=3,
    )


@pytest.mark.parametrize(
    ("family", "init", "values", "noise"),
    [
        ("merged_reduced", 1e-5, (0.5, 0.3, 0.2), 0.0),
        ("merged_reduced", 1e-5, (0.4, 0.4, 0.4), 0.0),
        ("merged_reduced", 1e-5, (0.4, 0.4, 0.4), 5.0),
        ("separate_reduced", 1e-2, (0.5, 0.3, 0.2), 0.0),
        ("separate_reduced", 1e-2, (0.5, 0.3, 0.2), 5.0),
    ],
)
def test_prediction_lies_over_the_simulation(family, init, values, noise):
    data = simulate(recipe_of(family, init, values, noise)).data
    first = {
        name: data[f"weight_{name}"].values[0] for name in ("value", "kq", "key", "query") if f"weight_{name}" in data
    }
    eigenvalues, basis = eigenpairs(data["covariance"].values)
    lr = LR if family == "separate_reduced" else LR / 10
    gain = gain_of("none", 31)
    theory = predict(
        family.removesuffix("_reduced"),  # type: ignore[arg-type]
        eigenvalues, 31, steps=STEPS, lr=lr, num_heads=3, weights=first, basis=basis, gain=gain, noise=noise,
    )  # fmt: skip
    for name in data.data_vars:
        assert theory[name].dims == data[name].dims, name
    assert theory["time"].dims == data["time"].dims
    np.testing.assert_allclose(theory["time"], data["time"], rtol=1e-12)
    np.testing.assert_allclose(theory["covariance"], data["covariance"], atol=1e-12)
    assert set(theory.coords) >= set(data.coords)
    heights = saddle_losses(values, 31, noise=noise)
    levels = (heights[1:] + heights[:-1]) / 2 if "drop" in theory.dims else [(heights[0] + heights[-1]) / 2]
    for level in levels:
        predicted, found = (int(np.argmax(run["loss"].values < level)) for run in (theory, data))
        if family == "merged_reduced" or found:
            assert predicted == pytest.approx(found, rel=2e-2)  # gradient descent's own step error is of order lr
    assert float(np.abs(theory["loss"] - data["loss"]).mean()) < 5e-3


@pytest.mark.parametrize("family", ["merged_reduced", "separate_reduced"])
def test_a_run_with_label_noise_rests_at_the_levels_of_its_theory(family):
    recipe = recipe_of(family, 0.1, noise=0.25)
    trace = simulate(recipe.replace(steps=20_000))
    levels, theory = levels_of(recipe, "zhang2025"), icl.predict(trace, "zhang2025", method="flow")
    assert trace.loss[-1] == pytest.approx(levels.heights[-1], rel=1e-12)
    assert float(trace.data["loss_minimum"]) == pytest.approx(float(theory["loss_minimum"]), rel=1e-12)
    np.testing.assert_allclose(theory["loss"][0], trace.loss[0], rtol=1e-12)
    assert float(np.abs(theory["loss"] - trace.loss).mean()) < 1e-3, "gradient descent's own step error"
    sampled = simulate(recipe.replace(task=recipe.task.replace(num_prompts=50_000), engine="auto", steps=20_000))
    assert float(sampled.loss[-1]) == pytest.approx(levels.heights[-1], rel=0.02)
    assert abs(levels.heights[-1] / saddle_losses((0.5, 0.3, 0.2), 31)[-1] - 1) > 0.05, "the noise is seen"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"out_dim": 2}, "more than one output"),
        ({"prior_mean": (1.0, 0.0, 0.0), "noise": 0.1}, "a prior over task vectors"),
        ({"in_context": 0.5, "prefixes": True}, "in-weight prompts or a loss averaged over prefixes"),
    ],
)
def test_a_refusal_names_what_is_outside_the_theory(changes, named):
    recipe = Recipe(task=LinearRegression(dim=3, **changes), model=Attention("merged", num_heads=3))
    with pytest.raises(IclearnError, match=f"^zhang2025 does not cover {named}$"):
        levels_of(recipe, "zhang2025")


def test_flow_and_formula_agree_for_small_weights():
    weights = random_separate(3, 3, 1, 1e-2, 1)
    arguments = {"steps": 2000, "lr": 0.02, "num_heads": 3, "weights": weights, "gain": 31.0}
    formula = predict("separate", [0.5, 0.3, 0.2], 31, **arguments)
    flow = predict("separate", [0.5, 0.3, 0.2], 31, method="flow", **arguments)
    assert float(np.abs(formula["loss"] - flow["loss"]).mean()) < 5e-3
    assert formula["weight_key"].dims == flow["weight_key"].dims == ("record", "head", "rank", "key_input")
    assert int(flow["record"][-1]) == 2000


def test_typical_runs_need_only_a_scale():
    run = predict("separate", [0.6, 0.4], 31, steps=4000, lr=0.02, num_heads=2, init=0.02, gain=31.0)
    assert run["drop_step"].values.tolist() == pytest.approx((run["drop_time"].values / 0.04).tolist())
    heights = run["saddle_loss"].values
    halfway = run["loss"].interp(step=run["drop_step"].values)
    assert halfway.values.tolist() == pytest.approx(((heights[1:] + heights[:-1]) / 2).tolist(), abs=2e-3)
    assert float(run["loss"][-1]) == pytest.approx(heights[2], abs=1e-3)
    merged = predict("merged", [0.6, 0.4], 31, steps=2000, lr=0.001, num_heads=2, init=1e-4, gain=31.0)
    assert merged["weight_kq"].dims == ("record", "head", "input", "key_input")


def test_requests_that_do_not_fit_are_refused():
    with pytest.raises(IclearnError, match="initial weights, or a positive init scale"):
        predict("separate", [0.6, 0.4], 31, steps=10, lr=0.1, num_heads=2, gain=1)
    with pytest.raises(IclearnError, match="not the weights of a merged model"):
        predict(
            "merged", [0.6, 0.4], 31, steps=10, lr=0.1, num_heads=2, gain=1, weights=random_separate(2, 2, 1, 0.1, 0)
        )
    with pytest.raises(IclearnError, match="pass weights="):
        predict("merged", [0.6, 0.4], 31, steps=10, lr=0.1, num_heads=2, gain=1, init=0.1, method="flow")
    with pytest.raises(IclearnError, match="steps must be at least 1"):
        predict("merged", [0.6, 0.4], 31, steps=0, lr=0.1, num_heads=2, gain=1, init=0.1)


def test_summary_is_plain_json_with_every_number():
    text = json.dumps(summary([0.4, 0.3, 0.2, 0.1], 31, 5, 1, 0.01, 31.0, 0.02), allow_nan=False)
    found = json.loads(text)
    assert [round(x, 8) for x in found["saddle_losses"]] == [1.0, 0.64057971, 0.37737216, 0.2098046, 0.13599507]
    assert found["drop_steps"] == pytest.approx([t / 0.04 for t in found["drop_times"]])
    assert np.cumsum(found["plateau_durations"]).tolist() == pytest.approx(found["drop_times"])
    assert found["time_scales"] == pytest.approx([1 / (31 * lam**2) for lam in (0.4, 0.3, 0.2, 0.1)])
    assert found["conspicuous_plateaus"] == [0, 1, 2, 3]
    few = summary([0.4, 0.3, 0.2, 0.1], 31, num_heads=1, rank=3)
    assert (few["learned_components"], len(few["drop_times"])) == (3, 3)
    assert few["final_loss"] == pytest.approx(0.2098046, abs=5e-8)
    assert few["saddle_index"] == [0, 6, 2, 0, 0]
    noisy = summary([0.4, 0.3, 0.2, 0.1], 31, noise=2.0)
    assert noisy["saddle_losses"] == saddle_losses([0.4, 0.3, 0.2, 0.1], 31, noise=2.0).tolist()
    assert noisy["drop_times"] != found["drop_times"]
    with pytest.raises(IclearnError, match="rank must be between 1 and 1"):
        summary([0.4], 31, rank=0)
