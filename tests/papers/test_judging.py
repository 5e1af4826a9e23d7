"""The rules that turn numbers into verdicts, each at its lines."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from iclearn.papers.judging import (
    WORDS,
    binomial_bounds,
    judge_close,
    judge_each,
    judge_groups,
    judge_mean,
    judge_seeds,
    standard_error,
    worst,
)


@pytest.mark.parametrize(("passed", "total"), [(1, 3), (5, 6), (9, 10), (12, 40)])
def test_binomial_bounds_leave_five_per_cent_beyond_them(passed, total):
    low, high = binomial_bounds(passed, total)
    assert binom.sf(passed - 1, total, low) == pytest.approx(0.05, rel=1e-9)  # as many or more, were the share `low`
    assert binom.cdf(passed, total, high) == pytest.approx(0.05, rel=1e-9)


def test_bounds_of_all_and_none_reach_the_end():
    low, high = binomial_bounds(6, 6)
    assert (low**6, high) == (pytest.approx(0.05), 1.0)
    low, high = binomial_bounds(0, 6)
    assert (low, (1 - high) ** 6) == (0.0, pytest.approx(0.05))


def test_a_share_is_judged_by_its_bounds_and_not_by_itself():
    assert judge_seeds([True] * 6, 0).verdict == "reproduced"
    assert judge_seeds([True] * 4 + [False] * 2, 0).verdict == "inconclusive"
    assert judge_seeds([False] * 6, 0).verdict == "contradicted"


def test_several_judgments_are_as_good_as_the_worst():
    for i, better in enumerate(WORDS):
        for worse in WORDS[i:]:
            assert worst(better, worse) == worst(worse, better) == worse
    assert worst() == "failed"
    groups = {"good": [True] * 60, "bad": [False] * 6}
    assert judge_groups(groups, 0).verdict == "contradicted"
    assert judge_groups(groups, 0).seeds == 66


def test_a_number_is_close_within_its_tolerance_and_wrong_beyond_three_of_them():
    words = [judge_close(1 + 0.1 * away, 1.0, 0.1).verdict for away in (0.9, -0.9, 2.9, -2.9, 3.1, -3.1)]
    assert words == ["reproduced"] * 2 + ["inconclusive"] * 2 + ["contradicted"] * 2
    assert judge_close(float("nan"), 1.0, 0.1).verdict == "failed"


def test_the_standard_error_is_that_of_a_sample():
    assert standard_error([1.0, 3.0]) == pytest.approx(1.0)  # variance 2 with n − 1, over 2 values
    assert standard_error([1.0]) == np.inf
    rng = np.random.default_rng(0)
    squares = [standard_error(rng.normal(size=4)) ** 2 for _ in range(4000)]
    assert np.mean(squares) == pytest.approx(1 / 4, rel=0.06)  # without bias


def test_a_mean_is_judged_in_standard_errors_with_a_cap():
    values = np.array([-1.0, 1.0])  # mean 0, standard error 1
    assert [judge_mean(values, away, cap=4.0).verdict for away in (3.9, 7.9, 8.1)] == [
        "reproduced", "inconclusive", "contradicted"
    ]  # fmt: skip
    # Four standard errors above the cap: the data are too noisy to agree with anything, and may still contradict.
    assert [judge_mean(values, away, cap=3.9).verdict for away in (0.0, 3.9, 8.1)] == [
        "inconclusive", "inconclusive", "contradicted"
    ]  # fmt: skip


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [1.0, float("inf")]])
def test_a_mean_of_nothing_or_of_nan_fails(values):
    assert judge_mean(values, 1.0, cap=1.0).verdict == "failed"


def test_statements_on_several_objects_need_one_and_hold_for_all():
    assert [judge_each(passed, 0).verdict for passed in ([], [True], [True, False])] == [
        "failed", "reproduced", "contradicted"
    ]  # fmt: skip
