"""How much memory there is, so that what cannot fit is refused before it is begun."""

from __future__ import annotations

import os
from pathlib import Path

_GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_bytes() -> int:
    """The memory this process may use at most: that of the machine, or of the container it runs in.

    >>> memory_bytes() > 1 << 20
    True
    """
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in _GROUP_LIMITS:
        try:
            whole = min(whole, int(Path(file).read_text()))
        except (OSError, ValueError):  # no such file, or the word `max`
            continue
    return whole


def available_bytes() -> int:
    """The memory that is free now, at most `memory_bytes`."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return memory_bytes()
    return min(free, memory_bytes())


def in_words(number: float) -> str:
    """A number of bytes in the unit people use for it.

    >>> in_words(61.3e9), in_words(2.5e6)
    ('61 GB', '2.5 MB')
    """
    for unit, size in (("EB", 1e18), ("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= size:
            return f"{number / size:.2g} {unit}" if number < 10 * size else f"{number / size:.0f} {unit}"
    return f"{number / 1e3:.0f} kB"
