"""Who is computing which chunk. Claims save work; they never decide what is true (the ledger does).

A claim is a file made with O_EXCL and touched while its owner lives. One whose owner is gone (its process, on this
machine; its heartbeat, on another) is taken over by making the next generation of it, which again only one can. Two
owners at once would compute the same numbers and write the same bytes.
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

BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0  # without a heartbeat from another machine


def process_start(pid: int) -> str:
    """When a process began, as the kernel counts it (Linux; elsewhere ""): numbers of processes are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def process_lives(pid: int, start: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # a killed process whose parent has not looked yet is gone all the same
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False
    except (OSError, IndexError):
        pass
    return not start or process_start(pid) == start


@dataclass(frozen=True)
class Claim:
    """One generation of a claim as found on disk."""

    path: Path
    generation: int

    def owner(self) -> str:
        """Who made it, in words."""
        try:
            told = json.loads(self.path.read_text())
            return f"process {told['pid']} on {told['host']}"
        except (OSError, KeyError, json.JSONDecodeError):
            return "somebody"

    def failed(self) -> bool:
        """Whether its owner said that the attempt failed (and did not just vanish)."""
        try:
            return bool(json.loads(self.path.read_text()).get("failed"))
        except (OSError, json.JSONDecodeError):
            return False

    def fail(self) -> None:
        """Let go of the chunk, and let the attempt count."""
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.partial")
        temporary.write_text(json.dumps({"failed": True, "host": socket.gethostname(), "pid": os.getpid()}))
        os.replace(temporary, self.path)

    def release(self) -> None:
        """Let go of the chunk as if it had never been taken."""
        self.path.unlink(missing_ok=True)

    def lives(self, stale: float = STALE_SECONDS) -> bool:
        """Whether its owner may still be at work."""
        try:
            age = time.time() - self.path.stat().st_mtime
        except OSError:
            return False
        try:
            owner = json.loads(self.path.read_text())
        except (OSError, json.JSONDecodeError):
            return age < stale  # being written, or cut off while it was
        if owner.get("failed"):
            return False
        if owner["host"] == socket.gethostname():
            return process_lives(owner["pid"], owner["start"])
        return age < stale


class Claims:
    """The claims of one sweep, in a folder."""

    def __init__(self, folder: Path, *, stale: float = STALE_SECONDS) -> None:
        self.folder, self.stale = folder, stale

    def generations(self, chunk: str) -> list[Claim]:
        found = [Claim(p, int(p.suffix[1:])) for p in self.folder.glob(f"{chunk}.*") if p.suffix[1:].isdigit()]
        return sorted(found, key=lambda claim: claim.generation)

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
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return None
        with os.fdopen(handle, "w") as file:
            file.write(json.dumps(owner))
        return Claim(path, generation)

    def everything(self) -> dict[str, list[Claim]]:
        """Chunk → its claims, oldest first, of all chunks that have any."""
        found: dict[str, list[Claim]] = {}
        for path in self.folder.glob("*.*"):
            if path.suffix[1:].isdigit():
                found.setdefault(path.stem, []).append(Claim(path, int(path.suffix[1:])))
        return {chunk: sorted(claims, key=lambda claim: claim.generation) for chunk, claims in found.items()}

    def attempts(self) -> dict[str, int]:
        """Chunk → how often it was begun and not finished."""
        return {
            chunk: sum(not claim.lives(self.stale) for claim in claims) for chunk, claims in self.everything().items()
        }

    def active(self) -> dict[str, Claim]:
        """Chunk → live claim."""
        return {chunk: claims[-1] for chunk, claims in self.everything().items() if claims[-1].lives(self.stale)}

    def clear(self, chunk: str) -> None:
        """Forget all claims on a chunk that is done, or that is to be tried afresh."""
        for claim in self.generations(chunk):
            claim.path.unlink(missing_ok=True)


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
