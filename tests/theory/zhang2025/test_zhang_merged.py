"""Merged attention: its two fixed points, the time course (10) and its generalization, the derived w_init."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import (
    MergedWeights,
    conserved_merged,
    effective_init,
    eigenpairs,
    escape_time,
    gradient,
    gradient_flow,
    hessian_index,
    loss_of,
    merged_course,
    merged_drop_time,
    merged_fixed_points,
    merged_index_at_zero,
    population_loss,
    random_merged,
    saddle_losses,
    typical_effective_init,
    white_course,
    white_drop_time,
)

DIM, HEADS, CONTEXT, GAIN = 3, 4, 31, 31.0
TIMES = np.linspace(0, 1, 201)


def test_optimum_is_the_inverse_of_the_papers_matrix():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(4, 4))
    cov = factor @ factor.T
    values, vectors = eigenpairs(cov)
    expected = np.linalg.inv(cov + (cov + np.trace(cov) * np.eye(4)) / 7) / GAIN
    zero, best = merged_fixed_points(values, 7, basis=vectors, gain=GAIN)
    np.testing.assert_allclose(best, expected, rtol=1e-9)
    assert not zero.any()


def test_both_fixed_points_rest_and_only_zero_is_a_saddle():
    values = [0.5, 0.3, 0.2]
    cov = jnp.diag(jnp.asarray(values))
    best = merged_fixed_points(values, CONTEXT, gain=GAIN)[1]
    shares = np.array([0.1, -0.4, 0.2, 0.7])
    at_best = MergedWeights(jnp.asarray(shares), jnp.asarray(shares[:, None, None] * best.T / (shares**2).sum()))
    at_zero = MergedWeights(jnp.zeros(HEADS), jnp.zeros((HEADS, DIM, DIM)))
    for weights in (at_best, at_zero):
        assert np.abs(ravel_pytree(gradient(weights, cov, CONTEXT, gain=GAIN))[0]).max() < 1e-12
    assert hessian_index(at_zero, cov, CONTEXT, gain=GAIN) == merged_index_at_zero(HEADS) == HEADS
    assert hessian_index(at_best, cov, CONTEXT, gain=GAIN) == 0


@pytest.mark.parametrize(("spectrum", "seed"), [("white", 0), ("white", 1), ("steep", 2), ("flat", 3)])
def test_courses_from_derived_init_follow_the_whole_network(spectrum, seed):
    values = {"white": np.full(3, 0.4), "steep": np.array([0.7, 0.2, 0.1]), "flat": np.array([0.5, 0.45, 0.4])}[
        spectrum
    ]
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    cov = jnp.asarray(basis * values @ basis.T)
    gaps = []
    for init in (1e-2, 1e-4):
        weights = random_merged(DIM, HEADS, init, seed)
        w_init = effective_init(weights, values, basis=basis)
        times = 3 * merged_drop_time(values, CONTEXT, w_init, gain=GAIN) * TIMES
        true = np.asarray(loss_of(gradient_flow(weights, cov, CONTEXT, times, gain=GAIN), cov, CONTEXT, gain=GAIN))
        scale, diagonal = merged_course(times, values, CONTEXT, w_init, gain=GAIN)
        effective = (scale[:, None] * diagonal)[:, :, None] * np.eye(DIM)
        gaps.append(np.abs(population_loss(effective, np.diag(values), CONTEXT, gain=GAIN) - true).max())
        if spectrum == "white":
            formula = white_course(times, values, CONTEXT, w_init, gain=GAIN)
            np.testing.assert_allclose(scale * diagonal[:, 0], formula, rtol=1e-7, atol=1e-12)
    # The theory is the limit of vanishing init: the gap closes at least in proportion to it.
    assert gaps[1] < 1e-3
    assert gaps[1] < 2e-2 * gaps[0]


def test_conserved_matrix_stays_along_the_flow():
    weights = random_merged(DIM, HEADS, 0.3, 5)
    path = gradient_flow(weights, jnp.diag(jnp.array([0.7, 0.2, 0.1])), CONTEXT, 2 * TIMES, gain=GAIN)
    kept = conserved_merged(path)
    assert np.abs(path.effective()[-1] - path.effective()[0]).max() > 1e-2
    np.testing.assert_allclose(kept, np.broadcast_to(kept[0], kept.shape), atol=1e-8)


@given(
    st.integers(1, 6),
    st.floats(0.05, 2),
    st.integers(1, 60),
    st.floats(0.5, 40),
    st.floats(1e-8, 1e-3),
    st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=40, deadline=None)
def test_formula_10_with_gain_and_noise_solves_its_equation(dim, lam, context_len, gain, w_init, noise):
    values, scale = [lam] * dim, {"gain": gain, "noise": noise}
    half = white_drop_time(values, context_len, w_init, **scale)
    sigma = white_course(np.array([0.0, half, 1e3 * half]), values, context_len, w_init, **scale)
    assert sigma[0] * dim**0.5 == pytest.approx(w_init**2, rel=1e-9)
    best = merged_fixed_points(values, context_len, **scale)[1][0, 0]
    assert sigma[2] == pytest.approx(best, rel=1e-12)
    assert (1 - sigma[1] / best) ** 2 == pytest.approx(0.5, rel=1e-8)
    # σ̇ = 2σ√D (gλ² − g²λ³aσ): the slope at the half-way point by central differences
    step = 1e-4 * half
    left, right = white_course(np.array([half - step, half + step]), values, context_len, w_init, **scale)
    rate = 2 * sigma[1] * dim**0.5 * gain * lam**2 * (1 - sigma[1] / best)
    assert (right - left) / (2 * step) == pytest.approx(rate, rel=1e-4)


def test_drop_time_of_any_spectrum_continues_the_white_one():
    white = merged_drop_time([0.25] * 4, 31, 1e-6, gain=GAIN, noise=2.0)
    nearly = merged_drop_time([0.25, 0.25, 0.25, 0.25 + 1e-9], 31, 1e-6, gain=GAIN, noise=2.0)
    assert nearly == pytest.approx(white, rel=1e-7)
    assert merged_drop_time([0.5, 0.2], 31, 1.6) == 0.0


@given(st.lists(st.floats(0.2, 1), min_size=2, max_size=5))
@settings(max_examples=15, deadline=None)
def test_each_factor_of_init_costs_its_logarithm_over_the_norm(values):
    slow, fast = (merged_drop_time(values, 31, w, gain=2.0) for w in (1e-9, 1e-7))
    assert slow - fast == pytest.approx(
        escape_time(values, 1e-9, gain=2.0) - escape_time(values, 1e-7, gain=2.0), rel=1e-6
    )


def test_loss_falls_from_the_first_to_the_last_height():
    values = np.array([0.7, 0.2, 0.1])
    heights = saddle_losses(values, CONTEXT)
    scale, diagonal = merged_course(np.linspace(0, 60, 201), values, CONTEXT, 1e-4, gain=GAIN)
    effective = (scale[:, None] * diagonal)[:, :, None] * np.eye(3)
    loss = np.asarray(population_loss(effective, np.diag(values), CONTEXT, gain=GAIN))
    assert loss[0] == pytest.approx(heights[0], abs=1e-5)
    assert loss[-1] == pytest.approx(heights[-1], abs=1e-9)
    assert (np.diff(loss) < 1e-12).all()


@pytest.mark.parametrize("values", [[0.7, 0.25, 0.05], [0.5, 0.5]])
def test_at_the_drop_time_the_loss_of_the_course_has_done_its_part(values):
    first, *_, last = saddle_losses(values, CONTEXT)
    for fraction in (0.2, 0.5, 0.9):
        time = merged_drop_time(values, CONTEXT, 1e-3, gain=GAIN, fraction=fraction)
        scale, diagonal = merged_course(np.array([time]), values, CONTEXT, 1e-3, gain=GAIN)
        loss = population_loss(np.diag(scale[0] * diagonal[0]), np.diag(values), CONTEXT, gain=GAIN)
        assert (first - float(loss)) / (first - last) == pytest.approx(fraction, rel=1e-5)


def test_typical_init_is_the_mean_square_of_the_derived_one():
    found = [effective_init(random_merged(3, 4, 1e-3, seed), [0.5, 0.3, 0.2]) for seed in range(300)]
    squares = np.square(found)
    assert abs(squares.mean() - typical_effective_init(1e-3, 4) ** 2) < 5 * squares.std() / 300**0.5


def test_formula_10_refuses_spectra_that_are_not_white():
    with pytest.raises(IclearnError, match="needs equal eigenvalues"):
        white_course(np.array([0.0]), [0.5, 0.4], 31, 1e-3)
    with pytest.raises(IclearnError, match="w_init must be positive"):
        white_course(np.array([0.0]), [0.5, 0.5], 31, 0.0)
