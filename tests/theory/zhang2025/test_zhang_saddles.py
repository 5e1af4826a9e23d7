"""The 2^D fixed points: losses, weights, vanishing gradients, indices."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import (
    conspicuous_plateaus,
    fixed_point_loss,
    fixed_point_matrix,
    gradient,
    hessian_index,
    landscape,
    learned_components,
    loss_of,
    pcr_matrix,
    realize,
    saddle_index,
    saddle_losses,
    saddle_weights,
    subsets,
)

spectra = st.lists(st.floats(0.05, 2), min_size=1, max_size=4)
contexts = st.integers(1, 60)
gains = st.floats(0.5, 40)


def test_heights_and_weights_of_the_public_spectra_to_all_printed_digits():
    four = saddle_losses([0.1, 0.2, 0.3, 0.4], 31)
    assert four.round(8).tolist() == [1.0, 0.64057971, 0.37737216, 0.2098046, 0.13599507]
    assert saddle_weights([0.4, 0.3, 0.2, 0.1], 31).round(4).tolist() == [1.3097, 1.4301, 1.6120, 1.9470]
    eight = saddle_losses(np.arange(1, 9) / 36, 31)
    assert eight.round(4).tolist() == [1.0, 0.8113, 0.6490, 0.5130, 0.4032, 0.3192, 0.2605, 0.2260, 0.2133]


@given(st.sampled_from([1, 4]), contexts, st.integers(1, 2), gains, st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_every_realized_fixed_point_has_its_loss_and_no_gradient(dim, context_len, rank, gain, seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.uniform(0.05, 2, dim))[::-1]
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    cov = jnp.asarray(basis * values @ basis.T)
    for subset in subsets(dim):
        weights = realize(subset, values, context_len, dim, rank, basis=basis, gain=gain)
        matrix = fixed_point_matrix(subset, values, context_len, basis=basis, gain=gain)
        np.testing.assert_allclose(weights.effective(), matrix, atol=1e-12 * max(1, np.abs(matrix).max()))
        expected = fixed_point_loss(subset, values, context_len)
        realized = loss_of(weights, cov, context_len, gain=gain)
        np.testing.assert_allclose(realized, expected, rtol=1e-10, atol=1e-12)
        slope = ravel_pytree(gradient(weights, cov, context_len, gain=gain))[0]
        assert np.abs(slope).max() < 1e-10


@pytest.mark.parametrize(("num_heads", "rank", "gain"), [(4, 1, 1.0), (3, 2, 31.0), (2, 1, 5.0), (2, 3, 1.0)])
def test_index_formula_counts_the_negative_hessian_eigenvalues(num_heads, rank, gain):
    rng = np.random.default_rng(num_heads)
    for _ in range(4):
        values, context_len = np.exp(rng.normal(size=4)), int(rng.integers(1, 40))
        table = landscape(values, context_len, num_heads, rank, gain=gain)
        assert table.sizes["fixed_point"] == sum(len(s) <= num_heads * rank for s in subsets(4))
        assert float(table["gradient_norm"].max()) < 1e-10
        np.testing.assert_allclose(table["loss_realized"], table["loss"], rtol=1e-10)
        assert table["index"].values.tolist() == table["index_formula"].values.tolist()


def test_index_of_one_fixed_point_is_that_of_its_table_row():
    values = [0.5, 0.3, 0.2]
    weights = realize((1, 2), values, 31, 3)
    assert hessian_index(weights, jnp.diag(jnp.asarray(values)), 31) == saddle_index((1, 2), values) == 2


@pytest.mark.parametrize("values", [[0.4, 0.4, 0.2], [0.5, 0.2, 0.2], [0.3, 0.3, 0.3]])
def test_index_counts_no_exchange_of_equal_eigenvalues(values):
    """Exchanging two eigenvectors of one eigenvalue leaves the loss as it is: a direction of zero curvature."""
    for subset in subsets(3):
        weights = realize(subset, values, 31, 3)
        numerical = hessian_index(weights, jnp.diag(jnp.asarray(values)), 31, tolerance=1e-7)
        assert saddle_index(subset, values) == numerical


@given(st.lists(st.floats(0.05, 2), min_size=2, max_size=6, unique=True))
@settings(max_examples=30, deadline=None)
def test_with_rank_one_only_the_visited_saddles_have_index_zero(values):
    dim = len(values)
    flat = [s for s in subsets(dim) if saddle_index(s, values) == 0]
    assert flat == [tuple(range(m)) for m in range(dim + 1)]


@given(st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_conspicuous_plateaus_are_the_degenerate_saddles(dim, rank):
    values = np.arange(dim, 0, -1.0)
    degenerate = [m for m in range(dim) if saddle_index(range(m), values, rank) == 0]
    assert conspicuous_plateaus(dim, rank) == degenerate


def test_plateaus_of_the_papers_ranks():
    found = {rank: conspicuous_plateaus(8, rank) for rank in (1, 2, 3, 4, 5, 8)}
    assert [len(found[r]) for r in (1, 2, 4, 8)] == [8, 4, 2, 1]
    assert (found[3], found[5]) == ([0, 3, 6], [0, 5])
    assert conspicuous_plateaus(8, 1, num_heads=3) == [0, 1, 2]
    assert learned_components(8, 2, 3) == 6


@given(spectra, contexts, gains, st.sampled_from([0.0, 0.2, 5.0]))
@settings(max_examples=30, deadline=None)
def test_losses_fall_in_order_and_are_those_of_the_pcr_maps(values, context_len, gain, noise):
    cov = np.diag(np.sort(values)[::-1])
    heights = saddle_losses(values, context_len, noise=noise)
    assert (np.diff(heights) < 0).all()
    assert heights[-1] > 0
    for m, height in enumerate(heights):
        # tr Λ − 2g tr(WᵀΛ²) + g² tr(Wᵀ (E[Λ̂²] + σ²Λ/N) W Λ), by hand
        seen = gain * pcr_matrix(m, values, context_len, gain=gain, noise=noise)
        moment = cov @ cov + (cov + (np.trace(cov) + noise) * np.eye(len(cov))) @ cov / context_len
        loss = np.trace(cov) - 2 * np.trace(seen.T @ cov @ cov) + np.trace(seen.T @ moment @ seen @ cov)
        assert loss == pytest.approx(height, rel=1e-10, abs=1e-12)
        assert fixed_point_loss(range(m), values, context_len, noise=noise) == pytest.approx(height, rel=1e-12)
        force = cov @ cov - moment @ seen @ cov
        assert np.abs(np.diagonal(force)[:m]).max(initial=0) < 1e-10, "what is learned is at rest"
    heads = saddle_weights(values, context_len, gain=gain, noise=noise)
    np.testing.assert_allclose(heads**3 * gain, np.diagonal(seen), rtol=1e-10)


def test_one_infinite_context_leaves_no_error():
    assert saddle_losses([0.7, 0.3], np.inf)[-1] == pytest.approx(0, abs=1e-15)


def test_requests_that_do_not_fit_are_refused():
    with pytest.raises(IclearnError, match="2 heads of rank 1 hold at most 2"):
        realize((0, 1, 2), [0.5, 0.3, 0.2], 31, 2)
    with pytest.raises(IclearnError, match=r"eigenvectors 0\.\.2"):
        fixed_point_loss((3,), [0.5, 0.3, 0.2], 31)
    with pytest.raises(IclearnError, match="components must be between 0 and dim = 2"):
        pcr_matrix(3, [0.5, 0.3], 31)
    with pytest.raises(IclearnError, match="context_len must be at least 1"):
        saddle_losses([0.5], 0)
