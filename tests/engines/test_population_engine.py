"""The population engine against an independent formula, its minimum, and what it refuses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from engine_cases import DATA, POPULATION, recipe, run
from population_formulas import PopulationLoss, effective

from iclearn.core.errors import MissingClosedForm
from iclearn.core.recipe import Init
from iclearn.engines import Setup, prepare
from iclearn.models import Attention
from iclearn.tasks import Covariance, LinearRegression

PRIOR = Covariance.matrix([[1.0, 0.3], [0.3, 0.5]])
TASKS = {
    "plain": POPULATION,
    "noise": POPULATION.replace(noise=0.7),
    "prior": POPULATION.replace(prior_mean=(0.5, -1.0), prior_covariance=PRIOR, noise=0.2),
}


def formula(task: LinearRegression, seed: int, num: int | None = None) -> PopulationLoss:
    return PopulationLoss(
        np.asarray(task.covariance_matrix(seed)),
        num or task.context_len,
        task.prior_mean,
        None if task.prior_covariance is None else np.array(PRIOR.parameters).reshape(2, 2),
        task.noise,
    )


def least(setup: Setup) -> float:
    found = setup.engine.minimum()
    assert found is not None
    return found


@pytest.mark.parametrize("name", TASKS)
def test_loss_and_gradient_are_those_of_the_formula(name):
    task = TASKS[name]
    setup = prepare(recipe("merged_reduced", task=task, normalize="context", seed=3))
    expected, scale = formula(task, 3), np.random.default_rng(0).normal(size=(2, 2, 2))
    value, kq = np.asarray(setup.model.value), np.asarray(setup.model.kq) + scale  # type: ignore[attr-defined]
    model = Attention("merged_reduced", num_heads=2, normalize="context").rebuild(2, {"value": value, "kq": kq})
    key = jax.random.key(0)
    w = effective(value, kq)
    loss, gradient = jax.value_and_grad(lambda m: setup.engine.loss(m, key))(model)
    np.testing.assert_allclose(loss, expected(w), rtol=1e-12)
    toward_kq = np.einsum("h,ij->hji", value[:, 0, 0], expected.gradient(w))
    np.testing.assert_allclose(gradient.kq, toward_kq, rtol=1e-10)  # type: ignore[attr-defined]
    toward_value = np.einsum("hji,ij->h", kq, expected.gradient(w))
    np.testing.assert_allclose(gradient.value[:, 0, 0], toward_value, rtol=1e-10)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TASKS)
def test_the_minimum_is_that_of_the_formula(name):
    task = TASKS[name]
    setup = prepare(recipe("merged_reduced", task=task, normalize="context", seed=3))
    expected = formula(task, 3)
    np.testing.assert_allclose(least(setup), expected(expected.best()), rtol=1e-10)


def test_normalization_changes_the_weights_and_not_the_function():
    """Σ instead of (1/N)Σ: the same loss with W divided by N; 1/(N+1): with W times (N+1)/N."""
    expected = formula(POPULATION, 10)
    for normalize, factor in [("none", 4.0), ("context", 1.0), ("tokens", 4 / 5)]:
        made = recipe("merged_reduced", data=None, normalize=normalize, steps=1)
        trace = run(made)
        weights = trace.weights(0)
        w = effective(weights["value"], weights["kq"]) * factor
        np.testing.assert_allclose(float(trace.loss[0]), expected(w), rtol=1e-12)


def test_full_attention_follows_the_reduced_model():
    full, reduced = run(recipe("merged", data=None)), run(recipe("merged_reduced", data=None))
    np.testing.assert_allclose(full.loss, reduced.loss, rtol=1e-12)
    assert full.provenance["engine"] == "population"
    assert not full.data["weight_value"].isel(entry=slice(0, 2)).values.any()
    assert not full.data["weight_kq"].isel(entry=2).values.any()


@pytest.mark.parametrize(("attention", "disguise"), [("merged_reduced", "mlp"), ("separate_reduced", "conv")])
def test_disguises_have_the_trajectory_of_attention(attention, disguise):
    """Same data, matching initial weights: the same curve to 1e-12, under the population loss and on a training set."""
    for data in (None, DATA):
        one, other = run(recipe(attention, data=data)), run(recipe(disguise, data=data))
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)


def test_the_minimum_of_the_paper_s_task():
    """L(M_D) of zhang2025 eq. (19) for D=4, N=31 and the default spectrum (spec section 5, checked there)."""
    setup = prepare(recipe("merged", task=LinearRegression(num_prompts=None)))
    np.testing.assert_allclose(least(setup), 0.13599507, atol=5e-9)


def test_prefixes_average_the_losses_of_all_lengths():
    trace = run(recipe("merged_reduced", task=POPULATION.replace(prefixes=True), normalize="context", steps=1))
    weights = trace.weights(0)
    w = effective(weights["value"], weights["kq"])
    lengths = [formula(POPULATION, 10, num)(w) for num in (1, 2, 3, 4)]
    np.testing.assert_allclose(float(trace.loss[0]), np.mean(lengths), rtol=1e-12)


def test_mixes_and_test_laws():
    """A share c of own tasks and 1 − c of the fixed one; the test losses are those of the pure laws."""
    task = POPULATION.replace(in_context=0.25, test_prompts=100)
    made = recipe("merged_reduced", task=task, normalize="context", steps=1)
    trace = run(made)
    weights = trace.weights(0)
    w = effective(weights["value"], weights["kq"])
    cov = np.asarray(task.covariance_matrix(10))
    fixed = np.asarray(task.label_laws(10)[1].mean)[:, 0]
    own = PopulationLoss(cov, 4)(w)
    shared = PopulationLoss(cov, 4, fixed, np.zeros((2, 2)))(w)
    np.testing.assert_allclose(float(trace.loss[0]), 0.25 * own + 0.75 * shared, rtol=1e-12)
    in_weight = fixed @ cov @ fixed + np.trace(w.T @ (cov / 4) @ w @ cov)  # labels are noise: no cross term
    np.testing.assert_allclose(trace.data["test_loss"][0], [in_weight, own], rtol=1e-12)


REFUSED = [
    (
        recipe("merged", task=POPULATION.replace(prior_mean=(1.0, 0.0))),
        "under a task prior with a non-zero mean .* use engine moments or samples with a finite number of prompts, "
        "or a \\*_reduced model",
    ),
    (
        recipe("separate", task=POPULATION.replace(in_context=0.5)),
        "under a task prior with a non-zero mean \\(or an in-context mix\\) full attention leaves the reduced model",
    ),
    (
        recipe("merged", data=None, init=Init(0.1, zero_blocks=False)),
        "only while the zero blocks are zero: set init zero_blocks, or use engine moments or samples",
    ),
    (recipe("merged", engine="population"), "a given dataset has no population: use engine moments"),
    (recipe("merged", data=None, softmax=True, engine="population"), "for softmax attention use engine samples"),
]


@pytest.mark.parametrize(("made", "message"), REFUSED)
def test_without_a_closed_form_the_message_lists_what_works(made, message):
    with pytest.raises(MissingClosedForm, match=message):
        run(made)


def test_any_seed_is_a_lane_of_a_vmapped_engine():
    """Engines are pytrees: the loss of many seeds at once is that of each alone."""
    made = recipe("merged_reduced", data=None)
    setups = [prepare(made.replace(seed=s)) for s in range(3)]
    key = jax.random.key(0)
    alone = [float(s.engine.loss(s.model, key)) for s in setups]
    engines = jax.tree.map(lambda *a: jnp.stack(a), *[s.engine for s in setups])
    models = jax.tree.map(lambda *a: jnp.stack(a), *[s.model for s in setups])
    together = jax.vmap(lambda e, m: e.loss(m, key))(engines, models)
    np.testing.assert_allclose(together, alone, rtol=1e-12)
