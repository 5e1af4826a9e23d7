"""Measures against independent computations, and intervals that cover."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iclearn.core.errors import IclearnError
from iclearn.llm.metrics import bootstrap, combination, copy_rate, mse, partial, pearson, slope, spearman
from iclearn.llm.replies import Reply, check_readable, parse_score

masses = st.lists(st.floats(0, 1), min_size=6, max_size=6)


@settings(deadline=None, max_examples=60)
@given(masses)
def test_the_expected_score_is_on_the_scale_and_ignores_lost_mass(scale):
    value = Reply(scale=tuple(scale)).value
    if sum(scale) == 0:
        assert math.isnan(value)
        return
    assert 0 <= value <= 5 + 1e-12
    half = Reply(scale=tuple(p / 2 for p in scale))
    assert half.value == pytest.approx(value) or sum(half.scale or ()) == 0
    mean = np.average(np.arange(6), weights=scale)
    assert value == pytest.approx(mean)


def test_replies_survive_json():
    for reply in (Reply(scale=(0.1, 0.2, 0.0, 0.3, 0.1, 0.05)), Reply(text="4 of 5")):
        assert Reply.from_json(reply.to_json()) == reply
    for wrong in ({}, {"scale": [1, 2]}, {"text": 3}, [], "x"):
        with pytest.raises(ValueError, match=r"."):
            Reply.from_json(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" 3\n\nSentence", 3.0),
        ("3.8", 3.8),
        ("Score: 4/5", 4.0),
        ("10 out of 10, so 5.", 5.0),
        ("7", math.nan),
        ("none", math.nan),
        ("", math.nan),
        ("a1b", math.nan),
    ],
)
def test_numbers_in_text(text, value):
    assert parse_score(text) == pytest.approx(value, nan_ok=True)
    mark = Reply(text=text).mark
    assert math.isnan(mark) == math.isnan(value)


def test_unreadable_answers_are_refused_with_an_example():
    check_readable([Reply(text="3"), Reply(text="no")])
    with pytest.raises(IclearnError, match=r"2 of 3 answers hold no number from 0 to 5 \(e.g. 'no idea'\)"):
        check_readable([Reply(text="no idea"), Reply(text="3"), Reply(text="well")])


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(5, 40))
def test_measures_agree_with_scipy(seed, size):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 6, size).astype(float), rng.normal(size=size)
    if np.ptp(a) == 0:
        assert np.isnan(pearson(a, b))
        return
    assert pearson(a, b) == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-12)
    assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
    assert slope(b, a) == pytest.approx(stats.linregress(a, b).slope, abs=1e-12)
    assert mse(a, b) == pytest.approx(np.square(a - b).mean())


def test_partial_correlation_is_that_of_the_formula():
    rng = np.random.default_rng(3)
    guess = rng.normal(size=300)
    score = guess + rng.normal(size=300)
    answer = 0.5 * guess + 0.3 * score + rng.normal(size=300)
    a, b, c = (stats.pearsonr(x, y).statistic for x, y in ((answer, score), (answer, guess), (score, guess)))
    assert partial(answer, score, guess) == pytest.approx((a - b * c) / np.sqrt((1 - b**2) * (1 - c**2)))
    assert np.isnan(partial(guess.copy(), score, guess))  # a pure copy knows nothing more


def test_copying_and_ignoring():
    guess = np.array([0.2, 1.6, 2.5, 4.9])
    assert copy_rate(np.array([0.0, 2.0, 3.0, 5.0]), guess) == 1
    assert copy_rate(np.array([0.0, 1.0, 2.0, 5.0]), guess) == 0.5
    assert slope(guess, guess) == pytest.approx(1)
    assert slope(np.full(4, 2.0), guess) == pytest.approx(0, abs=1e-12)
    assert np.isnan(slope(guess, np.full(4, 2.7)))


def test_intervals_cover_the_truth_as_often_as_they_say():
    """95 % intervals of a mean squared error: within 4 binomial standard errors of 0.95 (small samples cover less)."""
    rng = np.random.default_rng(0)
    hits = 0
    for i in range(300):
        found = bootstrap(mse, rng.normal(size=150), np.zeros(150), seed=i, resamples=300)
        hits += found.low <= 1 <= found.high
    assert abs(hits / 300 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 300)


def test_intervals_are_paired_and_average_seeds():
    rng = np.random.default_rng(1)
    score = rng.normal(size=200)
    noise = rng.normal(size=200)
    better, worse = score + 0.5 * noise, score + 0.6 * noise
    gain = bootstrap(lambda a, b, s: mse(b, s) - mse(a, s), better, worse, score)
    assert gain.sign == 1
    seeds = np.stack([better, worse])
    both = bootstrap(mse, seeds, np.broadcast_to(score, seeds.shape))
    assert both.value == pytest.approx((mse(better, score) + mse(worse, score)) / 2)
    undefined = bootstrap(pearson, np.zeros(20), score[:20])
    assert np.isnan(undefined.value)
    assert undefined.sign == 0


def test_intervals_are_wider_where_draws_differ():
    rng = np.random.default_rng(2)
    score = np.broadcast_to(rng.normal(size=100), (3, 100))
    same = score + 1.0
    apart = score + np.array([[0.0], [1.0], [2.0]])
    alike, different = bootstrap(mse, same, score), bootstrap(mse, apart, score)
    assert alike.low == pytest.approx(1)
    assert alike.high == pytest.approx(1)
    assert (different.low, different.high) == (0, 4), "of three draws each is drawn alone often enough"


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_no_linear_combination_is_better_on_the_pairs_it_is_fitted_on(seed):
    rng = np.random.default_rng(seed)
    score = rng.uniform(1, 4, 60)
    guess, own = (score + 0.5 * rng.normal(size=(2, 60)) for _ in range(2))
    best = combination(guess, own, guess, own, score)
    assert best.shape == (2, 60)
    mixed = rng.normal() + rng.normal() * guess + rng.normal() * own
    for other in (guess, own, mixed):
        assert (mse(best, score) <= mse(other, score) + 1e-9).all()
