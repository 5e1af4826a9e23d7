"""Counters of what happens inside a ``with`` block, in the thread of the block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

CounterT = TypeVar("CounterT")


@contextmanager
def counting(counters: ContextVar[tuple[CounterT, ...]], counter: CounterT) -> Iterator[CounterT]:
    """Let a counter be one of the open ones until the block ends; blocks may be nested.

    Args:
        counters: the counters that are open in this thread; whoever does the work adds to each of them.
        counter: a new one.

    Yields:
        The new counter.
    """
    token = counters.set((*counters.get(), counter))
    try:
        yield counter
    finally:
        counters.reset(token)
