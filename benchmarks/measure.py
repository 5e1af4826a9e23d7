"""One measured quantity, and the ways to take it: a call in this process, or a process from shell to prompt."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class Skip(Exception):
    """A case that cannot run here, with the reason."""


@dataclass(frozen=True)
class Scale:
    """How large a harness run is: the sizes the targets speak of, or small ones that only show that all works."""

    quick: bool
    repeats: int  # of a timed call
    processes: int  # of a command timed from shell to prompt
    num_prompts: tuple[int, ...]
    loop_steps: int  # of the moments and population engines for D = 4, per repeat
    slow_steps: int  # of the samples engine and the naive script, per repeat
    stream_prompts: int

    @staticmethod
    def full() -> Scale:
        return Scale(False, 25, 3, (5_000, 80_000), 2_000, 5, 10_000_000)

    @staticmethod
    def small() -> Scale:
        return Scale(True, 2, 1, (200,), 40, 2, 100_000)


@dataclass(frozen=True)
class Result:
    """A number with its repeats. ``target`` is the largest value that is good enough, where there is one.

    ``cpu`` is the processor time of each repeat, where it is known: other work on the machine hardly changes it.
    """

    name: str
    what: str
    unit: str
    repeats: tuple[float, ...]
    target: float | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    cpu: tuple[float, ...] = ()
    load_average: float = field(default_factory=lambda: os.getloadavg()[0])

    @property
    def median(self) -> float:
        return statistics.median(self.repeats)

    @property
    def minimum(self) -> float:
        return min(self.repeats)

    def to_dict(self) -> dict[str, Any]:
        judged: dict[str, Any] = {}
        if self.target is not None:
            judged = {
                "target": self.target,
                "met": self.median <= self.target,
                "met_by_minimum": self.minimum <= self.target,
            }
        return {
            "name": self.name,
            "what": self.what,
            "unit": self.unit,
            "median": self.median,
            "minimum": self.minimum,
            "repeats": list(self.repeats),
            **({"cpu_median": statistics.median(self.cpu), "cpu_repeats": list(self.cpu)} if self.cpu else {}),
            **judged,
            "load_average": self.load_average,
            "detail": dict(self.detail),
        }


@dataclass(frozen=True)
class Case:
    """A name to select it by, and the function that measures it; one case may give several results.

    A ``long`` one takes minutes and runs only when it is asked for by name.
    """

    name: str
    run: Callable[[], list[Result]]
    long: bool = False


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """Wall seconds and processor seconds of one call, and what it returned."""
    wall, cpu = time.perf_counter(), time.process_time()
    value = call()
    return time.perf_counter() - wall, time.process_time() - cpu, value


@dataclass(frozen=True)
class Finished:
    """A process that ended well: seconds from start to end, processor seconds, and what it printed."""

    wall: float
    cpu: float
    output: str


def run_process(argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str] | None = None) -> Finished:
    """Run a command to its end; one that fails is an error with the end of what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(argv, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise RuntimeError(f"{' '.join(argv)} ended with {done.returncode}: {said[-1] if said else 'nothing said'}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(wall, cpu, done.stdout)


def iclearn_command() -> str:
    """The `iclearn` of this very Python."""
    path = Path(sys.executable).parent / "iclearn"
    if not path.is_file():
        raise Skip(f"no iclearn command beside {Path(sys.executable).name}: install the package first")
    return str(path)
