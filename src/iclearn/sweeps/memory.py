"""How many runs make a chunk: as many as fit the device's memory, and no more than a minute's work or so."""

from __future__ import annotations

import os

import jax

SHARE = 0.25  # of the device's memory: compiled programs keep copies
CPU_RUN_STEPS = 2e8  # of a chunk on a CPU: a look at the progress every minute or so
MOST_RUNS = {"cpu": 1 << 14, "gpu": 1 << 17}


def device_bytes() -> int:
    """Memory of the device that JAX computes on."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        limit = (device.memory_stats() or {}).get("bytes_limit")
        if limit:
            return int(limit)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def chunk_limit(bytes_a_run: int, steps: int) -> int:
    """Runs of a chunk at most.

    >>> chunk_limit(1 << 50, 1000)
    1
    """
    cpu = jax.devices()[0].platform == "cpu"
    fitting = int(SHARE * device_bytes() / max(1, bytes_a_run))
    working = int(CPU_RUN_STEPS / steps) if cpu else MOST_RUNS["gpu"]
    return max(1, min(fitting, working, MOST_RUNS["cpu" if cpu else "gpu"]))
