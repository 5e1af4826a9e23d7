"""How many runs were trained, for the reproducibility card."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass

from ..core.counters import counting


@dataclass(eq=False)
class RunCount:
    """How many runs were trained inside a block of `counted_runs`."""

    count: int = 0


_counters: ContextVar[tuple[RunCount, ...]] = ContextVar("counters", default=())


def counted_runs() -> AbstractContextManager[RunCount]:
    """Count the runs that this thread trains inside the block.

    Returns:
        A context that gives a `RunCount`, complete when the block ends.

    >>> with counted_runs() as trained:
    ...     count_runs(3)
    >>> trained.count
    3
    """
    return counting(_counters, RunCount())


def count_runs(number: int) -> None:
    """Note that runs were trained.

    Args:
        number: how many.
    """
    for counter in _counters.get():
        counter.count += number
