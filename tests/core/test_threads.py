"""Independent pieces of linear algebra in threads."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from iclearn.core.threads import side_by_side


def solved(seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((300, 200))
    return np.linalg.solve(rows.T @ rows, rows.sum(0))


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_number_of_threads_changes_no_bit():
    one, three = (side_by_side(solved, range(6), threads) for threads in (1, 3))
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(three, [solved(seed) for seed in range(6)], rtol=1e-9)


def test_blas_has_one_core_inside_and_its_own_number_after():
    before = blas_threads()
    assert side_by_side(lambda _: blas_threads(), range(3), 2) == [{1}] * 3
    assert blas_threads() == before


def test_an_error_is_raised_here():
    def fails(seed: int) -> None:
        raise ValueError(f"seed {seed}")

    with pytest.raises(ValueError, match="seed 0"):
        side_by_side(fails, range(4), 2)
