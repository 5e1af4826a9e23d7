"""Predictors compared by predictions, crossings of curves, interior minima, and tasks between tasks."""

import numpy as np
import pytest

import iclearn as icl
from iclearn import probes


def test_a_distance_is_a_mean_over_sequences_and_prefixes_with_its_error():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(4000, 3)), rng.normal(size=(4000, 3))
    found = probes.prediction_distance(first, second, dim=4)
    assert found.mean == pytest.approx(0.5, abs=4 * found.standard_error)
    assert found.standard_error == pytest.approx(0.5 * (2 / 12000) ** 0.5, rel=0.1)
    np.testing.assert_allclose(found.prefixes, ((first - second) ** 2).mean(0) / 4)
    assert probes.prediction_distance(first, first, 4).mean == 0
    with pytest.raises(icl.IclearnError, match="the same sequences"):
        probes.prediction_distance(first, second[:, :2], 4)
    with pytest.raises(icl.IclearnError, match="NaN"):
        probes.prediction_distance(first * np.nan, second, 4)


def test_the_first_crossing_is_interpolated_in_logarithms():
    sizes = np.array([32, 64, 128, 256, 1024])
    short, long = np.array([0.17, 0.06, 0.027, 0.018, 0.0185]), np.array([0.37, 0.15, 0.07, 0.0186, 0.0076])
    found = probes.curve_crossing(sizes, long, short)
    assert found.between == (256, 1024)
    assert 256 < found.at < 1024
    assert found.count == 1
    assert found.falls
    back = probes.curve_crossing(sizes, short, long)
    assert back.at == pytest.approx(found.at)
    assert not back.falls


def test_curves_that_touch_never_or_thrice():
    never = probes.curve_crossing([1, 2, 3], [3, 2, 2], [1, 1, 1])
    assert np.isnan(never.at)
    assert never.count == 0
    touch = probes.curve_crossing([1, 2, 3], [2, 1, 2], [1, 1, 1])
    assert touch.count == 0
    assert probes.curve_crossing([1, 2, 3], [2, 1, 0.5], [1, 1, 1]).at == pytest.approx(3**0.5)
    thrice = probes.curve_crossing([0, 1, 2, 3], [1, -1, 1, -1], np.zeros(4), log=False)
    assert (thrice.count, thrice.at) == (3, 0.5)
    with pytest.raises(icl.IclearnError, match="log=False"):
        probes.curve_crossing([0, 1], [1, -1], [0, 0])
    with pytest.raises(icl.IclearnError, match="must grow"):
        probes.curve_crossing([2, 1], [1, 2], [1, 1])


def test_an_interior_minimum_rises_enough_and_is_not_at_an_end():
    steps = np.arange(1, 6)
    assert probes.interior_minimum(steps, [5, 3, 1, 2, 3]) == probes.InteriorMinimum(3.0, 1.0, 3.0, True)
    assert not probes.interior_minimum(steps, [5, 4, 3, 2, 1]).interior
    assert not probes.interior_minimum(steps, [1, 2, 3, 4, 5]).interior
    assert not probes.interior_minimum(steps, [5, 3, 1, 1.02, 1.05]).interior
    assert probes.interior_minimum(steps, [5, 3, 1, 1.02, 1.05], rise=0.01).interior
    with pytest.raises(icl.IclearnError, match="positive"):
        probes.interior_minimum(steps, [1, 1, 0, 1, 1])


def test_joint_components_are_those_of_all_runs_together():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(7, 7)))[0][:2]
    runs = [rng.normal(size=(n, 2)) * [3.0, 1.0] @ basis + 5.0 for n in (6, 9)]
    found = probes.joint_pca(runs, 2)
    assert [len(scores) for scores in found.scores] == [6, 9]
    assert found.share.sum() == pytest.approx(1.0)
    assert found.share[0] > 0.6
    np.testing.assert_allclose(np.concatenate(found.scores).mean(0), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.project(runs[1]), found.scores[1], atol=1e-12)
    apart = np.linalg.norm(runs[0][0] - runs[1][3])
    assert np.linalg.norm(found.scores[0][0] - found.scores[1][3]) == pytest.approx(apart)
    np.testing.assert_allclose(found.axes @ found.axes.T, np.eye(2), atol=1e-12)
    with pytest.raises(icl.IclearnError, match="no 20 components"):
        probes.joint_pca(runs, 20)
    with pytest.raises(icl.IclearnError, match="the same"):
        probes.joint_pca([np.ones((3, 2))])


def test_tasks_on_a_path_keep_the_mean_norm():
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 5, 8))
    path = probes.interpolated_tasks(first, second, np.linspace(0, 1, 11))
    assert path.shape == (5, 11, 8)
    radius = (np.linalg.norm(first, axis=-1) + np.linalg.norm(second, axis=-1)) / 2
    np.testing.assert_allclose(np.linalg.norm(path, axis=-1), np.broadcast_to(radius[:, None], (5, 11)))
    np.testing.assert_allclose(path[:, -1] / radius[:, None], first / np.linalg.norm(first, axis=-1, keepdims=True))
    half = first + second
    np.testing.assert_allclose(np.einsum("pd,pd->p", path[:, 5], half), radius * np.linalg.norm(half, axis=-1))
    with pytest.raises(icl.IclearnError, match="opposite"):
        probes.interpolated_tasks([1.0, 0.0], [-1.0, 0.0], [0.5])
