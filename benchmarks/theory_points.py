"""How long a phase diagram of lu2025 takes: a million points of the limit of pools of tasks, in one call."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator

import numpy as np

from iclearn.theory.diversity import pool_errors, structured_errors, task_spectrum

from .measure import Case, Result, Scale

RANGES = ((-1, 2.5), (-1.2, 1.7), (-1, 1.5), (-3, 0.3))  # decades of α, κ, τ, ρ: those of the figures
RIDGES = (-5, 1)


def measure(kind: str, count: int, repeats: int, target: float | None) -> list[Result]:
    """The wall and processor time of one call with `count` random points."""
    rng = np.random.default_rng(0)
    alpha, kappa, tau, noise = (10 ** rng.uniform(low, high, count) for low, high in RANGES)
    ridge = 10 ** rng.uniform(*RIDGES, count) if kind == "ridge" else 0.0
    spectrum = task_spectrum("linear", 32)
    walls, cpu = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        if kind == "structured":
            structured_errors(spectrum, spectrum, alpha, kappa, tau, noise)
        else:
            pool_errors(alpha, kappa, tau, noise, ridge)
        walls.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    what = {
        "structured": "32 eigenvalues, no ridge",
        "ridge": "isotropic, with ridge",
        "ridgeless": "isotropic, no ridge",
    }
    name = f"theory/pool_errors/{kind}"
    return [Result(name, f"{count:,} points of lu2025, {what[kind]}", "s", tuple(walls), target, {}, tuple(cpu))]


def cases(scale: Scale) -> Iterator[Case]:
    """One case for each form of the formula; structured tasks with a hundredth of the points."""
    count, repeats = (1_000, 2) if scale.quick else (1_000_000, 9)
    for kind in ("ridgeless", "ridge"):
        target = None if scale.quick else 1.0
        yield Case(f"theory/pool_errors/{kind}", functools.partial(measure, kind, count, repeats, target))
    name = "theory/pool_errors/structured"
    yield Case(name, functools.partial(measure, "structured", count // 100, repeats, None))
