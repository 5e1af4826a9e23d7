"""Filters: the same answers as the algorithms they stand for, written with matrices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.prompt import Prompt, full_prompt
from iclearn.models.predictors import (
    GradientDescent,
    LeastSquares,
    NewtonFilter,
    Ridge,
    RidgeFilter,
    StepFilter,
)
from iclearn.theory.depth import gdpp_residual, newton_residual

DIM = 4


def prompt_of(context: int) -> Prompt:
    rng = np.random.default_rng(context)
    x, y = rng.normal(size=(context, DIM)), rng.normal(size=(context, 1))
    return full_prompt(jnp.asarray(x), jnp.asarray(y), jnp.asarray(rng.normal(size=DIM)))


def answer(model, prompt) -> float:
    return float(jax.jit(lambda p: model.predict(p))(prompt)[0])


@pytest.mark.parametrize("context", [3, 9])
def test_steps_are_gradient_descent_and_gdpp(context):
    prompt = prompt_of(context)
    descent = GradientDescent(np.zeros(DIM), 0.3, 5)
    assert answer(StepFilter([0.3] * 5), prompt) == pytest.approx(answer(descent, prompt), rel=1e-10)
    on_sum = StepFilter([0.3 / context] * 5, normalize="none")
    assert answer(on_sum, prompt) == pytest.approx(answer(descent, prompt), rel=1e-10)
    steps, curvature = (0.5, 1.2, 0.7), (0.2, 0.1)
    weights = {"a": np.array(steps)[:, None], "b": np.array([0.2 / 0.5, 0.1 / 1.2, 0.0])[:, None]}
    layers = icl.LinearTransformer(layers=3, scalar=True).rebuild(DIM, weights)
    assert answer(StepFilter(steps, curvature), prompt) == pytest.approx(answer(layers, prompt), rel=1e-10)


@pytest.mark.parametrize("context", [3, 9])
@pytest.mark.parametrize("normalize", ["context", "none"])
def test_newton_is_the_iteration_on_matrices(context, normalize):
    prompt = prompt_of(context)
    x, y, query = (np.asarray(v) for v in (prompt.x, prompt.y[:, 0], prompt.query))
    second = x.T @ x
    inverse = second.T / np.linalg.norm(second @ second.T)
    for steps in range(4):
        expected = query @ inverse @ (x.T @ y)
        assert answer(NewtonFilter(steps, normalize=normalize), prompt) == pytest.approx(expected, rel=1e-9)
        inverse = 2 * inverse - inverse @ second @ inverse


@pytest.mark.parametrize("context", [3, 9])
def test_ridge_is_ridge(context):
    prompt = prompt_of(context)
    assert answer(RidgeFilter(0.2), prompt) == pytest.approx(answer(Ridge(0.2 * context), prompt), rel=1e-9)
    assert answer(RidgeFilter(0.2, normalize="none"), prompt) == pytest.approx(answer(Ridge(0.2), prompt), rel=1e-9)
    assert answer(RidgeFilter(0.0), prompt) == pytest.approx(answer(LeastSquares(), prompt), rel=1e-8)


def test_residuals_are_those_of_the_theory():
    s = np.random.default_rng(0).uniform(0.1, 2.0, (5, DIM))
    np.testing.assert_allclose(StepFilter((0.5, 1.2), (0.3,)).residual(s), gdpp_residual(s, (0.5, 1.2), (0.3,)))
    start = 1 / np.sqrt(np.sum(s**4, -1, keepdims=True))
    np.testing.assert_allclose(NewtonFilter(3).residual(s), newton_residual(s, start, 3), atol=1e-12)
    np.testing.assert_allclose(RidgeFilter(0.4).residual(s), 0.4 / (s + 0.4))


def test_refusals():
    with pytest.raises(icl.IclearnError, match="2 curvatures for 1 steps"):
        StepFilter([0.1], [0.1, 0.2])
    with pytest.raises(icl.IclearnError, match="not be negative"):
        NewtonFilter(-1)
