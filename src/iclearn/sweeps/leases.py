"""Who is computing which chunk. Claims save work; they never decide what is true (the ledger does).

A claim is a file that only one process can make (mode x) and that is touched while its owner lives. One whose owner is
gone (its process, on this machine; its heartbeat, on another) is taken over by making the next generation of it, which
again only one can. Two owners at once would compute the same numbers and write the same bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.atomic import write_text
from ..core.processes import process_lives, process_start

BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0  # without a heartbeat from another machine


@dataclass(frozen=True)
class Claim:
    """One generation of a claim as found on disk."""

    path: Path
    generation: int

    def _read(self) -> dict[str, Any]:
        """What is written in it: nothing when it is gone, being written, or was cut off."""
        try:
            return json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}

    def owner(self) -> str:
        """Who made it, in words."""
        facts = self._read()
        return f"process {facts['pid']} on {facts['host']}" if {"pid", "host"} <= set(facts) else "somebody"

    def failed(self) -> bool:
        """Whether its owner said that the attempt failed (and did not just vanish)."""
        return bool(self._read().get("failed"))

    def fail(self) -> None:
        """Let go of the chunk, and let the attempt count."""
        write_text(self.path, json.dumps({"failed": True, "host": socket.gethostname(), "pid": os.getpid()}))

    def release(self) -> None:
        """Let go of the chunk as if it had never been taken."""
        self.path.unlink(missing_ok=True)

    def lives(self, stale: float = STALE_SECONDS) -> bool:
        """Whether its owner may still be at work."""
        try:
            age = time.time() - self.path.stat().st_mtime
        except OSError:
            return False
        owner = self._read()
        if owner.get("failed"):
            return False
        if owner.get("host") == socket.gethostname():
            return process_lives(owner["pid"], owner["start"])
        return age < stale


class Claims:
    """The claims of one sweep, in a folder; without a heartbeat for `stale` seconds they count as given up."""

    def __init__(self, folder: Path, *, stale: float = STALE_SECONDS) -> None:
        self.folder, self.stale = folder, stale

    def everything(self, chunk: str = "*") -> dict[str, list[Claim]]:
        """Chunk → its claims, oldest first, of all chunks that have any (or of one)."""
        by_chunk: dict[str, list[Claim]] = {}
        for path in self.folder.glob(f"{chunk}.*"):
            if path.suffix[1:].isdigit() and not path.name.startswith("."):
                by_chunk.setdefault(path.stem, []).append(Claim(path, int(path.suffix[1:])))
        return {chunk: sorted(claims, key=lambda claim: claim.generation) for chunk, claims in by_chunk.items()}

    def generations(self, chunk: str) -> list[Claim]:
        """The claims on one chunk, oldest first."""
        return self.everything(chunk).get(chunk, [])

    def take(self, chunk: str) -> Claim | None:
        """The claim on a chunk, or None while somebody else has it."""
        before = self.generations(chunk)
        if before and before[-1].lives(self.stale):
            return None
        generation = before[-1].generation + 1 if before else 0
        path = self.folder / f"{chunk}.{generation}"
        pid = os.getpid()
        owner = {"host": socket.gethostname(), "pid": pid, "start": process_start(pid), "since": time.time()}
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x") as file:
                file.write(json.dumps(owner))
        except FileExistsError:
            return None
        return Claim(path, generation)

    def attempts(self) -> dict[str, int]:
        """Chunk → how often it was begun and not finished."""
        return {chunk: sum(not c.lives(self.stale) for c in claims) for chunk, claims in self.everything().items()}

    def active(self) -> dict[str, Claim]:
        """Chunk → live claim."""
        return {chunk: claims[-1] for chunk, claims in self.everything().items() if claims[-1].lives(self.stale)}

    def clear(self, chunk: str) -> None:
        """Forget all claims on a chunk that is done, or that is to be tried afresh."""
        for claim in self.generations(chunk):
            claim.release()


@contextlib.contextmanager
def heartbeat(claim: Claim, seconds: float = BEAT_SECONDS) -> Iterator[None]:
    """Touch the claim until the block ends."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(seconds):
            with contextlib.suppress(OSError):
                os.utime(claim.path)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
