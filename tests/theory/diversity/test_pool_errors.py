"""The isotropic formula of lu2025: numbers of the paper's figures, printed closed forms, limits and edges."""

import json

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.core.errors import IclearnError
from iclearn.theory.diversity import (
    bayes_error,
    best_ridge,
    gap_limit,
    growth_rate,
    joint_gap_limit,
    nonmonotone_edge,
    pool_errors,
    pool_resolvent,
)  # fmt: skip


def points(count: int) -> list[np.ndarray]:
    """α, κ, τ, ρ over the decades of the figures."""
    rng = np.random.default_rng(0)
    ranges = ((-1, 2.5), (-1.2, 1.7), (-1, 1.5), (-3, 0.3))
    return [10 ** rng.uniform(low, high, count) for low, high in ranges]


def test_the_figures_of_the_paper():
    """Fig. 1a, b (κ = .5, ρ = .01) and 1c (ridge, κ = ∞, α = 10), to four digits."""
    tau = [0.2, 0.5, 0.85, 1.15, 1.5, 2]
    found = pool_errors([[1.0], [10.0], [100.0]], 0.5, tau, 0.01)
    icl = [
        [1.0385, 1.2611, 3.1790, 3.6679, 1.6635, 1.2340],
        [0.8643, 0.8208, 2.2279, 2.7748, 1.2236, 0.8912],
        [0.8202, 0.7016, 4.0872, 5.5651, 2.0300, 1.2725],
    ]
    idg = [
        [0.8012, 0.8018, 2.1165, 2.3367, 0.9143, 0.6096],
        [0.5507, 0.2463, 0.4265, 0.4309, 0.1686, 0.1124],
        [0.5047, 0.1221, 0.1201, 0.1150, 0.0450, 0.0300],
    ]
    np.testing.assert_allclose(found.icl, icl, atol=5.1e-5)
    np.testing.assert_allclose(found.idg, idg, atol=5.1e-5)
    ridge = pool_errors(10.0, np.inf, [0.2, 0.5, 0.85, 1, 1.15, 1.5, 2], 0.01, [[0.1], [1.0]])
    rows = [
        [0.8525, 0.6359, 0.4279, 0.3607, 0.3094, 0.2366, 0.1894],
        [0.8509, 0.6652, 0.5440, 0.5116, 0.4865, 0.4456, 0.4109],
    ]
    np.testing.assert_allclose(ridge.icl, rows, atol=5.1e-5)
    np.testing.assert_allclose(ridge.idg, ridge.icl, rtol=1e-12)  # without a pool there is nothing to memorize
    gap = pool_errors([[6.0], [40.0]], [0.2, 0.5, 1, 10, 50], [[1.2], [8.0]], 0.01).gap
    wanted = [[1.774, 1.721, 0.985, 0.0635, 0.0121], [0.868, 0.563, 0.0999, 0.0007, 0.0001]]
    np.testing.assert_allclose(gap, wanted, atol=5.1e-4)


def test_the_closed_forms_that_the_paper_prints():
    alpha, kappa, tau, rho = points(200)
    found, q = pool_errors(alpha, kappa, tau, rho), (1 + rho) / alpha
    more = tau > 1
    moment, _ = pool_resolvent(q, kappa)
    idg = tau * (rho + q - q**2 * moment) / (tau - 1)
    np.testing.assert_allclose(found.idg[more], idg[more], rtol=1e-11)
    mu = q * pool_resolvent(q, kappa / tau)[0]
    icl = tau * (1 + q) / (1 - tau) * (1 - tau * (1 - mu) ** 2 + mu * (rho / q - 1)) - 2 * tau * (1 - mu) + 1 + rho
    np.testing.assert_allclose(found.icl[~more], icl[~more], rtol=1e-11)


def test_the_resolvent_is_that_of_random_pools():
    rng = np.random.default_rng(1)
    for kappa in (0.5, 2.0):
        tasks = rng.standard_normal((int(300 * kappa), 300))
        values = np.linalg.eigvalsh(tasks.T @ tasks / len(tasks))
        moment, slope = pool_resolvent(0.3, kappa)
        assert np.mean(1 / (values + 0.3)) == pytest.approx(float(moment), rel=1e-2)
        assert -np.mean(1 / (values + 0.3) ** 2) == pytest.approx(float(slope), rel=2e-2)


def test_the_effective_ridge_solves_its_equation_and_goes_over_into_none():
    alpha, kappa, tau, rho = points(300)
    lam = 10 ** np.random.default_rng(2).uniform(-5, 1, 300)
    xi = pool_errors(alpha, kappa, tau, rho, lam).effective_ridge
    moment, _ = pool_resolvent((1 + rho) / alpha + xi, kappa)
    np.testing.assert_allclose((tau - 1) * xi + xi**2 * moment, tau * lam, rtol=1e-9)
    far = np.abs(tau - 1) > 0.05
    small, none = (pool_errors(*(p[far] for p in (alpha, kappa, tau, rho)), r) for r in (1e-12, 0.0))
    np.testing.assert_allclose(small.icl, none.icl, rtol=1e-5)


