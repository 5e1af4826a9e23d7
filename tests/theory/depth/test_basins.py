"""Basins of the minima of two layers of GD++: sharpness by hand, flows, and training on the same loss."""

from __future__ import annotations

import numpy as np
import pytest

import iclearn as icl
from iclearn.theory import depth

HEIGHTS = np.array([0.05750115, 0.08654791, 0.10234491])


def test_minima_are_flat_points_with_the_sharpness_of_finite_differences():
    minima = depth.two_layer_minima(5, 20)
    assert [m.loss for m in minima] == pytest.approx(HEIGHTS, abs=1e-8)

    def loss(p):
        return depth.gdpp_loss(5, 20, p[:2].tolist(), (float(p[0] * p[2]),))

    for minimum in minima:
        p, h = minimum.weights[:3], 1e-4
        eye = h * np.eye(3)
        bend = np.array(
            [[loss(p + a + b) - loss(p + a - b) - loss(p - a + b) + loss(p - a - b) for a in eye] for b in eye]
        )
        values = np.linalg.eigvalsh(bend / (4 * h**2))
        assert values[-1] == pytest.approx(minimum.sharpness, rel=1e-3)
        assert values[0] == pytest.approx(minimum.slowest, rel=1e-2)
        assert loss(p) == pytest.approx(minimum.loss, rel=1e-9)


def test_flows_end_at_minima_and_nothing_else_is_called_one():
    rng = np.random.default_rng(0)
    found = depth.nearest_minimum(depth.flow_losses(5, 20, 0.01 * rng.normal(size=(8, 4))), HEIGHTS)
    assert set(found.tolist()) == {1, 2}, "small weights never lead to the best one"
    assert depth.nearest_minimum(np.array([[0.0575, np.inf], [0.0719, 0.1033]]), HEIGHTS).tolist() == [[0, -1], [-1, 2]]
    with pytest.raises(icl.IclearnError, match=r"\(start, 3 or 4\)"):
        depth.flow_losses(5, 20, np.zeros((2, 2)))


@pytest.mark.slow
def test_slow_gradient_descent_follows_the_flow():
    task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None, covariance=icl.Covariance.white(trace=None))
    model, init = icl.LinearTransformer(layers=2, scalar=True), icl.Init(0.05)
    optimizer = icl.Optimizer("gd", lr=0.0015)
    recipe = icl.Recipe(task=task, model=model, init=init, optimizer=optimizer, steps=30_000)
    seeds = list(range(4))
    ends = icl.sweep(recipe, {"seed": seeds})["final_loss"].values
    drawn = [model.initial(task, init, seed, "float64").weights() for seed in seeds]
    starts = np.array([[*w["a"][:, 0], *w["b"][:, 0]] for w in drawn])
    heights = np.array([m.loss for m in depth.two_layer_minima(2, 8)])
    same = depth.nearest_minimum(depth.flow_losses(2, 8, starts), heights)
    assert depth.nearest_minimum(ends, heights, 0.05).tolist() == same.tolist()
