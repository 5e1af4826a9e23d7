"""Too few heads: a table of known values, the reduction by symmetry, and a search that knows nothing of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from xie_laws import random_covariance

from iclearn.core.errors import IclearnError, MissingClosedForm
from iclearn.theory.xie2025 import Law, best_loss, gram_moments, minimal_heads, optimum, span_loss

TABLE = {
    (3, 1): 7.443263, (3, 2): 6.263769, (3, 3): 5.904267, (3, 4): 5.729552, (3, 5): 5.626048,
    (3, 7): 5.508201, (3, 9): 5.440826, (3, 10): 5.414566, (3, 11): 5.414566, (3, 20): 5.414566,
    (1, 1): 5.482178, (1, 2): 5.352120, (1, 5): 5.281223, (1, 10): 5.257703, (1, 15): 5.257703,
}  # fmt: skip


@pytest.mark.parametrize(("norm", "num_heads"), TABLE)
def test_the_table_to_all_digits(norm, num_heads):
    assert round(best_loss(Law.isotropic(10, 10, norm), num_heads).loss, 6) == TABLE[norm, num_heads]


def written_span(law: Law, kappa: float, num_heads: int) -> np.ndarray:
    """[−κw*; 1] and H−1 directions orthogonal to w*, written out (Λ = I, no guess)."""
    beside = np.linalg.qr(np.column_stack([law.mean, np.eye(law.dim)]))[0][:, 1:num_heads]
    return np.column_stack([np.append(-kappa * law.mean, 1), np.vstack([beside, np.zeros(num_heads - 1)])])


@given(
    st.integers(2, 7),
    st.integers(1, 12),
    st.floats(0.2, 5),
    st.floats(0.3, 3),
    st.sampled_from([0.0, 0.0, 0.5, 3.0]),
    st.data(),
)
@settings(deadline=None, max_examples=25)
def test_sizes_not_listed_agree_with_regression_on_exact_moments(dim, context, norm, scale, noise, data):
    num_heads = data.draw(st.integers(1, dim - 1))
    mean = np.random.default_rng(dim).standard_normal(dim)
    law = Law(mean * norm / np.linalg.norm(mean), context, prior=scale * np.eye(dim), noise=noise)
    found = best_loss(law, num_heads)
    moments = gram_moments(law)

    def loss(kappa: float) -> float:
        return span_loss(moments, written_span(law, kappa, num_heads))

    assert found.kappa is not None
    assert loss(found.kappa) == pytest.approx(found.loss, rel=1e-12)
    others = np.concatenate([found.kappa + np.geomspace(1e-4, 1, 9), found.kappa - np.geomspace(1e-4, 1, 9)])
    assert min(loss(k) for k in [*others, *np.linspace(-5, 5, 41)]) >= found.loss * (1 - 1e-12)


@pytest.mark.parametrize(
    ("dim", "context", "norm", "noise", "num_heads"),
    [(3, 3, 2.0, 0.0, 1), (3, 3, 2.0, 0.0, 2), (4, 4, 1.0, 0.0, 2), (4, 6, 3.0, 0.5, 3), (2, 3, 20.0, 1.0, 2)],
)
def test_no_span_found_by_descent_is_better(dim, context, norm, noise, num_heads):
    law = Law.isotropic(dim, context, norm, noise)
    moments, found = gram_moments(law), best_loss(law, num_heads)
    assert num_heads < minimal_heads(law)
    rng = np.random.default_rng(0)
    first = written_span(law, found.kappa or 0.0, num_heads)

    def loss(span: np.ndarray) -> float:
        return span_loss(moments, span.reshape(dim + 1, num_heads))

    far = [minimize(loss, rng.standard_normal(first.size)).fun for _ in range(3)]
    near = minimize(loss, first.ravel() + 0.1 * rng.standard_normal(first.size)).fun
    assert min([near, *far]) >= found.loss * (1 - 1e-10)
    if noise == 0:  # and descent does find it
        assert min([near, *far]) == pytest.approx(found.loss, rel=1e-7)


@given(st.integers(2, 12), st.integers(1, 12), st.floats(0.1, 10), st.sampled_from([0.0, 1.0]))
@settings(deadline=None, max_examples=20)
def test_each_head_helps_until_there_are_enough(dim, context, norm, noise):
    law = Law.isotropic(dim, context, norm, noise)
    enough = minimal_heads(law)
    losses = np.array([best_loss(law, h).loss for h in range(1, dim + 4)])
    assert np.all(np.diff(losses[:enough]) < 0)
    assert np.all(losses[enough - 1 :] == optimum(law).loss)


def test_one_head_is_enough_for_a_right_guess_and_only_the_distance_counts():
    law = Law(np.array([1.0, -2.0, 0.5]), 4)
    assert best_loss(law, 1, law.mean).loss == optimum(law).step_loss
    guess = np.array([0.5, 0.5, 0.5])
    moved = Law(law.mean - guess, 4)
    assert best_loss(law, 2, guess).loss == pytest.approx(best_loss(moved, 2).loss, rel=1e-12)


def test_whitening_inputs_changes_nothing():
    rng = np.random.default_rng(0)
    cov = random_covariance(rng, 4)
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(values)) @ vectors.T
    mean = rng.standard_normal(4)
    turned = Law(np.linalg.solve(root, mean), 5, cov, 1.5 * np.linalg.inv(cov))
    plain = Law(mean, 5, prior=1.5 * np.eye(4))
    for num_heads in (1, 3, 4):
        assert best_loss(turned, num_heads).loss == pytest.approx(best_loss(plain, num_heads).loss, rel=1e-12)


def test_the_span_of_enough_heads_reaches_the_optimum_for_any_covariance():
    rng = np.random.default_rng(1)
    law = Law(rng.standard_normal(3), 4, random_covariance(rng, 3), random_covariance(rng, 3), 0.3)
    guess = rng.standard_normal(3)
    assert span_loss(law, np.eye(4), guess) == pytest.approx(optimum(law, guess).loss, rel=1e-12)


def test_a_search_that_does_not_apply_is_refused():
    rng = np.random.default_rng(2)
    law = Law(np.ones(3), 4, prior=random_covariance(rng, 3))
    with pytest.raises(MissingClosedForm, match="take at least 3 heads"):
        best_loss(law, 2)
    assert best_loss(law, 3).loss == optimum(law).loss
    with pytest.raises(IclearnError, match="at least 1, not 0"):
        best_loss(law, 0)
