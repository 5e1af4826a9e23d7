"""Carry out a sweep: here, or in worker processes. All of them call `run_chunk`, and what is finished is read from the
folder alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Literal

from ..core import interrupts
from ..core.errors import IclearnError
from ..engines.compiled.switch import THREADS, thread_count
from .compute import compute
from .folder import SweepFolder
from .leases import heartbeat

Outcome = Literal["done", "already", "busy", "again", "failed"]
Runner = Callable[[SweepFolder, list[str], int], Iterable[tuple[str, Outcome]]]
RETRIES = 2
PAUSE = 0.2  # seconds between looks at the folder


@lru_cache(maxsize=4)
def _opened(root: str, stamp: int) -> SweepFolder:
    return SweepFolder.open(root)


def run_chunk(root: str, chunk_id: str, retries: int = RETRIES) -> Outcome:
    """Compute and store one chunk, unless it is finished, somebody is at it, or it has failed too often.

    Args:
        root: the folder of the sweep.
        chunk_id: the `id` of one of ``plan.chunks``.
        retries: further attempts on it. An attempt that raised or whose process died counts.

    Returns:
        ``done``, ``already`` (finished before), ``busy`` (in other hands), ``again`` (this attempt failed and another
        is allowed) or ``failed`` (too often). For an example see `carry_out`, which does this for every chunk.
    """
    folder = _opened(root, os.stat(os.path.join(root, "plan.json")).st_mtime_ns)
    chunk, claims = folder.plan.chunk_by_id[chunk_id], folder.claims
    if folder.entry(chunk_id) is not None:
        return "already"
    before = claims.generations(chunk_id)
    if before and before[-1].lives(claims.stale):
        return "busy"
    if len(before) > retries:
        return "failed"
    claim = claims.take(chunk_id)
    if claim is None:
        return "busy"
    if folder.entry(chunk_id) is not None:  # finished while we looked
        claims.clear(chunk_id)
        return "already"
    if before and not before[-1].failed():
        folder.note_failure(chunk_id, before[-1].generation, f"{before[-1].owner()} died at work on this chunk")
    try:
        with heartbeat(claim), interrupts.finishing():
            begin = time.perf_counter()
            arrays, path = compute(folder.plan, chunk)
            folder.write(chunk, arrays, time.perf_counter() - begin, path)
    except Exception as error:
        summary = " ".join(f"{type(error).__name__}: {error}".split())
        folder.note_failure(chunk_id, claim.generation, f"{traceback.format_exc()}\n{summary}")
        claim.fail()
        return "failed" if claim.generation >= retries else "again"
    except BaseException:
        claim.release()
        raise
    claims.clear(chunk_id)
    return "done"


def execute(
    folder: SweepFolder, runner: Runner, *, retries: int = RETRIES, progress: Callable[[int, int], None] | None = None
) -> None:
    """Run every chunk that is left, through `runner`, until all are finished or have failed too often.

    Args:
        folder: of the sweep.
        runner: computes the chunks with the given names and yields (name, outcome) as each ends.
        retries: further attempts on a chunk that failed.
        progress: called with (runs finished, runs in all).
    """
    left = {chunk.id: chunk for chunk in folder.begin_session()}
    total = folder.plan.num_runs
    report = progress or (lambda done, total: None)
    failed: set[str] = set()
    done = total - sum(chunk.runs for chunk in left.values())
    report(done, total)
    while waiting := [id for id in left if id not in failed]:
        moved = False
        for id, outcome in runner(folder, waiting, retries):
            if outcome in ("done", "already") and id in left:
                done += left.pop(id).runs
                moved = True
                report(done, total)
            elif outcome == "failed":
                failed.add(id)
                moved = True
            interrupts.check(f"interrupted; {done} of {total} runs are stored")
        if not moved:  # others are at work on what is left
            time.sleep(PAUSE)
    if failed:
        raise IclearnError(
            f"{len(failed)} of {len(folder.plan.chunks)} chunks failed, the first with: "
            f"{folder.reason(min(failed))} (see {folder.root / 'failures'}; the same command tries again)"
        )


def here(folder: SweepFolder, ids: list[str], retries: int) -> Iterator[tuple[str, Outcome]]:
    """One chunk after the other in this process."""
    for id in ids:
        yield id, run_chunk(str(folder.root), id, retries)


def processes(count: int) -> Runner:
    """`count` processes on this machine, each taking chunks from the folder; one that dies is replaced."""
    if count < 1:
        raise IclearnError(f"the number of workers must be at least 1, not {count}")

    def run(folder: SweepFolder, ids: list[str], retries: int) -> Iterator[tuple[str, Outcome]]:
        waiting, deaths, attempts = list(ids), 0, -1
        options = [str(folder.root), str(retries), str(os.getpid())]
        command = [sys.executable, "-m", "iclearn.sweeps.worker", *options]
        environment = {THREADS: str(max(1, thread_count() // count)), **os.environ}  # cores are shared out
        with tempfile.TemporaryFile("w+") as output, _ended() as workers, interrupts.finishing():
            while waiting:
                before = folder.claims.attempts()
                for id in list(waiting):
                    if folder.entry(id) is not None:
                        waiting.remove(id)
                        deaths = 0
                        yield id, "done"
                    elif before.get(id, 0) > retries:
                        waiting.remove(id)
                        yield id, "failed"
                for worker in [w for w in workers if w.poll() is not None]:
                    workers.remove(worker)
                    deaths += worker.returncode != 0
                tried = sum(before.values())
                deaths, attempts = (0 if tried > attempts >= 0 else deaths), tried
                if deaths > 3 * count:  # they do not even come to a chunk
                    output.seek(0)
                    last = (output.read().strip().splitlines() or ["they said nothing"])[-1]
                    raise IclearnError(f"worker processes die as soon as they are started: {last}")
                while len(workers) < min(count, len(waiting)):
                    started = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
                    )
                    workers.append(started)
                if interrupts.requested():  # workers finish their chunks
                    _wait_for(workers)
                    interrupts.check("interrupted; the chunks at work were finished and are stored")
                time.sleep(PAUSE)

    return run


def _wait_for(workers: list[subprocess.Popen]) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        worker.wait()


@contextlib.contextmanager
def _ended() -> Iterator[list[subprocess.Popen]]:
    """A list of processes that are ended with the block, by an interrupt first so that they let go of their chunks."""
    workers: list[subprocess.Popen] = []
    try:
        yield workers
    finally:
        for end in (signal.SIGINT, signal.SIGKILL):
            for worker in workers:
                if worker.poll() is None:
                    worker.send_signal(end)
            for worker in workers:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.wait(5)
