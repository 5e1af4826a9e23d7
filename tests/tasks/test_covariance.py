"""Covariances: every named spectrum against its formula, trace, rotation, and what is refused."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.core.rng import stream
from iclearn.tasks import Covariance, LinearRegression

KEY = stream(0, "covariance")
MATRIX = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 3.0]]
SPECTRA = [
    (Covariance.linear(), 4, [0.4, 0.3, 0.2, 0.1]),
    (Covariance.linear(trace=None), 3, [3, 2, 1]),
    (Covariance.linear(trace=12.0), 3, [6, 4, 2]),
    (Covariance.white(), 5, [0.2] * 5),
    (Covariance.white(trace=None), 2, [1, 1]),
    (Covariance.power(2.0, trace=None), 4, [1, 1 / 4, 1 / 9, 1 / 16]),
    (Covariance.power(1.0), 2, [2 / 3, 1 / 3]),
    (Covariance.power(-1.0, trace=None), 3, [3, 2, 1]),
    (Covariance.two_level(1, 5.0, trace=None), 3, [5, 1, 1]),
    (Covariance.two_level(2, 4.0), 3, [4 / 9, 4 / 9, 1 / 9]),
    (Covariance.two_level(2, 0.5, trace=None), 3, [1, 0.5, 0.5]),
    (Covariance.spiked(9.0, trace=None), 3, [10, 1, 1]),
    (Covariance.spiked(2.0), 2, [0.75, 0.25]),
    (Covariance.eigenvalues([1.0, 3.0, 2.0]), 3, [3, 2, 1]),
    (Covariance.eigenvalues([1.0, 3.0], trace=1.0), 2, [0.75, 0.25]),
    (Covariance.matrix([[2.0, 1.0], [1.0, 2.0]]), 2, [3, 1]),
    (Covariance.matrix([[2.0, 1.0], [1.0, 2.0]], trace=1.0), 2, [0.75, 0.25]),
]


@pytest.mark.parametrize(("covariance", "dim", "expected"), SPECTRA)
def test_eigenvalues_in_decreasing_order(covariance, dim, expected):
    np.testing.assert_allclose(covariance.values(dim), expected, rtol=1e-14)


@pytest.mark.parametrize(("covariance", "dim", "expected"), SPECTRA)
def test_the_factor_gives_that_spectrum(covariance, dim, expected):
    """Λ = AAᵀ has these eigenvalues, and the columns of A are its eigenvectors in the same order."""
    factor = np.asarray(covariance.factor(dim, KEY))
    np.testing.assert_allclose(np.linalg.eigvalsh(factor @ factor.T)[::-1], expected, rtol=1e-12)
    np.testing.assert_allclose(factor.T @ factor, np.diag(expected), atol=1e-13)


def test_rotation_is_there_when_asked_for():
    turned = np.asarray(Covariance.linear().factor(4, KEY))
    straight = np.asarray(Covariance.linear(rotate=False).factor(4, KEY))
    np.testing.assert_allclose(straight, np.diag(np.sqrt([0.4, 0.3, 0.2, 0.1])), rtol=1e-15)
    assert np.abs((turned @ turned.T)[np.triu_indices(4, 1)]).max() > 1e-3
    other = np.asarray(Covariance.linear().factor(4, stream(1, "covariance")))
    assert np.abs(turned - other).max() > 1e-3, "another seed turns it otherwise"


def test_a_matrix_is_taken_as_it_is():
    covariance = Covariance.matrix(MATRIX)
    factor = np.asarray(covariance.factor(3, KEY))
    np.testing.assert_allclose(factor @ factor.T, MATRIX, atol=1e-14)
    task = LinearRegression(dim=3, covariance=covariance)
    np.testing.assert_allclose(task.covariance_matrix(5), MATRIX, atol=1e-14)
    doubled = LinearRegression(dim=3, covariance=Covariance.matrix(MATRIX, trace=12.0))
    np.testing.assert_allclose(doubled.covariance_matrix(5), 2 * np.array(MATRIX), atol=1e-14)


@pytest.mark.parametrize(("covariance", "dim", "expected"), SPECTRA)
def test_a_traced_trace_gives_the_same_factor(covariance, dim, expected):
    """As in a batch of runs that differ in the trace: eigenvectors stay, also those of a given matrix."""
    wanted = covariance.replace(trace=7.0).factor(dim, KEY)
    traced = jax.jit(lambda trace: covariance.unchecked(trace=trace).factor(dim, KEY))(7.0)
    np.testing.assert_allclose(traced, wanted, rtol=1e-13, atol=1e-13)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=7), st.none() | st.floats(1e-3, 1e3))
def test_any_positive_spectrum_is_kept_up_to_its_trace(values, trace):
    got = Covariance.eigenvalues(values, trace=trace).values(len(values))
    expected = np.sort(values)[::-1]
    if trace is not None:
        np.testing.assert_allclose(got.sum(), trace, rtol=1e-12)
        expected = expected * (trace / expected.sum())
    np.testing.assert_allclose(got, expected, rtol=1e-12)


REFUSED = [
    (lambda: Covariance.linear(trace=0.0), "the trace must be positive, not 0.0"),
    (lambda: Covariance("power"), "covariance power takes 1 parameters, not 0"),
    (lambda: Covariance("linear", (1.0,)), "covariance linear takes 0 parameters, not 1"),
    (lambda: Covariance("two_level", (1.5, 2.0)), "two_level needs a whole number of large eigenvalues, not 1.5"),
    (lambda: Covariance.two_level(3, 2.0).values(3), "two_level needs between 1 and 2 large eigenvalues, not 3"),
    (lambda: Covariance.two_level(0, 2.0).values(3), "two_level needs between 1 and 2 large eigenvalues, not 0"),
    (lambda: Covariance.spiked(-1.0).values(2), "eigenvalues must be positive, not [0.0, 1.0]"),
    (lambda: Covariance.eigenvalues([1.0, -1.0]).values(2), "eigenvalues must be positive, not [1.0, -1.0]"),
    (
        lambda: Covariance.eigenvalues([1.0, np.nan]).values(2),
        "covariance parameters must be a tuple, each entry of which is a finite number, not nan at index 1",
    ),
    (lambda: Covariance.eigenvalues([1.0, 2.0]).values(3), "2 eigenvalues were given for dim 3"),
    (
        lambda: Covariance.eigenvalues([1e308, 1e308]).values(2),
        "the sum of the eigenvalues must be at most 5.64e+102; the largest is 1e+308",
    ),
    (lambda: Covariance.matrix([[1.0, 2.0], [2.0, 1.0]]).values(2), "eigenvalues must be positive, not [-1.0, 3.0]"),
    (
        lambda: Covariance.matrix([[1.0, 2.0], [0.0, 1.0]]),
        "a covariance matrix must be square and symmetric, not of shape (2, 2)",
    ),
    (
        lambda: Covariance.matrix(np.ones((2, 3))),
        "a covariance matrix must be square and symmetric, not of shape (2, 3)",
    ),
    (lambda: Covariance.matrix(np.eye(2)).values(3), "a covariance matrix of 4 entries does not fit dim 3"),
    (lambda: LinearRegression(dim=3, covariance=Covariance.eigenvalues([1.0])), "1 eigenvalues were given for dim 3"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[m[:45] for _, m in REFUSED])
def test_refused_with_one_line(make, message):
    with pytest.raises(IclearnError) as caught:
        make()
    assert str(caught.value) == message
