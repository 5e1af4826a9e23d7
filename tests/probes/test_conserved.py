"""Conserved quantities are constant along gradient flow: under gradient descent they drift with the step size."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from saddle_runs import train

from iclearn.core.errors import IclearnError
from iclearn.core.status import Status
from iclearn.core.trace import Trace
from iclearn.probes.conserved import (
    conserved,
    drift,
    key_query_conserved,
    merged_conserved,
    network_conserved,
    value_key_conserved,
)
from iclearn.probes.growth import fit_power_law

LRS = np.array([0.02, 0.01, 0.005])


def as_trace(**weights: np.ndarray) -> Trace:
    variables = {
        f"weight_{name}": (("record", *[f"{name}_{i}" for i in range(w.ndim - 1)]), w) for name, w in weights.items()
    }
    data = xr.Dataset({"loss": ("step", np.ones(3)), **variables})
    return Trace(data, Status.FINISHED, 3, {"recipe_hash": "0" * 64})


def test_drift_of_the_separate_model_falls_linearly_with_the_step_size():
    """Over the same flow time; R=2, so that the mixed products k_r·k_s − q_r·q_s are tested too."""
    drifts: dict[str, list[float]] = {"value_key": [], "key_query": []}
    for lr in LRS:
        steps = round(40 / lr)
        run = train(2, dim=4, heads=3, rank=2, init=0.1, lr=float(lr), steps=steps, every=steps // 20)
        assert run.loss[-1] < 0.5 * run.loss[0]  # something was learned
        trace = as_trace(value=run.value[..., None, None], key=run.key, query=run.query)
        for name, quantity in conserved(trace).items():
            drifts[name].append(float(drift(quantity).max()))
    for values in drifts.values():
        law = fit_power_law(LRS, values)
        assert law.slope == pytest.approx(1, abs=0.1)
        assert 0 < values[0] < 0.1


def test_drift_of_the_merged_model_falls_linearly_with_the_step_size():
    """A two-layer linear network on Gaussian features: output weights (head), hidden weights (head, input, entry)."""
    rng = np.random.default_rng(0)
    target, features = rng.normal(size=(3, 3)), rng.normal(size=(40, 3, 3))

    def loss(weights):
        second, first = weights
        matrix = jnp.einsum("h,hij->ij", second, first)
        return jnp.mean(jnp.einsum("nij,ij->n", features, matrix - target) ** 2)

    start = (0.3 * rng.normal(size=5), 0.3 * rng.normal(size=(5, 3, 3)))
    drifts = []
    for lr in LRS:
        step = jax.jit(lambda w, lr=lr: jax.tree.map(lambda a, g: a - lr * g, w, jax.grad(loss)(w)))
        weights = tuple(map(jnp.asarray, start))
        records = [weights]
        for _ in range(round(4 / lr)):
            weights = step(weights)
            records.append(weights)
        value, kq = (np.stack([r[i] for r in records]) for i in range(2))
        quantity = merged_conserved(value, kq)
        assert quantity.shape == (len(records), 5, 5)
        as_network = network_conserved(kq.reshape(len(records), 5, 9), value[:, None, :])
        assert as_network == pytest.approx(quantity)
        assert conserved(as_trace(value=value, kq=kq))["output_hidden"] == pytest.approx(quantity)
        drifts.append(drift(quantity).max())
        assert float(loss(weights)) < 0.1 * float(loss(start))
    assert fit_power_law(LRS, drifts).slope == pytest.approx(1, abs=0.1)


def test_values_by_hand():
    value, key = np.array([2.0, 1.0]), np.array([[[1.0, 1.0]], [[0.0, 3.0]]])
    query = np.array([[[1.0, 0.0]], [[2.0, 0.0]]])
    assert value_key_conserved(value, key).tolist() == [2.0, -8.0]
    assert key_query_conserved(key, query)[:, 0, 0].tolist() == [1.0, 5.0]
    hidden = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, -1.0]]])
    assert merged_conserved(value, hidden).tolist() == [[2.0, 2.0], [2.0, -1.0]]
    assert network_conserved(np.eye(2), np.array([[3.0, 1.0]])).tolist() == [[8.0, 3.0], [3.0, 0.0]]


def test_refusals():
    with pytest.raises(IclearnError, match="share their record and head axes"):
        value_key_conserved(np.ones(3), np.ones((2, 1, 4)))
    with pytest.raises(IclearnError, match="share their record and head axes"):
        merged_conserved(np.ones(3), np.ones((2, 4, 4)))
    with pytest.raises(IclearnError, match="share all axes but the last"):
        key_query_conserved(np.ones((2, 1, 4)), np.ones((2, 2, 4)))
    with pytest.raises(IclearnError, match="do not follow each other"):
        network_conserved(np.ones((3, 4)), np.ones((1, 2)))
    with pytest.raises(IclearnError, match="no conserved quantity is known for weights table"):
        conserved(as_trace(table=np.ones((2, 3))))
    with pytest.raises(IclearnError, match="NaN"):
        drift(np.array([np.nan, 1.0]))


def test_drift_is_the_largest_change_since_the_first_record():
    quantity = np.array([[1.0, -2.0], [1.5, -2.0], [1.0, -5.0], [1.0, -2.0]])
    assert drift(quantity).tolist() == [0.0, 0.5, 3.0, 0.0]
    assert drift(quantity[1:]).tolist() == [0.0, 3.0, 0.5]
