"""Closed forms against the normal equations on exact moments, the expressions for special cases, and sampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xie_laws import laws, random_law, sample, standard_errors_off

from iclearn.theory.xie2025 import (
    Law,
    gd_step,
    gram_moments,
    lsa_loss,
    minimal_heads,
    normal_equations,
    optimal_weights,
    optimum,
    optimum_coefficients,
    step_matrix,
    yq_optimum,
)


@given(laws(), st.sampled_from([None, 0.5, 2.0]), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_the_closed_form_is_the_optimum_of_the_normal_equations(law, guess_size, seed):
    guess = guess_size and guess_size * np.random.default_rng(seed).standard_normal(law.dim)
    best = optimum(law, guess)
    moments = gram_moments(law)
    solved, coefficients = normal_equations(law, guess)
    assert solved == pytest.approx(best.loss, rel=1e-12)
    assert moments.loss(optimum_coefficients(law, guess)) == pytest.approx(best.loss, rel=1e-12)
    np.testing.assert_allclose(optimum_coefficients(law, guess), coefficients, rtol=1e-7, atol=1e-7)


@given(laws(), st.booleans())
@settings(deadline=None, max_examples=40)
def test_the_optimum_is_attained_by_the_least_number_of_heads(law, right):
    guess = law.mean if right else None
    weights = optimal_weights(law, guess)
    assert len(weights.p) == minimal_heads(law, guess)
    assert len(weights.p) == 1 if right else len(weights.p) in (law.dim, law.dim + 1)
    if not right and law.noise == 0:
        assert len(weights.p) == law.dim
    assert lsa_loss(law, *weights) == pytest.approx(optimum(law, guess).loss, rel=1e-12)


@given(st.integers(1, 30), st.integers(1, 60), st.floats(0, 10), st.floats(0, 10))
@settings(deadline=None, max_examples=50)
def test_white_inputs_and_prior_give_the_short_formulas(dim, context, norm, guess_norm):
    law = Law.isotropic(dim, context, norm)
    direction = np.full(dim, dim**-0.5)
    distance = (norm - guess_norm) ** 2
    gd = dim * (dim + 1) / (context + dim + 1)
    best = optimum(law, guess_norm * direction)
    assert best.step_loss == pytest.approx(gd, rel=1e-12)
    assert best.gap == pytest.approx(2 * distance / (context * dim + 2), rel=1e-12, abs=1e-25)
    step = gd_step(law, guess_norm * direction)
    assert step.step == pytest.approx(context / (context + dim + 1), rel=1e-12)
    assert step.loss == pytest.approx((dim + distance) * (dim + 1) / (context + dim + 1), rel=1e-12)


@given(laws())
@settings(deadline=None, max_examples=30)
def test_any_covariance_gives_the_general_formula(law):
    law = Law(law.mean, law.context_len, law.inputs, law.prior)
    cov, prior, context = law.inputs, law.prior, law.context_len
    sandwich = (1 + 1 / context) * cov @ prior @ cov + np.trace(cov @ prior) * cov / context
    explained = np.trace(cov @ prior @ cov @ np.linalg.inv(sandwich) @ cov @ prior)
    gap = 2 * law.mean @ cov @ law.mean / (context * law.dim + 2)
    assert optimum(law).loss == pytest.approx(np.trace(cov @ prior) - explained + gap, rel=1e-12)


@given(st.integers(1, 12), st.integers(1, 20), st.floats(0.01, 10), st.floats(0, 5))
@settings(deadline=None, max_examples=50)
def test_noise_gives_the_formula_with_a_two_by_two_inverse(dim, context, noise, norm):
    law = Law.isotropic(dim, context, norm, noise)
    c = np.array([dim, dim + noise])
    corner = dim**2 + 2 * dim / context
    gamma = np.array(
        [
            [corner, corner + noise * dim],
            [corner + noise * dim, ((dim + noise) ** 2 + 2 * dim) * (1 + 2 / context)],
        ]
    )
    gap = norm**2 * (1 - c @ np.linalg.solve(gamma, c))
    step = dim * (dim + 1 + noise) / (context + dim + 1 + noise)
    assert optimum(law).step_loss == pytest.approx(step, rel=1e-12)
    assert optimum(law).gap == pytest.approx(gap, rel=1e-9, abs=1e-12)  # the form with an inverse cancels
    assert gd_step(law, law.mean) == pytest.approx((context / (context + dim + 1 + noise), step), rel=1e-12)


@given(laws(), st.floats(-1, 2), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_a_gradient_step_is_the_attention_head_it_can_be_written_as(law, size, seed):
    start = np.random.default_rng(seed).standard_normal(law.dim)
    p = np.append(-start, 1.0)[None]
    lift = np.diag(np.append(np.ones(law.dim), 0.0))[None]
    moments = gram_moments(law)
    assert gd_step(law, start, size).loss == pytest.approx(lsa_loss(moments, p, size * lift, start), rel=1e-11)
    best = gd_step(law, start)
    assert best.loss == pytest.approx(gd_step(law, start, best.step).loss, rel=1e-12)
    assert best.loss <= gd_step(law, start, size).loss * (1 + 1e-12)
    assert best.loss >= optimum(law, start).step_loss * (1 - 1e-12)


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 0), (0.8, 1)])
def test_the_closed_forms_are_what_sampling_gives(noise, seed):
    law = random_law(np.random.default_rng(seed), 3, 5, noise)
    draws = sample(law, 300_000, seed)
    rows, cols = np.triu_indices(4)
    features = np.column_stack([np.ones(len(draws.gram)), draws.gram[:, rows, cols]])

    attended = np.sum((features @ optimum_coefficients(law)) * draws.query, 1)
    assert standard_errors_off(attended, draws.target, optimum(law).loss) < 4

    start = np.array([0.3, -1.0, 0.6])
    step = gd_step(law, start)
    slope = draws.gram[:, :3, 3] - draws.gram[:, :3, :3] @ start
    descended = np.sum((start + step.step * slope) * draws.query, 1)
    assert standard_errors_off(descended, draws.target, step.loss) < 4


def test_the_map_of_the_optimum_is_the_one_written_out():
    law = Law.isotropic(3, 7, 2.0)
    guess = np.array([0.5, -0.2, 0.1])
    draws = sample(law, 50, 0)
    rows, cols = np.triu_indices(4)
    features = np.column_stack([np.ones(50), draws.gram[:, rows, cols]])
    covariance = draws.gram[:, :3, :3]
    traces = np.trace(covariance, axis1=1, axis2=2)[:, None]
    moved = np.einsum("nij,nj->ni", covariance, draws.weights - law.mean)
    expected = guess + 7 / (7 * 3 + 2) * traces * (law.mean - guess) + 7 / 11 * moved
    np.testing.assert_allclose(features @ optimum_coefficients(law, guess), expected, rtol=1e-12, atol=1e-12)


@given(laws(max_dim=4), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_yq_lsa_is_best_at_a_gradient_step_from_the_prior_mean(law, seed):
    p, q, guess = yq_optimum(law)
    lift = np.vstack([np.eye(law.dim), law.mean])
    np.testing.assert_array_equal(guess, law.mean)
    np.testing.assert_allclose(p, np.append(-law.mean, 1)[None], rtol=1e-13)
    stepped = np.vstack([step_matrix(law).T, np.zeros(law.dim)])
    np.testing.assert_allclose(q[0] @ lift, stepped, rtol=1e-12, atol=1e-13)

    moments = gram_moments(law)
    least = optimum(law).step_loss
    assert lsa_loss(moments, p, q, guess) == pytest.approx(least, rel=1e-12)
    rng = np.random.default_rng(seed)
    gauge = q / 3 + np.multiply.outer(rng.standard_normal((1, law.dim + 1)), p[0])
    assert lsa_loss(moments, 3 * p, gauge, guess) == pytest.approx(least, rel=1e-10)
    for size in (1e-3, 0.1, 1.0):  # no other weights do better
        dp, dq, dg = (size * rng.standard_normal(a.shape) for a in (p, q, guess))
        assert lsa_loss(moments, p + dp, q + dq, guess + dg) > least


@pytest.mark.parametrize(("dim", "context"), [(1, 1), (2, 3), (4, 4), (10, 10)])
def test_noise_and_a_large_prior_mean_need_one_head_more(dim, context):
    heads = [minimal_heads(Law.isotropic(dim, context, m, 1.0)) for m in (0.0, 0.1, 1e3)]
    assert heads == [1, dim, dim + 1]
    assert minimal_heads(Law.isotropic(dim, context, 1e3)) == dim
