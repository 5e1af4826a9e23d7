"""Gradient flow: against an independent integration, and as the limit of gradient descent with small steps."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import POPULATION, recipe, run
from population_formulas import PopulationLoss, effective
from scipy.integrate import solve_ivp

from iclearn.core.recipe import Init, Record

TIME = 6.0  # t/τ at the end: past the drop of the loss


def population(rule: str, steps: int, **changes):
    lr = TIME / (2 * steps)
    return run(recipe("merged_reduced", rule, data=None, normalize="context", lr=lr, steps=steps + 1, **changes))


@pytest.fixture(scope="module")
def flow():
    return population("flow", 60)


def test_flow_is_the_solution_of_the_differential_equation(flow):
    """τ Ẇ = −½ ∂L/∂W of the two-layer network, integrated by scipy with the formula of the spec."""
    start = flow.weights(0)
    loss = PopulationLoss(np.asarray(POPULATION.covariance_matrix(10)), 4)
    sizes = (start["value"].size, start["value"].shape, start["kq"].shape)

    def split(flat):
        return flat[: sizes[0]].reshape(sizes[1]), flat[sizes[0] :].reshape(sizes[2])

    def velocity(_, flat):
        value, kq = split(flat)
        gradient = loss.gradient(effective(value, kq))
        toward_value = np.einsum("hji,ij->h", kq, gradient)
        toward_kq = np.einsum("h,ij->hji", value[:, 0, 0], gradient)
        return -0.5 * np.concatenate([toward_value, toward_kq.ravel()])

    times = flow.data["time"].values
    begin = np.concatenate([start["value"].ravel(), start["kq"].ravel()])
    solved = solve_ivp(velocity, (0, times[-1]), begin, "DOP853", times, rtol=1e-11, atol=1e-12)
    expected = [loss(effective(*split(flat))) for flat in solved.y.T]
    np.testing.assert_allclose(flow.loss, expected, rtol=1e-7)
    assert flow.final_loss < 0.5 * float(flow.loss[0])
    for record, step in enumerate(flow.data["record"].values[:-1]):
        value, kq = split(solved.y[:, step])
        np.testing.assert_allclose(flow.weights(record)["value"], value, atol=1e-7)
        np.testing.assert_allclose(flow.weights(record)["kq"], kq, atol=1e-7)


def test_the_last_weights_are_those_after_the_last_step(flow):
    """The last record of n steps is the last but one of n + 1: flows go on beyond the step they stop at."""
    record = Record(weights=700, candidates=700)
    lr = TIME / 120
    for steps in (61, 256, 300):  # within a call, at its end, in the second call
        one = run(flow_recipe(lr, steps, record))
        more = run(flow_recipe(lr, steps + 1, record))
        assert one.data["record"].values[-1] == steps
        at = list(more.data["record"].values).index(steps)
        for name, weights in one.weights().items():
            np.testing.assert_allclose(weights, more.weights(at)[name], rtol=1e-12)
            assert np.abs(weights - one.weights(-2)[name]).max() > 1e-6


def flow_recipe(lr, steps, record):
    return recipe("merged_reduced", "flow", data=None, normalize="context", lr=lr, steps=steps, record=record)


def test_the_learning_rate_of_a_flow_only_sets_where_it_is_read(flow):
    finer = population("flow", 120)
    np.testing.assert_allclose(finer.loss[::2], flow.loss, rtol=1e-8)
    np.testing.assert_allclose(finer.data["time"][::2], flow.data["time"], rtol=1e-12)


def order(counts, gaps) -> float:
    return np.polyfit(np.log([TIME / n for n in counts]), np.log(gaps), 1)[0]


def test_gradient_descent_tends_to_flow_with_order_one(flow):
    """Sup over the common times of |L_GD − L_flow| against the step size. With error C h + O(h²), and steps this small,
    the fitted slope is 1 within the second term's share of the first, below 5%."""
    counts = (960, 1920, 3840)
    gaps = [abs(population("gd", n).loss.values[:: n // 60] - flow.loss.values).max() for n in counts]
    assert abs(order(counts, gaps) - 1) < 0.05


def test_gradient_descent_tends_to_flow_on_a_training_set():
    """The same through the moments of a fixed set of prompts, for full attention."""
    time, counts = 1.0, (960, 1920, 3840)

    def loss(rule, steps):
        made = recipe("merged", rule, lr=time / (2 * steps), steps=steps + 1, engine="moments")
        return run(made).loss.values

    flow = loss("flow", 60)
    gaps = [abs(loss("gd", n)[:: n // 60] - flow).max() for n in counts]
    assert abs(np.polyfit(np.log(counts), np.log(gaps), 1)[0] + 1) < 0.05
    assert flow[-1] < 0.5 * flow[0]


@pytest.mark.parametrize("init", [0.0, 1e-300])
@pytest.mark.parametrize("path", ["off", "require"])
def test_a_flow_that_does_not_move_is_at_rest(monkeypatch, path, init):
    """Products of weights of 1e-300 are 0 in float64."""
    monkeypatch.setenv("ICLEARN_COMPILED", path)
    trace = run(recipe("separate", "flow", data=None, init=Init(init), steps=300))
    assert trace.status.label == "finished"
    assert "is at rest" in trace.sentence
    np.testing.assert_array_equal(trace.loss, np.full(300, trace.loss[0]))
