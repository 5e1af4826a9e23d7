"""How far a sweep is, read from its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .folder import SweepFolder

RECENT = 20  # chunks from which the rate is read


@dataclass(frozen=True)
class Progress:
    """Runs and chunks by what became of them; `rate` in runs a second, `left_seconds` at that rate."""

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
        return self.chunks_done == self.chunks

    def lines(self) -> list[str]:
        share = 100 * self.runs_done / self.runs
        lines = [
            f"{self.name}: {self.runs_done} of {self.runs} runs ({share:.1f} %), {self.chunks_done} of {self.chunks} "
            f"chunks done, {self.chunks_active} at work, {len(self.failed)} failed"
        ]
        if self.rate is not None and not self.complete:
            lines.append(f"{self.rate:.3g} runs a second, about {duration(self.left_seconds or 0)} left")
        lines += [f"chunk {chunk} failed: {reason}" for chunk, reason in self.failed.items()]
        return lines


def duration(seconds: float) -> str:
    """
    >>> duration(3700)
    '1 h 2 min'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def status(root: str | Path) -> Progress:
    """Progress, rate, estimate and failures of the sweep in a folder. Nothing is computed and nothing changed."""
    folder = SweepFolder.open(root)
    plan, entries = folder.plan, folder.entries()
    claims = {chunk: found for chunk, found in folder.claims.everything().items() if chunk not in entries}
    active = {chunk for chunk, found in claims.items() if found[-1].lives(folder.claims.stale)}
    texts = folder.failures()
    failed = {
        chunk: texts.get(chunk, ["no reason was noted"])[-1].strip().splitlines()[-1]
        for chunk, found in claims.items()
        if chunk not in active and found[-1].failed()
    }
    recent = sorted(entries.values(), key=lambda entry: entry.finished)[-RECENT:]
    rate = None
    if recent:
        span = recent[-1].finished - min(entry.finished - entry.seconds for entry in recent)
        rate = sum(entry.runs for entry in recent) / max(span, 1e-9)
    done = sum(entry.runs for entry in entries.values())
    left = None if rate is None else (plan.num_runs - done) / rate
    return Progress(plan.name, plan.num_runs, done, len(plan.chunks), len(entries), len(active), failed, rate, left)
