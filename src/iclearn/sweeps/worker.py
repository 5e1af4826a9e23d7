"""A worker process: ``python -m iclearn.sweeps.worker FOLDER RETRIES PARENT`` takes chunks until none is left."""

from __future__ import annotations

import os
import sys
import time

from ..core import interrupts
from .folder import SweepFolder
from .runners import PAUSE, run_chunk


def work(root: str, retries: int, parent: int) -> None:
    """Go through the chunks again and again; end when all are finished or failed, or when the parent is gone."""
    chunks = [chunk.id for chunk in SweepFolder.open(root).plan.chunks]
    while chunks:
        outcomes = {}
        for chunk in chunks:
            if os.getppid() != parent or interrupts.requested():
                return
            outcomes[chunk] = run_chunk(root, chunk, retries)
        if not set(outcomes.values()) & {"done", "again"}:
            time.sleep(PAUSE)
        chunks = [chunk for chunk in chunks if outcomes[chunk] in ("busy", "again")]


if __name__ == "__main__":
    interrupts.install("")
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    if interrupts.requested():
        interrupts.leave("")