def test_infinite_sizes_are_limits():
    big = 1e8
    for kappa, tau in ((2.0, 3.0), (0.7, 0.5), (0.2, 0.5), (0.5, 3.0)):
        near, at = (pool_errors(a, kappa, tau, 0.5) for a in (big, np.inf))
        assert float(at.idg) == pytest.approx(float(near.idg), rel=1e-5)
        if kappa < min(tau, 1):
            assert np.isinf(at.icl)
        else:
            assert float(at.icl) == pytest.approx(float(near.icl), rel=1e-5)
    for lam in (0.0, 0.3):
        near, at = (pool_errors(2.0, 0.5, t, 0.1, lam) for t in (big, np.inf))
        np.testing.assert_allclose(np.array(at), np.array(near), rtol=1e-6, atol=1e-7)
    near, at = (pool_errors(2.0, k, 0.5, 0.1, 0.3) for k in (big, np.inf))
    np.testing.assert_allclose(np.array(at), np.array(near), rtol=1e-6)
    peak = pool_errors(2.0, 0.5, 1.0, 0.1)
    assert np.isinf(peak.icl)
    assert np.isinf(peak.idg)
    for side in (1 - 1e-6, 1 + 1e-6):  # the errors diverge as 1/|τ − 1|
        near, nearer = (pool_errors(2.0, 0.5, 1 + f * (side - 1), 0.1) for f in (1.0, 0.1))
        assert float(nearer.icl / near.icl) == pytest.approx(10, rel=1e-4)


def test_the_transition_from_memory_to_learning():
    """τ = ∞: the gap is 1 − κ, ½√q, or falls as 1/α²."""
    alpha = 1e5
    found = pool_errors(alpha, [0.5, 1.0, 2.0], np.inf, 0.1).gap
    np.testing.assert_allclose(found, gap_limit(alpha, [0.5, 1.0, 2.0], 0.1), rtol=1e-2)
    joint = pool_errors(alpha, [0.5, 2.0], alpha / 5, 0.1).gap
    np.testing.assert_allclose(joint, joint_gap_limit([0.5, 2.0], 0.1, 5.0, alpha), rtol=1e-3)


def test_long_contexts_hurt_small_pools():
    kappa, tau = np.array([0.5, 0.2, 2.0]), np.array([3.0, 0.5, 3.0])
    found = pool_errors(1e7, kappa, tau, 0.3)
    np.testing.assert_allclose(found.icl / 1e7, growth_rate(kappa, tau, 0.3), rtol=1e-4, atol=1e-6)
    assert float(found.icl[2]) == pytest.approx(0.3 * (1 + 2 / (1 * 2)), rel=1e-5)
    assert float(found.idg[1]) == pytest.approx(0.5 * 0.3 * 0.8 / (0.5 * 0.3), rel=1e-5)


@pytest.mark.parametrize(("tau", "noise", "edge"), [(20, 0.1, 1.186), (20, 0.5, 1.376), (2, 0.5, 2.0), (2, 1, 2.618)])
def test_the_edge_of_the_non_monotone_region(tau, noise, edge):
    """Just inside the edge e_ICL has a minimum in α; just outside it falls to the end."""
    found = nonmonotone_edge(tau, noise)
    assert found == pytest.approx(edge, abs=6e-4)
    alpha = np.geomspace(1, 1e7, 2000)
    inside, outside = (pool_errors(alpha, found * f, tau, noise).icl for f in (0.98, 1.02))
    assert (np.diff(inside) > 0).any()
    assert (np.diff(outside) < 1e-12).all()


def test_new_tasks_want_more_ridge_than_the_pool():
    assert best_ridge(10, 0.5, 2, 0.1, "icl") == pytest.approx((0.342, 0.731), abs=1e-3)
    assert best_ridge(10, 0.5, 2, 0.1, "idg") == pytest.approx((0.161, 0.203), abs=1e-3)
    assert best_ridge(2, np.inf, 2, 0.1, "icl")[0] == pytest.approx(best_ridge(2, np.inf, 2, 0.1, "idg")[0], rel=1e-4)


def test_a_target_without_noise():
    found = pool_errors(2, 2, 3, 0.5, target_noise=0)
    assert (float(found.icl), float(found.idg)) == pytest.approx((0.71875, 0.5625), abs=1e-4)


def test_bayes_is_below_and_is_ridge_regression():
    alpha, kappa, tau, rho = points(300)
    assert (pool_errors(alpha, kappa, tau, rho).icl > bayes_error(alpha, rho)).all()
    x = np.random.default_rng(3).standard_normal((600, 300)) / np.sqrt(300)
    ridge = np.trace(np.linalg.inv(x.T @ x / 0.2 + np.eye(300))) / 300
    assert 0.2 + ridge == pytest.approx(float(bayes_error(2.0, 0.2)), rel=1e-2)


@pytest.mark.parametrize("bad", [(0, 1, 1, 0), (1, -1, 1, 0), (1, 1, np.nan, 0), (1, 1, 1, -0.1), (1, 1, 1, np.inf)])
def test_what_is_outside_is_refused(bad):
    with pytest.raises(IclearnError, match="must be"):
        pool_errors(*bad)


def test_the_command(capsys):
    assert main(["theory", "lu2025", "--kappa", "0.5", "inf", "--tau", "1", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["errors"]
    assert [row["kappa"] for row in rows] == [0.5, 0.5, "inf", "inf"]
    assert rows[0]["icl"] == "inf"
    assert rows[1]["idg"] == pytest.approx(0.60956, abs=1e-5)
    assert main(["theory", "lu2025", "--alpha", "-1"]) == 2
    assert "alpha must be" in capsys.readouterr().err
