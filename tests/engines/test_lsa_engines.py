"""Training linear self-attention: closed-form moments against the theory's, engines against each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.model import mean_loss
from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.core.rng import stream
from iclearn.engines import prepare, simulate
from iclearn.engines.quadratic import stream_moments
from iclearn.models import LSA, LSATogether
from iclearn.tasks import Covariance, LinearRegression
from iclearn.tasks.gram_moments import gram_form
from iclearn.theory.xie2025 import Law, best_loss, gram_moments, lsa_loss, optimum


def spd(rng: np.random.Generator, dim: int) -> np.ndarray:
    q, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    matrix = (q * rng.uniform(0.4, 2.0, dim)) @ q.T
    return (matrix + matrix.T) / 2


def general_task(seed: int, dim: int, context: int, noise: float, **changes) -> tuple[LinearRegression, Law]:
    rng = np.random.default_rng(seed)
    inputs, prior, mean = spd(rng, dim), spd(rng, dim), rng.normal(size=dim)
    task = LinearRegression(
        dim=dim, context_len=context, covariance=Covariance.matrix(inputs), prior_mean=tuple(mean),
        prior_covariance=Covariance.matrix(prior), noise=noise, num_prompts=None,
    ).replace(**changes)  # fmt: skip
    return task, Law(mean, context, inputs, prior, noise)


@settings(deadline=None, max_examples=6)
@given(seed=st.integers(0, 10**6), dim=st.integers(1, 3), context=st.integers(1, 12), noise=st.sampled_from([0.0, 0.6]))
def test_moments_are_the_theorys(seed: int, dim: int, context: int, noise: float) -> None:
    task, law = general_task(seed, dim, context, noise)
    form, expected = gram_form(task, 0, "float64"), gram_moments(law)
    scale = np.abs(expected.second).max()
    np.testing.assert_allclose(form.moments.second, expected.second, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(form.moments.cross, expected.cross @ form.root, rtol=1e-12, atol=1e-12 * scale)
    np.testing.assert_allclose(form.moments.constant, expected.constant, rtol=1e-12)
    model = LSA(3, "trainable").initial(task, Init(0.5), seed, jnp.float64)
    exact = lsa_loss(law, model.p, model.q, model.guess_weights())
    np.testing.assert_allclose(form(model.coefficients()), exact, rtol=1e-11)


def test_the_forms_minimum_is_the_gradient_step_from_the_prior_mean() -> None:
    task, law = general_task(3, 3, 6, 0.4)
    assert gram_form(task, 0, "float64").minimum() == pytest.approx(optimum(law).step_loss, rel=1e-9)


@pytest.mark.parametrize(
    "changes", [{}, {"prefixes": True}, {"in_context": 0.6, "prior_mean": None, "prior_covariance": None}]
)
def test_population_is_the_limit_of_moments_and_samples(changes: dict) -> None:
    """A large finite set: its exact moments are the population's within Monte-Carlo error, its samples equal them."""
    task, _ = general_task(0, 2, 4, 0.3, **changes)
    finite = task.replace(num_prompts=20_000)
    model = LSA(2, "trainable").initial(task, Init(0.3), 1, jnp.float64)
    batch = finite.source(0, "float64").everything(4 if task.prefixes else 0)
    sampled = float(mean_loss(model, batch))
    contexts = 4 if task.prefixes else 0
    moments = stream_moments(finite.source(0, "float64"), model.feature_map, 1, contexts)
    np.testing.assert_allclose(moments(model.coefficients()), sampled, rtol=1e-10)
    errors = (np.asarray(batch.target) - _predict(model, batch)) ** 2
    spread = np.std(errors) / np.sqrt(20_000)
    assert abs(sampled - float(gram_form(task, 0, "float64")(model.coefficients()))) < 4 * spread


def _predict(model, batch) -> np.ndarray:
    return np.asarray(jax.vmap(model.predict)(batch.prompt))


def recipe(**changes) -> Recipe:
    base = Recipe(
        task=LinearRegression(
            dim=2, context_len=4, covariance=Covariance.white(trace=None), prior_mean=(1.0, 0.5), num_prompts=None
        ),
        model=LSATogether((LSA(1, "trainable"), LSA(1), LSA(2))),
        init=Init(0.1),
        optimizer=Optimizer("adam", 1e-2),
        steps=3000,
        record=Record(weights=3, candidates=3),
    )
    return base.replace(**changes)


def test_exact_training_ends_at_the_optima() -> None:
    run = recipe()
    assert prepare(run).engine_name == "population"
    first = simulate(run)
    second = simulate(
        run.replace(init=Init.given(first.weights()), optimizer=Optimizer("adam", 1e-4), steps=1500),
        weights=first.weights(),
    )
    law = Law(np.array([1.0, 0.5]), 4)
    spec = run.model
    assert isinstance(spec, LSATogether)
    form = gram_form(run.task, 0, "float64")  # type: ignore[arg-type]
    losses = [float(form(spec.member(i, 2, second.weights()).coefficients())) for i in range(3)]
    expected = [optimum(law).step_loss, best_loss(law, 1).loss, best_loss(law, 2).loss]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert second.final_loss == pytest.approx(np.mean(losses), rel=1e-6)


def test_members_of_a_group_train_as_they_would_alone() -> None:
    spec = LSATogether((LSA(1, "trainable"), LSA(2)))
    run = recipe(steps=40, engine="samples", optimizer=Optimizer("adam", 5e-3, batch_size=64), seed=3, model=spec)
    together = simulate(run).weights()
    for index, member in enumerate(spec.members):
        alone = simulate(run.replace(model=member)).weights()
        found = spec.member(index, 2, together).weights()
        for name, weight in alone.items():  # equal but for Adam's ε beside gradients of half the size
            np.testing.assert_allclose(found[name], weight, rtol=1e-4, atol=1e-5)


def test_flow_is_the_limit_of_small_steps() -> None:
    run = recipe(model=LSA(1, "trainable"), optimizer=Optimizer("gd", 1e-4), steps=2001)
    flow = simulate(run.replace(optimizer=Optimizer("flow", 1e-4)))
    coarse = simulate(run.replace(optimizer=Optimizer("gd", 2e-4), steps=1001))
    fine = simulate(run)
    apart = [abs(trace.final_loss - flow.final_loss) for trace in (coarse, fine)]
    assert 1.8 < apart[0] / apart[1] < 2.2  # first order in the step


def test_fresh_prompts_follow_the_population_loss() -> None:
    task = recipe().task
    model = LSA(2).initial(task, Init(0.3), 0, jnp.float64)  # type: ignore[arg-type]
    batch = task.fresh(0, stream(0, "x"), 1 << 15, "float64")  # type: ignore[attr-defined]
    errors = (_predict(model, batch) - np.asarray(batch.target)) ** 2
    exact = float(gram_form(task, 0, "float64")(model.coefficients()))  # type: ignore[arg-type]
    assert abs(errors.mean() - exact) < 4 * errors.std() / np.sqrt(errors.size)
