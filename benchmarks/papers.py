"""Whole papers from shell to page, with nothing stored and an empty compile cache: minutes, so only when asked for."""

from __future__ import annotations

import functools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax

from iclearn.papers.collect import load_paper

from .measure import Case, Result, Scale, run_process

# Seconds that are good enough, on two cores and on an accelerator (None: not said).
TARGETS = {
    "zhang2025": (900.0, None), "xie2025": (300.0, 120.0), "li2024": (600.0, 120.0),
    "lu2025": (300.0, None), "letey2026": (300.0, None),
}  # fmt: skip
SMALLEST = {
    "zhang2025": "fig6", "xie2025": "fig_bayes", "li2024": "fig_bounds", "lu2025": "scaling", "letey2026": "test-time",
}  # fmt: skip


# Figures of zhang2025 that train linear attention: all but fig5, which trains softmax attention on every prompt.
SAMPLED = {"zhang2025": {"fig5"}}
EXACT_TARGETS = {"zhang2025": (120.0, None)}
SWEEP_TARGET = 300.0


def exact_figures(paper: str) -> list[str]:
    return [figure.id for figure in load_paper(paper).figures if figure.id not in SAMPLED[paper]]


def measure(paper: str, *, quick: bool, exact: bool = False) -> list[Result]:
    target = (EXACT_TARGETS if exact else TARGETS)[paper][jax.default_backend() != "cpu"]
    chosen = [SMALLEST[paper], "--seeds", "2"] if quick else exact_figures(paper) if exact else []
    name, words = (f"{paper}-exact", ", its exact figures") if exact else (paper, "")
    what = f"`iclearn reproduce {paper}`{words}"
    return [timed(f"paper/{name}", what, ["reproduce", paper, *chosen], None if quick else target)]


def measure_sweep(*, quick: bool) -> list[Result]:
    """100,000 runs of 60,001 steps, with phase diagram and verdicts."""
    command = ["sweep", "plateaus", "--preset", "small" if quick else "medium"]
    return [timed("sweep/plateaus-medium", f"`iclearn {' '.join(command)}`", command, None if quick else SWEEP_TARGET)]


def timed(name: str, what: str, command: list[str], target: float | None) -> Result:
    """A command that writes verdicts, with nothing stored and an empty compile cache."""
    with tempfile.TemporaryDirectory(prefix="iclearn-bench-") as folder:
        out = Path(folder) / "out"
        env = {"ICLEARN_COMPILE_CACHE": str(Path(folder) / "cache"), "MPLBACKEND": "Agg"}
        done = run_process([sys.executable, "-m", "iclearn", *command, "--out", str(out)], cwd=folder, env=env)
        outcomes = [verdict["verdict"] for verdict in json.loads((out / "verdicts.json").read_text())]
        figures = json.loads((out / "facts.json").read_text())
    told = {
        "command": f"iclearn {' '.join(command)}",
        "verdicts": {name: outcomes.count(name) for name in sorted(set(outcomes))},
        "figures": {name: facts["total_seconds"] for name, facts in figures.items()},
        "cores_used": done.cpu / done.wall,
    }
    return Result(name, what, "s", (done.wall,), target, told, (done.cpu,))


def cases(scale: Scale) -> Iterator[Case]:
    for paper in TARGETS:
        yield Case(f"paper/{paper}", functools.partial(measure, paper, quick=scale.quick), long=True)
    for paper in EXACT_TARGETS:
        work = functools.partial(measure, paper, quick=scale.quick, exact=True)
        yield Case(f"paper/{paper}-exact", work, long=True)
    yield Case("sweep/plateaus-medium", functools.partial(measure_sweep, quick=scale.quick), long=True)
