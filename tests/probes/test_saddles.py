"""Loss curves of gradient descent against saddle levels; truth is read off the weights, not off the loss."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saddle_runs import Run, linear_spectrum, saddle_levels, time_scales, train

from iclearn.core.errors import IclearnError
from iclearn.probes.alignment import HeadAssignment, assign_heads, learned_strengths
from iclearn.probes.plateaus import find_plateaus
from iclearn.probes.saddle_stays import SaddleMatch, long_stay, match_plateaus, time_between

DIM, CONTEXT, GAIN = 8, 31, 31.0
EIGENVALUES = linear_spectrum(DIM)
LEVELS = saddle_levels(EIGENVALUES, CONTEXT)
SCALES = time_scales(DIM, GAIN)
LEARNED = learned_strengths(EIGENVALUES, CONTEXT, gain=GAIN)


@cache
def run_and_probes(rank: int, seed: int) -> tuple[Run, SaddleMatch, HeadAssignment]:
    """The public code's figure 4 set-up, population loss: D=8, N=31, H=9, init 5e-3, lr 0.02, 60,000 steps."""
    run = train(seed, rank=rank)
    match = match_plateaus(run.loss, LEVELS, SCALES, time=run.time, rank=rank)
    heads = assign_heads(run.value, LEARNED, np.diag(EIGENVALUES), key=run.key, query=run.query, time=run.record_time)
    return run, match, heads


def check(rank: int, seed: int) -> tuple[int, int]:
    """One run; the numbers of plateaus at multiples of R that were left, and that were long."""
    _, match, heads = run_and_probes(rank, seed)
    waits = heads.waits(SCALES)
    # Durations from the loss and from the weights agree up to the drops themselves, a few own time units.
    differences = waits - match.own_times[: waits.size]
    assert ((differences > -1) & (differences < 4)).all()
    # Long only where a head had to escape, and never between multiples of the rank.
    assert set(match.conspicuous) <= set(range(0, DIM, rank))
    assert set(match.conspicuous) <= {*heads.new_heads, match.stopped_at}
    # A multiple of the rank that is short: the next head had escaped together with the one before.
    missing = [s.index for s in match.stays if s.stay == "short" and s.index % rank == 0]
    for m in missing:
        assert waits[m] < match.threshold + 4
    # The levels left are those of the eigenvectors learned.
    assert sum(s.left for s in match.stays) == len(heads.growths)
    assert match.finished == (len(heads.growths) == DIM)
    if not match.finished:
        assert match.stopped_at == len(heads.growths)
        assert match.sentence.startswith("unfinished: stopped on plateau")
    left = [s for s in match.stays if s.left and s.index % rank == 0]
    return len(left), sum(s.stay == "long" for s in left)


