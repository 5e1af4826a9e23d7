"""Which head learned what, on weights built by hand and on runs of gradient descent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from saddle_runs import draw, linear_spectrum, time_scales, train
from scipy.stats import ortho_group

import iclearn as icl
from iclearn.core.errors import IclearnError
from iclearn.core.status import Status
from iclearn.core.trace import Trace
from iclearn.probes.alignment import (
    assign_heads,
    contributions,
    effective_rank,
    head_alignment,
    learned_strengths,
)
from iclearn.probes.predictors_match import nearest_predictor
from iclearn.probes.reading import effective_matrices

EIGENVALUES = linear_spectrum(4)
TURN = ortho_group.rvs(4, random_state=3)  # columns: the eigenvectors, largest eigenvalue first
COVARIANCE = TURN * EIGENVALUES @ TURN.T


@pytest.fixture(scope="module")
def rank_one():
    """D=4 from small, well separated initial heads: head d starts along eigenvector d."""
    value, key, query = draw(0, 4, 5, 1, 1e-4)
    value[:4] = key[range(4), 0, range(4)] = query[range(4), 0, range(4)] = 0.02
    run = train(0, dim=4, heads=5, steps=20_000, every=2, weights=(value, key, query))
    return run, run.key @ TURN.T, run.query @ TURN.T


def test_learned_strengths_are_what_training_reaches(rank_one):
    run, key, query = rank_one
    matrix = np.einsum("h,hri,hrj->ij", run.value[-1], key[-1], query[-1])
    expected = TURN * learned_strengths(EIGENVALUES, 31, gain=31.0) @ TURN.T
    assert matrix == pytest.approx(expected, abs=1e-6)


def test_each_head_takes_one_eigenvector_in_order(rank_one):
    run, key, query = rank_one
    learned = learned_strengths(EIGENVALUES, 31, gain=31.0)
    found = assign_heads(run.value, learned, COVARIANCE, key=key, query=query, time=run.record_time)
    assert [g.head for g in found.growths] == [0, 1, 2, 3]
    assert found.in_order
    assert found.unique
    assert found.new_heads == (0, 1, 2, 3)
    assert all(g.cosine > 0.999 and g.share > 0.999 for g in found.growths)
    assert all(g.value_ratio < 0.6 for g in found.growths)
    # A head grows alone by v' = λ² gain v² until it meets its fixed point: time about 1/v₀ in its own scale.
    own = np.array([g.time for g in found.growths]) / time_scales(4, 31.0)
    assert own == pytest.approx(np.full(4, 1 / 0.02), rel=0.1)
    waits = found.waits(time_scales(4, 31.0))
    assert waits[0] == pytest.approx(own[0])
    assert (waits[1:] < own[1:]).all()


def test_alignment_over_records(rank_one):
    run, key, query = rank_one
    aligned = head_alignment(run.value, COVARIANCE, key=key, query=query)
    final = np.abs(aligned.key[-1, :4, 0])
    assert final == pytest.approx(np.eye(4), abs=1e-3)
    assert np.abs(aligned.query[-1, :4, 0]) == pytest.approx(np.eye(4), abs=1e-3)
    assert np.sign(aligned.key[-1, range(4), 0, range(4)]) == pytest.approx(
        np.sign(aligned.query[-1, range(4), 0, range(4)])
    )
    assert np.sum(aligned.key**2, -1) == pytest.approx(1)  # cosines with a whole orthonormal basis
    strongest = aligned.strength[-1, :4, 0]
    assert strongest == pytest.approx(learned_strengths(EIGENVALUES, 31, gain=31.0), rel=1e-4)


def test_new_pairs_in_one_head():
    """Rank 2, one head: the second eigenvector is a new pair, with the value already there."""
    value, key, query = draw(1, 4, 1, 2, 1e-4)
    value[0] = key[0, 0, 0] = query[0, 0, 0] = 0.02
    run = train(0, dim=4, heads=1, rank=2, steps=20_000, every=2, weights=(value, key, query))
    found = assign_heads(
        run.value,
        learned_strengths(EIGENVALUES, 31, gain=31.0),
        np.diag(EIGENVALUES),
        key=run.key,
        query=run.query,
        time=run.record_time,
    )
    assert [(g.eigenvector, g.kind) for g in found.growths] == [(0, "new head"), (1, "new pair")]
    assert found.growths[0].value_ratio < 0.6
    assert found.growths[1].value_ratio > 0.7
    assert all(g.cosine > 0.999 for g in found.growths)
    assert found.unique


def by_hand(final: float, value: float = 1.0, query: float = 0.0):
    """One head of rank 2 that grows along eigenvectors 0 and 1 in ten records; queries are off by an angle."""
    size = np.linspace(0.05, 1, 10)[:, None, None, None] * np.eye(2, 4)[None, None]
    turned = np.eye(2, 4)
    turned[0, [0, 2]] = np.cos(query), np.sin(query)
    values = np.full((10, 1), value)
    return values, final * size / abs(value), np.sign(value) * turned[None, None] * np.ones((10, 1, 1, 1))


@pytest.mark.parametrize(("final", "learned"), [(0.45, 0), (0.55, 2), (0.95, 2)])
def test_half_of_the_way_counts_as_learned(final, learned):
    value, key, query = by_hand(final)
    found = assign_heads(value, np.ones(4), np.diag(EIGENVALUES), key=key, query=query)
    assert len(found.growths) == learned


def test_two_eigenvectors_need_two_pairs():
    value, key, query = by_hand(1.0)
    found = assign_heads(value, np.ones(4), np.diag(EIGENVALUES), key=key, query=query)
    assert (found.rank, found.unique) == (2, True)
    assert not replace(found, rank=1).unique


def test_the_cosine_is_that_of_the_worse_of_key_and_query():
    value, key, query = by_hand(1.0, query=0.3)
    key[:, :, 0] *= 1.5
    for pairs in ({"key": key, "query": query}, {"key": query, "query": key}):
        found = assign_heads(value, np.ones(4), np.diag(EIGENVALUES), **pairs)
        cosines = {growth.eigenvector: growth.cosine for growth in found.growths}
        assert cosines == {0: pytest.approx(np.cos(0.3), rel=1e-9), 1: pytest.approx(1, rel=1e-9)}


def test_strengths_do_not_depend_on_the_sign_of_the_value():
    plain, other = (
        head_alignment(value, np.diag(EIGENVALUES), key=key, query=query)
        for value, key, query in (by_hand(1.0, value=2.0), by_hand(1.0, value=-2.0))
    )
    assert (other.strength > 0).all()
    assert other.strength == pytest.approx(plain.strength)
    assert other.query == pytest.approx(-plain.query), "but queries do"


def test_nothing_learned_yet():
    value, key, query = (a[None] for a in draw(0, 4, 5, 1, 1e-2))
    stack = tuple(np.repeat(a, 2, 0) for a in (value, key, query))
    found = assign_heads(stack[0], np.ones(4), COVARIANCE, key=stack[1], query=stack[2])
    assert found.growths == ()
    assert found.in_order


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), rank=st.integers(1, 3))
def test_mixing_the_pairs_of_a_head_changes_nothing(seed, rank):
    """k → k A, q → q A⁻ᵀ is the same head: alignment must not see it."""
    rng = np.random.default_rng(seed)
    value, key, query = draw(seed, 4, 3, rank, 1.0)
    mix = rng.normal(size=(rank, rank)) + 2 * np.eye(rank)
    mixed = (np.einsum("hri,rs->hsi", key, mix), np.einsum("hri,sr->hsi", query, np.linalg.inv(mix)))
    plain = head_alignment(value, COVARIANCE, key=key, query=query)
    other = head_alignment(value, COVARIANCE, key=mixed[0], query=mixed[1])
    assert other.strength == pytest.approx(plain.strength, rel=1e-6)
    assert np.abs(other.key) == pytest.approx(np.abs(plain.key), abs=1e-5)
    parts = contributions(value, COVARIANCE, key=key, query=query)
    assert contributions(value, COVARIANCE, key=mixed[0], query=mixed[1]) == pytest.approx(parts, abs=1e-9)
    matrix = np.einsum("h,hri,hrj->ij", value, key, query)
    assert parts[0].sum(0) == pytest.approx(np.diag(TURN.T @ matrix @ TURN))


def test_full_model_of_a_trace_is_read_without_its_zero_blocks(rank_one):
    run, key, query = rank_one
    records = run.value.shape[0]
    full_value = np.zeros((records, 5, 1, 5))
    full_value[..., 0, 4] = run.value
    full_value[..., 0, :4] = 7.0  # must not be read
    full_key = np.concatenate([key, np.full((records, 5, 1, 1), 9.0)], -1)
    data = xr.Dataset(
        {
            "loss": ("step", run.loss),
            "time": ("step", run.time),
            "weight_value": (("record", "head", "output", "entry"), full_value),
            "weight_key": (("record", "head", "rank", "entry"), full_key),
            "weight_query": (("record", "head", "rank", "input"), query),
            "covariance": (("input", "key_input"), COVARIANCE),
        },
        coords={"step": np.arange(run.loss.size), "record": np.arange(records) * 2},
    )
    trace = Trace(data, Status.FINISHED, 20_000, {"recipe_hash": "0" * 64})
    learned = learned_strengths(EIGENVALUES, 31, gain=31.0)
    from_trace = assign_heads(trace, learned)
    from_arrays = assign_heads(run.value, learned, COVARIANCE, key=key, query=query, time=run.record_time)
    assert from_trace == from_arrays
    expected = 31 * np.einsum("th,thri,thrj->tij", run.value, key, query)
    assert effective_matrices(trace, gain=31.0) == pytest.approx(expected)


@settings(deadline=None, max_examples=25)
@given(size=st.integers(1, 6), seed=st.integers(0, 1000), scale=st.floats(1e-6, 1e6))
def test_effective_rank(size, seed, scale):
    basis = ortho_group.rvs(6, random_state=seed) if size else np.eye(6)
    equal = scale * basis[:, :size] @ basis[:, :size].T
    assert effective_rank(equal) == pytest.approx(size)
    values = np.random.default_rng(seed).uniform(0.1, 1, 6)
    share = values / values.sum()
    entropy = -np.sum(share * np.log(share))
    assert effective_rank(scale * basis * values) == pytest.approx(np.exp(entropy))


def test_effective_rank_of_nothing():
    assert effective_rank(np.zeros((2, 3, 3))).tolist() == [0, 0]


def test_refusals():
    value, key, query = draw(0, 4, 5, 1, 1.0)
    with pytest.raises(IclearnError, match="do not fit a covariance of dim 3"):
        head_alignment(value, np.eye(3), key=key, query=query)
    with pytest.raises(IclearnError, match="pass covariance="):
        head_alignment(value, key=key, query=query)
    with pytest.raises(IclearnError, match="three arrays"):
        head_alignment(value, np.eye(4))
    with pytest.raises(IclearnError, match="must have shapes"):
        head_alignment(value[:3], np.eye(4), key=key, query=query)
    with pytest.raises(IclearnError, match="4 positive learned strengths"):
        assign_heads(value, [1.0], np.eye(4), key=key, query=query)
    data = xr.Dataset({"loss": ("step", np.ones(3))}, coords={"step": np.arange(3)})
    with pytest.raises(IclearnError, match="recorded no weights value, key, query"):
        head_alignment(Trace(data, Status.FINISHED, 3, {"recipe_hash": "0" * 64}), np.eye(4))


@pytest.mark.parametrize("normalize", ["none", "context", "tokens"])
def test_gain_and_levels_of_a_run_are_its_own(normalize):
    task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    gain = {"none": 8.0, "context": 1.0, "tokens": 8 / 9}[normalize]
    recipe = icl.Recipe(
        task=task, model=icl.Attention("separate", num_heads=3, normalize=normalize), init=icl.Init(0.05),
        optimizer=icl.Optimizer(lr=0.5 / gain), steps=3000,
    )  # fmt: skip
    trace = icl.simulate(recipe)
    learned = learned_strengths(trace)
    values = np.linalg.eigvalsh(trace.data["covariance"].values)[::-1]
    assert learned == pytest.approx(1 / (gain * (values + (values + values.sum()) / 8)))
    assert [g.eigenvector for g in assign_heads(trace).growths] == [0, 1]
    best = effective_matrices(trace)[-1]
    assert np.linalg.eigvalsh(best) == pytest.approx(np.sort(gain * learned), rel=0.01)
    assert nearest_predictor(trace, best[None], 8).distance[-1, 0] == pytest.approx(0, abs=1e-9)
    longer = {"none": 16.0, "context": 1.0, "tokens": 16 / 17}[normalize]
    expected = nearest_predictor(trace, best[None], 16, gain=longer).distance
    np.testing.assert_array_equal(nearest_predictor(trace, best[None], 16).distance, expected)


def test_a_gain_that_is_not_known_is_asked_for():
    for call in (lambda: learned_strengths([0.6, 0.4], 8), lambda: learned_strengths([0.6, 0.4], gain=8.0)):
        with pytest.raises(IclearnError, match=r"pass (gain|context_len)="):
            call()
    with pytest.raises(IclearnError, match="pass learned="):
        assign_heads(np.ones((2, 1)), None, np.eye(2), key=np.ones((2, 1, 1, 2)), query=np.ones((2, 1, 1, 2)))
