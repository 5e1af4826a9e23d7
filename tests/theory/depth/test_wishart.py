"""Moments of the spectrum: recursion, Pfaffian and zonal polynomials agree as fractions, and quadrature with all."""

import math

import numpy as np
import pytest

from iclearn.tasks.wishart_spectrum import spectral_moments, spectral_quadrature
from iclearn.theory.depth import pfaffian_moments, recursion_moments, sample_spectra, second_layer_loss
from iclearn.theory.depth.spectral import gdpp_residual, nodes_needed
from iclearn.theory.xie2025 import wishart_expectation


@pytest.mark.parametrize(("dim", "context"), [(5, 20), (4, 20), (4, 15), (3, 7), (2, 2), (5, 3), (1, 4), (6, 1)])
def test_three_routes_give_the_same_fractions(dim, context):
    by_recursion = recursion_moments(dim, context, 21)
    assert by_recursion == pfaffian_moments(dim, context, 21)
    assert by_recursion == spectral_moments(dim, context, 21)


def test_moments_are_the_printed_polynomials_and_numbers():
    n, d = 7, 3
    m = recursion_moments(d, n, 5)
    assert m[1] * n == n * d
    assert m[2] * n**2 == n * d * (n + d + 1)
    assert m[3] * n**3 == n * d * (n**2 + d**2 + 3 * n * d + 3 * n + 3 * d + 4)
    cubes = n**3 + d**3 + 6 * n**2 * d + 6 * n * d**2 + 6 * n**2 + 6 * d**2 + 17 * n * d + 21 * n + 21 * d + 20
    assert m[4] * n**4 == n * d * cubes
    printed = [5, 5, 6.5, 10.05, 17.45, 32.9265, 66.2607, 140.62096125, 312.5121615]
    assert [float(v) for v in recursion_moments(5, 20, 9)] == pytest.approx(printed, rel=1e-10)
    assert recursion_moments(5, 20, 61)[60] == spectral_moments(5, 20, 61)[60]


@pytest.mark.parametrize("nodes", [3, 14, 41])
def test_the_quadrature_has_the_moments(nodes):
    rule = spectral_quadrature(5, 20, nodes)
    assert len(rule.nodes) == nodes
    assert (np.diff(rule.nodes) > 0).all()
    assert (rule.weights > 0).all()
    for k, exact in enumerate(spectral_moments(5, 20, 2 * nodes)):
        assert math.isclose(rule.weights @ rule.nodes**k, float(exact), rel_tol=1e-13)


def test_the_quadrature_is_the_polynomial_of_two_layers():
    m = [float(v) for v in recursion_moments(5, 20, 9)]
    rule = spectral_quadrature(5, 20, nodes_needed(2, curvature=True))
    for a1, a2, gamma in [(0.6, 0.9, 0.0), (0.516762, 3.474664, 0.448787), (1.2, 0.3, 0.5)]:
        exact = second_layer_loss(recursion_moments(5, 20, 9), a1, a2, gamma)
        found = rule.weights @ gdpp_residual(rule.nodes, (a1, a2), (gamma,)) ** 2
        assert found == pytest.approx(exact, rel=1e-12)
    assert second_layer_loss(m, 0.6, 0.9, 0.0) == pytest.approx(0.45242, abs=5e-6)


def test_spectra_that_are_drawn_have_the_moments():
    drawn = sample_spectra(5, 20, 40_000)
    for k in (1, 2, 3):
        traces = np.sum(drawn**k, 1)
        error = traces.std() / len(traces) ** 0.5
        assert abs(traces.mean() - float(recursion_moments(5, 20, k + 1)[k])) < 4 * error


def test_smooth_functions_too():
    rule = spectral_quadrature(10, 20, 40)
    found = rule.weights @ (0.15 / (rule.nodes + 0.15))
    assert found == pytest.approx(wishart_expectation(lambda w: 3 / (w + 3), 10, 20), rel=1e-9)
