"""Independent pieces of linear algebra side by side: a thread for each core, and one core for each piece."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .processes import usable_cores

MOST = 4  # a piece may need a gigabyte

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(threads or min(usable_cores(), MOST)) as pool:
        return list(pool.map(work, items))
