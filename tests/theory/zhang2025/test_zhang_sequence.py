"""Drop times from the initial weights, against the gradient flow of all weights."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from iclearn.core.errors import IclearnError
from iclearn.theory.zhang2025 import (
    SeparateWeights,
    SmallHead,
    conserved_separate,
    drop_sequence,
    drop_sequences,
    effective_head_scale,
    fixed_point_weights,
    fixed_value,
    gradient_flow,
    loss_of,
    loss_of_progress,
    plateau_duration,
    progress,
    random_separate,
    saddle_losses,
    typical_sequence,
    weights_of_progress,
)

GAIN = 31.0


def measured_drops(weights, values, context_len, expected):
    """When the flow's loss crosses the middle between saddles; dense in time around where that is expected."""
    cov = jnp.diag(jnp.asarray(values))
    around = [np.linspace(0.8 * t, 1.2 * t, 501) for t in expected]  # a point of them is t itself
    times = np.sort(np.concatenate([np.linspace(0, 1.3 * expected[-1], 498), *around]))
    path = gradient_flow(weights, cov, context_len, times, gain=GAIN)
    loss = np.asarray(loss_of(path, cov, context_len, gain=GAIN))
    heights = saddle_losses(values, context_len)
    after = [int(np.argmax(loss < level)) for level in (heights[1:] + heights[:-1]) / 2]
    crossed = [
        np.interp(-level, -loss[i - 1 : i + 1], times[i - 1 : i + 1])
        for i, level in zip(after, (heights[1:] + heights[:-1]) / 2, strict=True)
    ]
    return np.array(crossed), path


@pytest.mark.parametrize("rank", [1, 2])
def test_drop_times_and_heads_are_those_of_the_flow(rank):
    worst = {}
    for init in (3e-2, 3e-3):
        gaps = []
        for seed in range(3):
            rng = np.random.default_rng(seed)
            values, context_len = np.array([0.5, 0.3, 0.2]) * rng.uniform(0.8, 1.2, 3), int(rng.integers(5, 40))
            weights = random_separate(3, 3, rank, init * GAIN ** (-1 / 3), seed)
            drops = drop_sequence(weights, values, context_len, gain=GAIN)
            expected = np.array([drop.time for drop in drops])
            found, path = measured_drops(weights, values, context_len, expected)
            gaps.append(np.abs(expected / found - 1))
            grown = {drop.head for drop in drops}
            final = np.asarray(path.value[-1])
            assert set(np.argsort(-np.abs(final))[: len(grown)]) == grown
            assert all(np.sign(final[drop.head]) == drop.sign for drop in drops)
        worst[init] = np.max(gaps, axis=0)
    # Leading order in small weights: the error falls with init, and the first drop is all but exact.
    assert worst[3e-3][0] < 1e-6
    assert worst[3e-3].max() < 5e-3
    assert worst[3e-3].max() < 0.15 * worst[3e-2].max()


@pytest.mark.parametrize("seed", range(2))
def test_waits_for_the_pairs_of_a_grown_head_are_those_of_the_flow(seed):
    """One head of rank 3: after its own drop it learns two eigenvectors more, each by a new pair.

    Waits are read off the weights, half way of each eigenvector. The first is known up to the decay of the modes that
    do not grow; the second lacks what the first pair takes away from it while it grows.
    """
    values, context_len, half = np.array([0.5, 0.3, 0.2]), 20, 1 - 0.5**0.5
    weights = random_separate(3, 1, 3, 1e-3, seed)
    drops = drop_sequence(weights, values, context_len)
    assert [drop.new_head for drop in drops] == [True, False, False]
    expected = np.array([drop.time for drop in drops])
    times = np.linspace(expected[0] - 20, expected[-1] + 20, 2001)
    path = gradient_flow(weights, np.diag(values), context_len, times, rtol=1e-11, atol=1e-16)
    learned = np.einsum("tii->ti", np.asarray(path.effective())) / fixed_point_weights(range(3), values, context_len)
    found = np.array([np.interp(half, learned[:, d], times) for d in range(3)])
    ratio = np.diff(found) / np.diff(expected)
    assert ratio[0] == pytest.approx(1, abs=1e-3)
    assert ratio[1] == pytest.approx(1, abs=1.5e-2)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_a_small_head_blows_up_when_its_cubic_flow_does(seed, dim, rank):
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.1, 2, dim)
    value, key, query = rng.normal(), rng.normal(size=(rank, dim)), rng.normal(size=(rank, dim))
    end, sign = SmallHead.from_weights(value, key, query).blow_up(rates)

    def cubic(_, state):
        v, k, q = state[0], state[1 : 1 + key.size].reshape(rank, dim), state[1 + key.size :].reshape(rank, dim)
        return np.concatenate([[(rates * k * q).sum()], (v * rates * q).ravel(), (v * rates * k).ravel()])

    start = np.concatenate([[value], key.ravel(), query.ravel()])
    path = solve_ivp(cubic, (0, 0.99 * end), start, "DOP853", rtol=1e-10, atol=1e-12)
    assert path.status == 0
    v, speed = path.y[0, -1], cubic(0, path.y[:, -1])[0]
    # Close to the end v = 1/(c (t_b − t)), so that v/v̇ is the time left; other directions have not quite died out.
    assert np.sign(v) == sign
    assert v / speed == pytest.approx(0.01 * end, rel=0.3)
    later = SmallHead.from_weights(value, key, query).after(0.6 * end, rates)
    assert later.blow_up(rates)[0] == pytest.approx(0.4 * end, rel=1e-6)
    assert later.blow_up(rates)[1] == sign


