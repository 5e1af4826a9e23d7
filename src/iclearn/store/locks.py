"""A lock that holds between threads and between processes of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold the lock file `path` for the block. A process that dies lets go of it.

    Args:
        path: of the lock file, which is made where it is missing and stays.
    """
    try:
        import fcntl
    except ImportError:  # no such locks on this system: work may be done twice, files are still written whole
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)
