"""Curvature along a run, heads taken out, weights grafted: against the theory's Hessian and losses, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import iclearn as icl
from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import eigenpairs, gain_of, hessian_spectrum, read_weights, saddle_losses

TASK = icl.LinearRegression(
    dim=2, context_len=8, num_prompts=None, covariance=icl.Covariance.eigenvalues([0.7, 0.3], rotate=False)
)


@pytest.fixture(scope="module")
def trace() -> icl.Trace:
    model = icl.Attention("separate_reduced", num_heads=2)
    return icl.simulate(
        icl.Recipe(task=TASK, model=model, init=icl.Init(0.003), optimizer=icl.Optimizer(lr=0.02), steps=40_000, seed=1)
    )


@pytest.fixture(scope="module")
def loss(trace) -> icl.TrainingLoss:
    return icl.TrainingLoss(trace.recipe)


def test_spectra_are_those_of_the_theory(trace, loss):
    """Two derivations of one Hessian: automatic differentiation of the engine's loss, and of the theory's."""
    found = icl.probes.curvature(trace, loss, points=4)
    covariance = np.asarray(TASK.covariance_matrix(1))
    assert found["eigenvalue"].sizes == {"record": 4, "mode": 10}
    for number, step in enumerate(found["record"].values):
        index = int(np.argmin(np.abs(trace.data["record"].values - step)))
        expected = hessian_spectrum(read_weights(trace.weights(index)), covariance, 8, gain=gain_of("none", 8))
        np.testing.assert_allclose(np.sort(expected), found["eigenvalue"][number], rtol=1e-6, atol=1e-7)
    assert float(found["stability"][-1]) == pytest.approx(0.01 * float(found["eigenvalue"][-1, -1]))
    assert int(found["negative"][0]) > int(found["negative"][-1]) == 0
    assert (found["noise_scale"] == 0).all()
    assert found["gradient_norm"][-1] < found["gradient_norm"].max()


def test_the_noise_of_the_gradient_falls_as_one_over_the_batch():
    scales = []
    for batch in (20, 200):
        optimizer = icl.Optimizer("sgd", lr=0.01, batch_size=batch)
        model = icl.Attention("merged_reduced")
        recipe = icl.Recipe(task=TASK, model=model, init=icl.Init(0.3), optimizer=optimizer, steps=2)
        run = icl.simulate(recipe)
        found = icl.probes.curvature(run, icl.TrainingLoss(recipe), points=1, draws=100)
        scales.append(float(found["noise_scale"][0]))
    assert scales[0] / scales[1] == pytest.approx(10, rel=0.35)


def test_each_head_that_learned_an_eigenvector_is_missed(trace, loss):
    """Without one of the two heads the loss is that of the saddle at which only the other's eigenvector is known."""
    found = icl.probes.head_ablation(trace, loss)
    heights = np.asarray(saddle_losses(eigenpairs(np.asarray(TASK.covariance_matrix(1)))[0], 8))
    assert float(found["none"]) == pytest.approx(heights[0])
    assert float(found["loss"]) == pytest.approx(heights[2], rel=1e-2)
    assert float(found["without"].min()) == pytest.approx(heights[1], rel=2e-2)
    np.testing.assert_allclose(found["alone"].values, found["without"].values[::-1], rtol=1e-12)


def test_grafts_from_the_same_moment_change_nothing(trace, loss):
    same = icl.probes.graft(trace, loss, ["value"], donor=40_000)
    assert same["graft"] == same["host"] == same["donor"]
    old = icl.probes.graft(trace, loss, ["key", "query", "value"], donor=0)
    assert old["graft"] == old["donor"] != old["host"]


def test_what_cannot_be_is_refused(trace, loss):
    with pytest.raises(IclearnError, match="the model's weights are value, key, query, not nonsense"):
        icl.probes.graft(trace, loss, ["nonsense"], donor=0)
    task = icl.LinearRegression(dim=40, num_prompts=None)
    large = icl.Recipe(task=task, model=icl.Attention("merged_reduced", num_heads=2), steps=1)
    with pytest.raises(IclearnError, match="the whole Hessian is taken of at most 3000"):
        icl.probes.curvature(icl.simulate(large), icl.TrainingLoss(large))