def test_scale_of_aligned_heads_is_their_value_whatever_the_signs():
    rates = np.array([2.0, 1.0])
    pair = np.array([[0.03, 0.0]])
    for value, key, query in [(0.03, pair, pair), (0.03, -pair, -pair), (-0.03, pair, -pair)]:
        assert effective_head_scale(value, key, query, rates) == pytest.approx(0.03, rel=1e-7)


def test_heads_without_a_growing_part_stay():
    still = SmallHead.from_weights(0.0, np.zeros((1, 2)), np.array([[0.1, 0.1]]))
    assert still.blow_up(np.array([2.0, 1.0]))[0] == np.inf
    assert SmallHead.from_weights(0.0, np.zeros((1, 2)), np.zeros((1, 2))).blow_up(np.ones(2))[0] == np.inf
    nothing = SeparateWeights(jnp.zeros(2), jnp.zeros((2, 1, 2)), jnp.zeros((2, 1, 2)))
    with pytest.raises(IclearnError, match="no head leaves zero"):
        drop_sequence(nothing, [0.6, 0.4], 31)


def test_sequences_do_not_depend_on_the_frame():
    values, weights = [0.5, 0.3, 0.2], random_separate(3, 4, 1, 1e-3, 7)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turned = weights.rotated(jnp.asarray(basis.T))
    plain = drop_sequence(weights, values, 31, gain=GAIN)
    other = drop_sequence(turned, values, 31, basis=basis, gain=GAIN)
    assert [d.head for d in plain] == [d.head for d in other]
    np.testing.assert_allclose([d.time for d in plain], [d.time for d in other], rtol=1e-6)


@pytest.mark.parametrize("rank", [1, 3])
def test_many_runs_are_each_as_alone(rank):
    """Different spectra, and weights from small to so large that some drops come at once."""
    rng = np.random.default_rng(rank)
    alone = [random_separate(4, 3, rank, init, seed) for init in (1e-3, 0.1, 1.0) for seed in range(3)]
    values = np.sort(rng.uniform(0.1, 1, (len(alone), 4)))[:, ::-1]
    together: SeparateWeights = jax.tree.map(lambda *parts: jnp.stack(parts), *alone)
    many, times = drop_sequences(together, values, 31, gain=GAIN), np.linspace(0, 3, 40)
    done = progress(times, many, values, 31, gain=GAIN)
    for run, weights in enumerate(alone):
        one = drop_sequence(weights, values[run], 31, gain=GAIN)
        for ours, theirs in zip(many.of(run), one, strict=True):
            assert (ours.head, ours.new_head, ours.sign) == (theirs.head, theirs.new_head, theirs.sign)
            assert ours.time == pytest.approx(theirs.time, rel=1e-12)
            assert (ours.v_0, ours.limit, ours.rate) == pytest.approx(
                (theirs.v_0, theirs.limit, theirs.rate), rel=1e-12
            )
        own = progress(times, one, values[run], 31, gain=GAIN)
        np.testing.assert_allclose(done[run], own, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            loss_of_progress(done, values, 31)[run], loss_of_progress(own, values[run], 31), rtol=1e-9
        )
    with pytest.raises(IclearnError, match="2 spectra were given for 9 runs"):
        drop_sequences(together, values[:2], 31)


