"""Bounds on ten thousand random instances at a time, and where they are attained."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.theory.li2024 import (
    LARGEST_CURVATURE,
    data_shift_report,
    gd_shift_bound,
    gd_weights,
    hessian,
    hessian_bound,
    log_paper_constant,
    logit_hessian,
    prediction,
    sharpest_curvature,
    spectral_norm,
    tight_instance,
    tight_step,
    weight_shift_report,
    weight_shift_target,
)

NUM = 10_000
sizes = st.sampled_from([(2, 1), (3, 2), (8, 5)])
scales = st.sampled_from([1e-3, 0.3, 1.0, 3.0, 10.0])


def draw(size: tuple[int, int], scale: float, shift: float, seed: int):
    rng = np.random.default_rng(seed)
    words, dim = size
    data = scale * rng.standard_normal((NUM, words, dim))
    weights, change = rng.standard_normal((2, NUM, dim))
    moved = shift * rng.standard_normal((NUM, words, dim))
    target = rng.dirichlet(np.full(words, 0.3), NUM)
    return tuple(jnp.asarray(a) for a in (data, data + moved, weights, weights + shift * change, target))


@jax.jit
def reports(data, new_data, weights, new_weights):
    by_weight = jax.vmap(weight_shift_report)(data, weights, new_weights)
    return by_weight, jax.vmap(data_shift_report)(data, new_data, weights)


@given(sizes, scales, st.sampled_from([1e-3, 0.1, 1.0, 5.0]), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=8)
def test_shifts_stay_below_the_tight_bound_and_far_below_the_papers(size, scale, shift, seed):
    data, new_data, weights, new_weights, _ = draw(size, scale, shift, seed)
    for report in reports(data, new_data, weights, new_weights):
        assert report.log_measured.shape == (NUM,)
        assert bool(jnp.all(report.log_measured <= report.log_tight + 1e-9))
        assert bool(jnp.all(report.log_tight + 150 < report.log_paper))  # R ≥ 4 makes M ≥ e^160


@jax.jit
def curvatures(data, target, weights):
    norms = jax.vmap(lambda a, b, x: spectral_norm(hessian(a, b, x)))(data, target, weights)
    logits = jax.vmap(lambda a, b, x: spectral_norm(logit_hessian(prediction(a, x), b)))(data, target, weights)
    return norms, jax.vmap(hessian_bound)(data), logits


@given(sizes, scales, st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=6)
def test_curvature_stays_below_its_bound(size, scale, seed):
    data, _, weights, _, target = draw(size, scale, 0.0, seed)
    norms, bounds, logits = curvatures(data, target, weights)
    assert bool(jnp.all(norms <= bounds))
    assert float(logits.max()) <= LARGEST_CURVATURE * (1 + 1e-12)


@jax.jit
def descent_shifts(data, target, weights, lr):
    new_weights = jax.vmap(gd_weights, (0, 0, 0, None))(data, target, weights, lr)
    moved = jax.vmap(weight_shift_target)(data, target, weights, new_weights) - target
    return jnp.linalg.norm(moved, axis=1), jax.vmap(gd_shift_bound, (0, 0, 0, None))(data, target, weights, lr)


@given(sizes, scales, st.sampled_from([1e-3, 1.0, 50.0]), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=6)
def test_the_shift_of_a_gradient_step_stays_below_its_bound(size, scale, lr, seed):
    data, _, weights, _, target = draw(size, scale, 0.0, seed)
    measured, bound = descent_shifts(data, target, weights, lr)
    assert bool(jnp.all(measured <= bound * (1 + 1e-9) + 1e-15))


@pytest.mark.parametrize("radius", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("size", [1e-1, 1e-3])
def test_both_bounds_are_attained_by_small_shifts(radius, size):
    case = tight_instance(radius, size)
    by_weight = weight_shift_report(case.data, case.weights, case.new_weights)
    by_data = data_shift_report(case.zero_data, case.new_data, case.unit)
    expected = np.log(np.tanh(radius * size) / (radius * size))
    for report in (by_weight, by_data):
        assert float(report.log_measured - report.log_tight) == pytest.approx(expected, abs=1e-11)
    assert expected > -(size**2) * radius**2  # so the ratio tends to one


def test_the_largest_curvature_is_attained_by_two_words():
    p = np.linspace(0, 1, 20_001)
    seen = jax.vmap(lambda q: spectral_norm(logit_hessian(jnp.array([q, 1 - q]), jnp.array([0.0, 1.0]))))(p)
    assert float(seen.max()) == pytest.approx(LARGEST_CURVATURE, rel=1e-7)
    assert float(seen.max()) <= LARGEST_CURVATURE * (1 + 1e-14)


@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_the_bound_of_a_gradient_step_is_attained_by_short_steps(radius):
    data, target, weights = tight_step(radius)
    for lr in (1e-1, 1e-3):
        moved = weight_shift_target(data, target, weights, gd_weights(data, target, weights, lr)) - target
        share = float(jnp.linalg.norm(moved) / gd_shift_bound(data, target, weights, lr))
        half = lr * radius**2 / 2
        assert share == pytest.approx(np.tanh(half) / half, rel=1e-11)


@pytest.mark.parametrize("radius", [0.5, 3.0])
def test_the_largest_curvature_is_that_of_a_document(radius):
    data, target, weights = sharpest_curvature(radius)
    norm = float(spectral_norm(hessian(data, target, weights)))
    assert norm == pytest.approx(LARGEST_CURVATURE * 2 * radius**2, rel=1e-12)  # ‖A‖² = 2r²
    assert float(hessian_bound(data)) == pytest.approx(1.25 * 2 * radius**2, rel=1e-14)


def test_the_radius_of_a_data_shift_counts_the_new_data():
    data, weights = jnp.array([[1.0], [-1.0]]), jnp.array([0.1])
    far = 10 * data  # ‖A'‖ = 10√2 > 4
    report = data_shift_report(data, far, weights)
    expected = log_paper_constant(2, 10 * 2**0.5) + np.log(9 * 2**0.5)
    assert float(report.log_paper) == pytest.approx(float(expected), rel=1e-14)


def test_the_radius_of_a_weight_shift_counts_the_new_weights():
    data, weights, far = jnp.array([[1.0], [-1.0]]), jnp.array([0.1]), jnp.array([7.1])
    for one, other in ((weights, far), (far, weights)):
        expected = log_paper_constant(2, 7.1) + np.log(7.0)
        assert float(weight_shift_report(data, one, other).log_paper) == pytest.approx(float(expected), rel=1e-14)


def test_the_papers_constant_is_finite_in_logs():
    assert float(log_paper_constant(200, 4.0)) == pytest.approx(1.5 * np.log(200) + 160)
    assert np.isfinite(float(log_paper_constant(400, 1e3)))
    half_radius = np.log(4.0 / 2)
    assert half_radius < float(log_paper_constant(2, 4.0)) - 160
