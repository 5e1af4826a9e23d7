"""Independent pieces of linear algebra side by side: a thread for each core, and one core for each piece."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from .processes import usable_cores

MOST = 4  # a piece may need a gigabyte

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def one_core_each() -> Iterator[None]:
    """BLAS on one core of every thread that calls it, while the block lasts.

    Its own threads spin while they wait for work: two eigenvalue problems of 360 rows that are solved beside each other
    with two threads each take fifty times as long as with one.
    """
    from threadpoolctl import threadpool_limits

    name = "OPENBLAS_NUM_THREADS"  # for a library that is loaded while the block lasts, as that of scipy
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def side_by_side(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> list[Result]:
    """Apply a function to every item, in several threads, with BLAS on one core in each.

    A factorization of a few thousand rows spends most of a second core's time waiting; two of them beside each other do
    not. What is computed does not depend on the number of threads.

    Args:
        work: spends its time in numpy, scipy or JAX, which let other threads run.
        items: what it is applied to.
        threads: None: the cores this process may use, at most four.

    Returns:
        The results in the order of the items.

    >>> side_by_side(lambda n: n**2, range(4), threads=2)
    [0, 1, 4, 9]
    """
    with one_core_each(), ThreadPoolExecutor(threads or min(usable_cores(), MOST)) as pool:
        return list(pool.map(work, items))
