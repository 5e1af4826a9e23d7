"""Shifts: the laws of inputs, labels and queries in samples, and what is refused."""

import numpy as np
import pytest

import iclearn as icl
from iclearn.tasks import FunctionClass, Shift, akyurek_shifts, campbell_shifts, garg_shifts, sweep_shifts

DIM, POINTS, COUNT = 4, 4, 2048


def shifted(shift, **fields):
    """Prompts under a shift; not compiled, because shifts have most of their steps in common."""
    task = FunctionClass(dim=DIM, context_len=POINTS - 1, shift=shift, test_prompts=COUNT, **fields)
    return task, task.source(0, "float64", "test").sequences_of(0)


def second_moments(points):
    x = np.asarray(points.x).reshape(-1, DIM)
    return x.T @ x / len(x)


@pytest.mark.parametrize(
    ("shift", "variances"),
    [
        (Shift("half_subspace"), (0, 0, 2, 2)),
        (Shift("condition_number", 100.0), (0.0198, 0.0198, 1.9802, 1.9802)),
        (Shift("skewed"), tuple(sorted(4 / np.arange(1, 5) ** 2 / np.sum(1 / np.arange(1.0, 5) ** 2)))),
    ],
    ids=lambda v: v.label if isinstance(v, Shift) else "",
)
def test_rotated_inputs_keep_their_size(shift, variances):
    task, points = shifted(shift)
    found = second_moments(points)
    np.testing.assert_allclose(np.linalg.eigvalsh(found), variances, atol=0.12)
    np.testing.assert_allclose(np.trace(found), DIM, rtol=0.05)
    transform = np.asarray(task.transform(0, "test"))
    np.testing.assert_allclose(transform @ transform, found, atol=0.12)
    assert abs(transform[0, 1]) > 1e-3  # turned at random


def test_moved_and_heavy_tailed_inputs():
    moved = np.asarray(shifted(Shift("input_mean", 2.0))[1].x)
    assert moved.mean() == pytest.approx(2, abs=0.05)
    x = np.asarray(shifted(Shift("input_tails", 5.0))[1].x)
    assert x.var() == pytest.approx(1, abs=0.1)
    assert np.mean(np.abs(x) > 5) > 20 * 5.7e-7
    with pytest.raises(icl.IclearnError, match="above 2"):
        Shift("input_tails", 2.0)


def test_labels_do_not_see_the_noise_on_inputs():
    _, points = shifted(Shift("input_noise", 0.5))
    clean = np.einsum("bni,bi->bn", points.x, points.parameters["w"])
    assert np.var(clean - np.asarray(points.y[..., 0])) == pytest.approx(0.25 * DIM, rel=0.1)


def test_noise_of_other_laws_has_the_variance():
    for shift, fields, variance in (
        (Shift("noise", 2.0), {}, 4.0), (Shift("noise_tails", 4.0), {"noise": 0.5}, 0.5), (None, {"noise": 0.5}, 0.5),
    ):  # fmt: skip
        _, points = shifted(shift, **fields)
        assert np.var(np.asarray(points.y - points.truth)) == pytest.approx(variance, rel=0.25)


def test_renormalized_labels():
    """64 prompts together; the clean labels have the same factor."""
    _, points = shifted(Shift("noisyLR"))
    groups = np.asarray(points.y).reshape(-1, 64 * POINTS)
    np.testing.assert_allclose(groups.std(1, ddof=1), np.sqrt(DIM), rtol=1e-10)
    ratio = np.asarray(points.truth[..., 0]) / np.einsum("bni,bi->bn", points.x, points.parameters["w"])
    assert ratio.reshape(-1, 64 * POINTS).std(1).max() < 1e-8


def test_queries_of_their_own():
    _, points = shifted(Shift("random_quadrants"))
    signs = np.sign(points.x)
    assert (signs == signs[:, :1]).all()
    assert abs(np.sign(points.query) * signs).mean() == 1
    assert abs((np.sign(points.query) * signs).mean()) < 0.05
    _, points = shifted(Shift("opposite_quadrants"))
    assert (np.sign(points.query) == -np.sign(points.x)).all()
    _, points = shifted(Shift("orthogonal_train_test"))
    for i in range(1, POINTS):
        inner = np.einsum("bnd,bd->bn", points.x[:, :i], points.query[:, i])
        assert np.abs(inner).max() < 1e-9
    np.testing.assert_allclose(np.linalg.norm(points.query, axis=-1), np.linalg.norm(points.x, axis=-1), rtol=1e-9)
    _, points = shifted(Shift("overlapping_train_test"))
    same = np.abs(np.asarray(points.query)[:, :, None] - np.asarray(points.x)[:, None]).sum(-1) == 0
    chosen = np.stack([same[:, i, :i].mean(0) for i in (3,)])
    np.testing.assert_allclose(chosen, 1 / 3, atol=0.05)
    assert same[:, 1, 0].all()
    _, points = shifted(Shift("orthogonal_line"))
    inner = np.einsum("bnd,bmd->bnm", points.x, points.query)
    assert np.abs(inner).max() < 1e-9
    assert np.linalg.matrix_rank(points.query[0]) == 1
    assert float((points.targets() ** 2).mean()) == pytest.approx(1, rel=0.15)  # not d


def test_test_sets_are_paired_and_their_lengths_follow():
    task = FunctionClass(
        dim=2, context_len=3, test_prompts=4, test_shifts=(Shift("scale_y", 2.0), Shift("length", 2.0)),
    )  # fmt: skip
    plain, scaled = (task.source(0, "float64", which).sequences() for which in ("test", "scale_y=2"))
    np.testing.assert_allclose(scaled.y, 2 * plain.y)
    np.testing.assert_array_equal(scaled.x, plain.x)
    assert task.context_lengths("length=2") == range(7, 8)
    assert task.source(0, "float64", "length=2").everything().prompt.x.shape == (4, 7, 2)
    with pytest.raises(icl.IclearnError, match="there is no"):
        task.source(0, "float64", "skewed")


def test_lists_of_shifts():
    names = [shift.label for shift in garg_shifts()]
    assert len(names) == 15
    assert "scale_x=0.333" in names
    everything = {*garg_shifts(), *akyurek_shifts(20), *campbell_shifts(), *sweep_shifts()}
    for shift in everything:
        assert Shift.from_json(shift.to_json()) == shift
        FunctionClass(dim=20, shift=shift)
    assert len({shift.hash for shift in everything}) == len({shift.label for shift in everything})


@pytest.mark.parametrize(
    ("name", "amount", "word"),
    [("skewed", 2.0, "no amount"), ("scale_x", None, "needs an amount"), 
     ("condition_number", 0.5, "above 1")],
)  # fmt: skip
def test_impossible_shifts_are_refused(name, amount, word):
    with pytest.raises(icl.IclearnError, match=word):
        Shift(name, amount)
    with pytest.raises(icl.IclearnError, match="one of"):
        Shift.from_dict({"name": "wider"})