@pytest.mark.parametrize("rank", [2, 4, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_long_plateaus_are_at_multiples_of_the_rank(rank, seed):
    check(rank, seed)
    _, match, _ = run_and_probes(rank, seed)
    expected = [m for m in range(0, DIM, rank) if match.stays[m].stay != "not reached"]
    assert match.conspicuous == tuple(expected)


@pytest.mark.slow
def test_long_plateaus_for_every_rank_and_six_seeds():
    """No seed is left out: two heads that escape together have no plateau between them, which happens to some."""
    counts = np.array([check(rank, seed) for rank in range(1, 9) for seed in range(6)])
    left, found = counts.sum(0)
    assert found / left > 0.85
    by_rank = counts.reshape(8, 6, 2).sum(1)
    assert (by_rank[:, 1] / by_rank[:, 0] > 0.5).all()


@pytest.mark.parametrize("rank", [2, 4, 8])
def test_free_detector_finds_the_same_heights(rank):
    """Without knowing the levels: every long plateau is found, at its level."""
    run, match, _ = run_and_probes(rank, 0)
    found = find_plateaus(run.loss, time=run.time, minimum=LEVELS[-1])
    nearest = np.abs(found.heights[:, None] - LEVELS).argmin(1)
    assert set(match.conspicuous) <= set(nearest.tolist())
    gaps = -np.diff(LEVELS)
    assert (np.abs(found.heights - LEVELS[nearest]) < 0.05 * gaps[nearest]).all()
    assert found.unfinished == (not match.finished)


def test_cut_runs_say_where_they_stopped():
    run, whole, heads = run_and_probes(4, 0)
    assert whole.finished
    assert whole.stopped_at == DIM
    on_first, on_fifth = heads.growths[0].time / 2, (heads.growths[3].time + heads.growths[4].time) / 2
    in_drop = heads.growths[4].time
    for moment, stopped in ((on_first, 0), (on_fifth, 4), (in_drop, None)):
        kept = run.time <= moment
        cut = match_plateaus(run.loss[kept], LEVELS, SCALES, time=run.time[kept])
        assert (cut.finished, cut.stopped_at) == (False, stopped)
        assert cut.sentence.startswith("unfinished")
        assert not cut.stays[-1].left


def test_just_arrived_is_undecided():
    run, _, heads = run_and_probes(4, 0)
    kept = run.time <= heads.growths[3].time + 6 * SCALES[3]
    cut = match_plateaus(run.loss[kept], LEVELS, SCALES, time=run.time[kept])
    assert cut.undecided == (4,)
    assert cut.conspicuous == (0,)
    assert [s.stay for s in cut.stays[5:]] == ["not reached"] * 3


@pytest.mark.parametrize("shift", [-0.01, 0.01])
def test_levels_moved_by_a_per_cent(shift):
    """Sampling moves the levels; what is long stays long."""
    run, match, _ = run_and_probes(4, 0)
    moved = match_plateaus(run.loss, LEVELS * (1 + shift), SCALES, time=run.time)
    assert moved.conspicuous == match.conspicuous


def test_sparse_records_give_the_same_durations():
    run, match, _ = run_and_probes(4, 0)
    sparse = match_plateaus(run.loss[::20], LEVELS, SCALES, time=run.time[::20])
    interval = run.time[20] - run.time[0]
    assert (np.abs(sparse.own_times - match.own_times) < interval / SCALES).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rank", [1, 2, 4])
def test_normalized_convention_needs_no_other_threshold(rank, seed):
    """The paper's 1/N: values grow larger, drops are faster in own time, and the threshold follows."""
    eigenvalues = linear_spectrum(4)
    run = train(seed, dim=4, heads=5, rank=rank, init=2e-2, lr=0.2, gain=1.0, steps=40_000)
    match = match_plateaus(run.loss, saddle_levels(eigenvalues, CONTEXT), time_scales(4, 1.0), time=run.time)
    assert match.conspicuous == tuple(range(0, 4, rank))
    assert match.finished


@pytest.mark.parametrize("seed", range(3))
def test_large_initialization_has_no_plateaus(seed):
    run = train(seed, dim=4, heads=5, rank=4, init=0.5, lr=0.2, gain=1.0, steps=2000)
    match = match_plateaus(run.loss, saddle_levels(linear_spectrum(4), 31), time_scales(4, 1.0), time=run.time)
    assert match.conspicuous == ()
    assert match.finished


@pytest.mark.parametrize("rank", [None, 2, 8])
def test_a_long_stay_is_longer_than_the_slowest_new_pair(rank):
    """A pair that starts from v₀/(eD) in a head that has grown to v needs (1 + ln(v D/v₀))/v."""
    start, dim, scale = 5e-3, 8, 0.65
    for value in (0.3, 0.8, 2.0):
        threshold = long_stay(1 / start, value**3 / scale, scale, dim, rank)
        grown = start / (np.e * dim) * np.exp(value * threshold)  # κ̇ = vκ
        assert grown == pytest.approx(value, rel=1e-12)


def test_a_long_stay_takes_at_least_four_e_foldings_and_no_more_where_heads_have_one_pair():
    gap, scale = 0.8**3 / 0.65, 0.65
    assert long_stay(200.0, gap, scale, 8, rank=1) == pytest.approx(4 / 0.8, rel=1e-12)
    assert long_stay(1e-3, gap, scale, 8) == pytest.approx(4 / 0.8, rel=1e-12)


def test_a_stay_as_long_as_the_threshold_is_long():
    time = np.array([0.0, 8.0, 9.0, 20.0])
    loss = np.array([1.0, 1.0, 0.0, 0.0])  # 8 at the level, and a quarter of the fall near it
    for threshold, stay in ((8.25, "long"), (np.nextafter(8.25, 9), "short")):
        match = match_plateaus(loss, [1.0, 0.0], [1.0], time=time, threshold=float(threshold))
        assert match.own_times.tolist() == [8.25]
        assert match.stays[0].stay == stay


@settings(deadline=None, max_examples=50)
@given(
    loss=st.lists(st.floats(0, 1), min_size=2, max_size=20),
    low=st.floats(0, 0.9),
    width=st.floats(0.05, 0.5),
)
def test_time_between_against_dense_sampling(loss, low, width):
    curve = np.array(loss)
    time = np.cumsum(1 + np.arange(curve.size) % 3).astype(float)
    dense = np.linspace(time[0], time[-1], 200_001)
    inside = np.interp(dense, time, curve)
    sampled = np.mean((inside >= low) & (inside <= low + width)) * (time[-1] - time[0])
    assert time_between(curve, time, low, low + width) == pytest.approx(sampled, abs=1e-4 * curve.size * time[-1])


@pytest.mark.parametrize(
    ("levels", "scales", "words"),
    [
        ([1.0, 1.0], [1.0], "each below the one before"),
        ([1.0], [], "at least two"),
        ([1.0, 0.5], [1.0, 1.0], "need 1 positive time scales"),
        ([1.0, 0.5], [-1.0], "positive time scales"),
    ],
)
def test_refusals(levels, scales, words):
    with pytest.raises(IclearnError, match=words):
        match_plateaus(np.ones(10), levels, scales)
