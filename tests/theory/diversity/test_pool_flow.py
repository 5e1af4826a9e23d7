"""Gradient flow on infinitely many prompts, and phases."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from iclearn.core.errors import IclearnError
from iclearn.theory.diversity import (
    best_matrix,
    feature_moments,
    flow_matrices,
    matrix_error,
    new_moments,
    pool_errors,
    pool_moments,
    pool_phase,
)  # fmt: skip

TIMES = np.append(np.geomspace(0.1, 1e4, 120), np.inf)


def pool_of(count, dim, seed=0):
    pool = np.random.default_rng(seed).normal(size=(count, dim))
    return pool_moments(pool * dim**0.5 / np.linalg.norm(pool, axis=1, keepdims=True))


def test_the_flow_is_the_path_of_steepest_descent_of_the_exact_error():
    law, context, noise, times = pool_of(2, 3), 7, 0.2, [0.5, 3.0]
    a, b = feature_moments(law, context, noise)

    def velocity(_, gamma):
        return 2 / 3 * (a.T - gamma.reshape(3, 4) @ b).ravel()

    solved = solve_ivp(velocity, (0, 3), np.zeros(12), t_eval=times, rtol=1e-10, atol=1e-12).y.T
    np.testing.assert_allclose(flow_matrices(law, context, noise, times).reshape(2, -1), solved, atol=1e-8)
    step = 1e-6  # and the velocity is minus the gradient of the error
    bump = np.zeros((3, 4))
    bump[1, 2] = step
    slope = (matrix_error(bump, law, context, noise) - matrix_error(-bump, law, context, noise)) / (2 * step)
    assert velocity(0, np.zeros(12)).reshape(3, 4)[1, 2] == pytest.approx(-slope, rel=1e-6)


@pytest.mark.parametrize("label_square", [True, False])
def test_it_ends_at_the_best_matrix(label_square):
    law = pool_of(3, 5)
    end = flow_matrices(law, 10, 0.1, [np.inf], label_square=label_square)[0]
    np.testing.assert_allclose(end, best_matrix(law, 10, 0.1, label_square=label_square), atol=1e-10)
    with pytest.raises(IclearnError, match="times"):
        flow_matrices(law, 10, 0.1, [-1.0])


def test_infinitely_many_prompts_do_not_rule_transience_out():
    """Below κ = ¼ every mode overshoots what is best for new tasks; at κ = ½ and long contexts nothing rises."""

    def rise(count, alpha, dim=40):
        gammas = flow_matrices(pool_of(count, dim), round(alpha * dim), 0.1, TIMES, label_square=False)
        errors = np.asarray(matrix_error(gammas, new_moments(np.ones(dim), sphere=True), round(alpha * dim), 0.1))
        return errors[-1] / errors.min() - 1

    assert rise(8, 1.0) > 0.02
    assert rise(20, 10.0) < 1e-6


def test_phases_of_a_whole_plane_in_one_call():
    kappa, tau = np.array([0.25, 1.0, 4.0])[:, None], np.array([0.5, 1.1, 4.0])
    errors = pool_errors(10.0, kappa, tau, 0.01)
    assert pool_phase(errors.icl, errors.idg, 0.01).tolist() == [[1, 2, 1], [0, 2, 1], [0, 2, 0]]
    assert pool_phase([np.nan], [0.1], 0.1).tolist() == [-1]
