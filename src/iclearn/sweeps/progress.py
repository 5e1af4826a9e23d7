"""How far a sweep is, read from its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .folder import SweepFolder

RECENT = 20  # chunks from which the rate is read


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Args:
        name: of the sweep.
        runs: in all.
        runs_done: runs of finished chunks.
        chunks: in all.
        chunks_done: finished ones.
        chunks_active: chunks that somebody is computing now.
        failed: chunk → why its last attempt failed.
        rate: runs a second, over the last finished chunks; None before the first.
        left_seconds: how long the rest takes at that rate.

    >>> print(*Progress("demo", 20, 5, 4, 1, 2, {}, 2.5, 6.0).lines(), sep="\\n")
    demo: 5 of 20 runs (25.0 %), 1 of 4 chunks done, 2 at work, 0 failed
    2.5 runs a second, about 6 s left
    """

    name: str
    runs: int
    runs_done: int
    chunks: int
    chunks_done: int
    chunks_active: int
    failed: dict[str, str]
    rate: float | None
    left_seconds: float | None

    @property
    def complete(self) -> bool:
        """Whether every chunk is finished."""
        return self.chunks_done == self.chunks

    def lines(self) -> list[str]:
        """The same in words, for a terminal."""
        runs = f"{self.name}: {self.runs_done} of {self.runs} runs ({100 * self.runs_done / self.runs:.1f} %)"
        chunks = f"{self.chunks_done} of {self.chunks} chunks done, {self.chunks_active} at work"
        lines = [f"{runs}, {chunks}, {len(self.failed)} failed"]
        if self.rate is not None and not self.complete:
            lines.append(f"{self.rate:.3g} runs a second, about {duration(self.left_seconds or 0)} left")
        return lines + [f"chunk {chunk} failed: {reason}" for chunk, reason in self.failed.items()]


def duration(seconds: float) -> str:
    """A time in words.

    >>> duration(3700)
    '1 h 2 min'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def status(root: str | Path) -> Progress:
    """Progress, rate, estimate and failures of the sweep in a folder. Nothing is computed and nothing changed.

    Args:
        root: the folder of the sweep; it may be running, here or on other machines.

    >>> import tempfile
    >>> from iclearn.sweeps import SweepFolder, make_plan
    >>> base = {"task": {"dim": 2, "num_prompts": "inf"}, "model": {"family": "separate_reduced"}, "steps": 20}
    >>> folder = SweepFolder.create(f"{tempfile.mkdtemp()}/sweep", make_plan(base, seeds=2, chunk=1))
    >>> progress = status(folder.root)
    >>> progress.runs_done, progress.runs, progress.complete
    (0, 2, False)
    """
    folder = SweepFolder.open(root)
    plan, entries = folder.plan, folder.entries()
    claims = {chunk: files for chunk, files in folder.claims.everything().items() if chunk not in entries}
    active = {chunk for chunk, files in claims.items() if files[-1].lives(folder.claims.stale)}
    failed = {c: folder.reason(c) for c, files in claims.items() if c not in active and files[-1].failed()}
    recent = sorted(entries.values(), key=lambda entry: entry.finished)[-RECENT:]
    rate = None
    if recent:
        span = recent[-1].finished - min(entry.finished - entry.seconds for entry in recent)
        rate = sum(entry.runs for entry in recent) / max(span, 1e-9)
    done = sum(entry.runs for entry in entries.values())
    left = None if rate is None else (plan.num_runs - done) / rate
    return Progress(plan.name, plan.num_runs, done, len(plan.chunks), len(entries), len(active), failed, rate, left)
