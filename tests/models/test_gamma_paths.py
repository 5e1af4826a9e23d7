"""Gradient flow on Γ in closed form: the path of the differential equation, its end, and the ridge solutions."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from iclearn.core.errors import IclearnError
from iclearn.models.gamma_paths import decompose
from iclearn.models.ridge_solutions import solve_gamma


@pytest.fixture
def prompts():
    rng = np.random.default_rng(0)

    def draw(count, dim=3):
        return rng.normal(size=(count, dim)), rng.normal(size=(count, dim + 1)), rng.normal(size=count)

    return draw


def test_the_closed_form_is_the_path_of_the_differential_equation(prompts):
    queries, contexts, targets = prompts(40)
    features = np.einsum("ni,nj->nij", queries, contexts).reshape(40, -1)
    times = np.array([0.05, 0.3, 2.0, 10.0])

    def velocity(_, gamma):
        return 2 * features.T @ (targets - features @ gamma) / 40

    solved = solve_ivp(velocity, (0, 10), np.zeros(12), t_eval=times, rtol=1e-10, atol=1e-12).y.T
    np.testing.assert_allclose(decompose(queries, contexts, targets).flow(times).reshape(4, -1), solved, atol=1e-8)


def test_small_steps_of_gradient_descent_follow_the_flow(prompts):
    queries, contexts, targets = prompts(30)
    paths, gamma, step = decompose(queries, contexts, targets), np.zeros((3, 4)), 1e-3
    for _ in range(1000):
        miss = targets - np.einsum("ni,ij,nj->n", queries, gamma, contexts)
        gamma = gamma + step * 2 * np.einsum("n,ni,nj->ij", miss, queries, contexts) / 30
    np.testing.assert_allclose(gamma, paths.flow([1.0])[0], atol=5e-3)


@pytest.mark.parametrize("count", [40, 8])
def test_it_ends_at_least_norm_and_ridges_are_those_of_the_solver(prompts, count):
    drawn = prompts(count)
    paths = decompose(*drawn)
    np.testing.assert_allclose(paths.flow([np.inf])[0], solve_gamma(*drawn), atol=1e-9)
    for ridge in (0.0, 0.01, 1.0):
        np.testing.assert_allclose(paths.ridge([ridge])[0], solve_gamma(*drawn, ridge=ridge), atol=1e-9)


def test_the_training_loss_is_the_mean_squared_error_and_falls(prompts):
    queries, contexts, targets = prompts(25)
    paths = decompose(queries, contexts, targets)
    gammas = paths.flow([0.0, 0.5, 5.0, np.inf])
    direct = [np.mean((targets - np.einsum("ni,ij,nj->n", queries, g, contexts)) ** 2) for g in gammas]
    np.testing.assert_allclose(paths.loss(gammas), direct, rtol=1e-10)
    assert np.all(np.diff(direct) < 0)


def test_bad_times_ridges_and_shapes_are_refused(prompts):
    queries, contexts, targets = prompts(10)
    paths = decompose(queries, contexts, targets)
    with pytest.raises(IclearnError, match="times"):
        paths.flow([-1.0])
    with pytest.raises(IclearnError, match="ridge"):
        paths.ridge([-1.0])
    with pytest.raises(IclearnError, match="as many contexts"):
        decompose(queries, contexts[:5], targets)