def test_few_heads_learn_few_eigenvectors():
    values = [0.5, 0.3, 0.2]
    assert len(drop_sequence(random_separate(3, 2, 1, 1e-3, 0), values, 31)) == 2
    drops = typical_sequence(values, 31, 1e-3, num_heads=1, rank=2)
    assert [d.new_head for d in drops] == [True, False]
    done = progress(np.array([1e9]), drops, values, 31)
    assert loss_of_progress(done, values, 31)[0] == pytest.approx(saddle_losses(values, 31)[2], rel=1e-9)


@given(
    st.lists(st.floats(0.1, 1), min_size=1, max_size=5),
    st.integers(1, 40),
    st.floats(0.5, 40),
    st.integers(1, 3),
    st.floats(-8, -3),
)
@settings(max_examples=30, deadline=None)
def test_typical_plateaus_add_up_and_only_new_heads_wait_long(values, context_len, gain, rank, exponent):
    values = np.sort(values)[::-1]
    v_star = fixed_value(values, values.sum(), context_len, gain=gain)
    v_0 = 10**exponent * float(np.min(v_star))
    drops = typical_sequence(values, context_len, v_0, num_heads=len(values), rank=rank, gain=gain)
    assert [d.component for d in drops if d.new_head] == list(range(0, len(values), rank))
    starts = np.array([d.start for d in drops])
    spans = np.diff(starts)
    for drop, span in zip(drops, spans, strict=False):
        if drop.new_head:  # 1/(gλ²v_0) less the unit of the drop
            lam = values[drop.component]
            assert span == pytest.approx(plateau_duration(lam, v_0, gain=gain) - 1 / drop.rate, rel=1e-9)
        else:  # exponential growth from no less than v_0
            assert span <= np.log(drop.limit / v_0) / drop.rate * (1 + 1e-9)
    assert (np.array([d.time for d in drops]) >= starts).all()


@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_half_of_each_drop_is_done_at_its_time_and_weights_carry_the_loss(noise):
    values, context_len = np.array([0.5, 0.3, 0.2]), 31
    scale = {"gain": GAIN, "noise": noise}
    drops = typical_sequence(values, context_len, 1e-3, num_heads=2, rank=2, **scale)
    times = np.array([drop.time for drop in drops])
    done = progress(times, drops, values, context_len, **scale)
    np.testing.assert_allclose((1 - np.diagonal(done)) ** 2, 0.5, rtol=1e-9)
    weights = weights_of_progress(done, drops, values, context_len, num_heads=2, rank=2, **scale)
    realized = loss_of(weights, np.diag(values), context_len, **scale)
    np.testing.assert_allclose(loss_of_progress(done, values, context_len, noise=noise), realized, rtol=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_balanced_weights_have_the_progress_whatever_the_sign_of_the_value(sign):
    values = np.array([0.5, 0.3, 0.2])
    drops = [replace(drop, sign=sign) for drop in typical_sequence(values, 31, 1e-3, num_heads=2, rank=2)]
    done = np.array([[0.9, 0.4, 0.2]])
    weights = weights_of_progress(done, drops, values, 31, num_heads=2, rank=2)
    assert (np.sign(weights.value) == sign).all()
    wanted = np.diag(done[0] * fixed_point_weights(range(3), values, 31))
    np.testing.assert_allclose(weights.effective()[0], wanted, atol=1e-12)
    conserved = conserved_separate(weights)
    assert max(float(np.abs(part).max()) for part in conserved) < 1e-12, "balanced"


def test_nothing_is_learned_before_the_first_drop_however_alike_the_eigenvalues_are():
    """A head's drop carries the modes of its other pairs along, almost to their ends if λ_d is almost λ_1."""
    values = np.array([0.28, 0.25, 0.24, 0.23])
    for seed in range(5):
        drops = drop_sequence(random_separate(4, 4, 4, 1e-3, seed), values, 31, gain=GAIN)
        assert max(drop.v_0 / drop.limit for drop in drops) > 0.1, "the case in question"
        done = progress(np.array([0.0, 0.5, 0.9]) * drops[0].time, drops, values, 31, gain=GAIN)
        assert done.max() < 1e-3


def test_scales_may_differ_by_head_but_must_be_enough():
    values = [0.5, 0.3]
    one = typical_sequence(values, 31, [1e-3, 1e-4], num_heads=2)
    assert one[1].v_0 == 1e-4
    with pytest.raises(IclearnError, match="v_0 needs 2 positive head scales"):
        typical_sequence(values, 31, [1e-3], num_heads=2)
