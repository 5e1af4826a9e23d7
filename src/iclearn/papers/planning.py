"""What a reproduction will take, and which claims it cannot judge, told before its first run."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..core.errors import DamagedError
from ..core.processes import usable_cores
from ..core.recipe import Recipe
from .base import Figure, Paper
from .collect import planned_seeds, read_json
from .lab import Lab

CORES = 2  # the machine on which `Figure.cost` was measured
MEGABYTES = 0.4  # of a stored run: the mean over ten figures of zhang2025
_AMOUNT = {"half a": 0.5, "a": 1.0, "an": 1.0}
_UNIT = {"s": 1, "m": 60, "h": 3600}


def seconds_of(cost: str) -> float | None:
    """The seconds on two cores with which a figure's cost begins; None where it begins with something else.

    >>> seconds_of("1.5 minutes on 2 cores"), seconds_of("half a minute on 2 cores"), seconds_of("none beyond fig3a")
    (90.0, 30.0, 0.0)
    """
    if re.match(r"(none|nothing) beyond|collected with", cost):
        return 0.0
    found = re.match(r"(?:under )?([\d.]+|half a|an?) (s|min|minutes?|hours?) on 2 cores", cost)
    return (_AMOUNT.get(found[1]) or float(found[1])) * _UNIT[found[2][0]] if found else None


class _Stop(Exception):
    """A figure wants results, which are not computed yet."""


class _Counting(Lab):
    """A lab that notes the recipes a figure asks for and stops it there."""

    recipes: dict[str, Recipe]

    def run(self, recipes: Sequence[Recipe]) -> NoReturn:
        self.train_group(recipes)
        raise _Stop

    def train_group(self, recipes: Sequence[Recipe]) -> dict[str, Any]:
        self.recipes.update({recipe.hash: recipe for recipe in recipes})
        return {}

    def dataset(self, name: str, parameters: dict[str, Any], compute: Callable[[], Any]) -> NoReturn:
        raise _Stop

    def concurrently(self, *calls: Callable[[Lab], Any], at_once: int | None = None) -> NoReturn:
        for call in calls:
            _tried(call, self)
        raise _Stop


def _tried(call: Callable[[Lab], Any], lab: Lab) -> None:
    try:
        call(lab)
    except Exception:  # it was stopped, or cannot go on without the results: what it asked for is noted
        return


def runs_of(figures: Sequence[tuple[Figure, int]], out: Path, seeds: int | None, options: Any) -> tuple[int, int]:
    """How many runs figures ask for before they see results, and how many of these are stored.

    Args:
        figures: figures and their planned seeds.
        out: folder of the reproduction.
        seeds: those asked for.
        options: what the paper alone takes.
    """
    lab = _Counting(out, seeds=seeds, offline=True, workers=1, options=options)
    lab.recipes = {}
    for figure, planned in figures:
        _tried(figure.collect, lab.fork(None, planned))
    return len(lab.recipes), sum(lab.store.path(recipe).is_dir() for recipe in lab.recipes.values())


def plan(
    paper: Paper, figures: Sequence[str], out: Path, *, seeds: int | None = None, options: Any = None
) -> Iterator[str]:
    """Lines to be read before a reproduction begins: what it takes, and the claims that so many seeds cannot judge.

    Args:
        paper: the paper.
        figures: names of its figures (none: all of them).
        out: folder of runs, datasets and verdicts.
        seeds: of every figure (None: as many as each has planned).
        options: what the paper alone takes.

    Yields:
        The lines.
    """
    chosen = [paper.figure(name) for name in figures] or list(paper.figures)
    planned = {figure.id: planned_seeds(paper, figure, options) for figure in chosen}
    facts, cores = {}, usable_cores()
    with contextlib.suppress(DamagedError):  # which is set aside and made again
        facts = read_json(out / "facts.json", {})
    made = [f.id for f in chosen if facts.get(f.id, {}).get("seeds") == (seeds or planned[f.id])]
    runs, stored = runs_of([(f, planned[f.id]) for f in chosen], out, seeds, options)
    costs = {f.id: seconds_of(f.cost) for f in chosen if f.id not in made}
    total = sum((cost or 0) * max(1, (seeds or 0) / planned[name]) for name, cost in costs.items()) * CORES / cores
    unknown = [name for name, cost in costs.items() if cost is None]
    time = f"about {_duration(total)} on {cores} {'core' if cores == 1 else 'cores'}" if total else "time"
    if unknown:
        time += f"{', and' if total else ''} not known for {', '.join(unknown)}"
    elif not costs:
        time = "nothing to compute"
    size = (runs - stored) * MEGABYTES
    parent = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.is_dir())
    yield (
        f"{paper.id}: {_count(len(chosen), 'figure')}{f' ({len(made)} made here before)' if made else ''}, "
        + (f"at least {_count(runs, 'run')} ({stored} stored; the others about {size:.0f} MB), " if runs else "")
        + f"{time}; into {out}, {shutil.disk_usage(parent).free / 1e9:.0f} GB free"
    )
    yield from too_few(paper, chosen, {name: seeds or count for name, count in planned.items()})


def too_few(paper: Paper, figures: Sequence[Figure], seeds: dict[str, int]) -> Iterator[str]:
    """A line on the claims that cannot be judged, and one for every number of seeds that claims need.

    Args:
        paper: the paper.
        figures: those to come.
        seeds: how many each has, by its name.

    Yields:
        The lines, none where every claim can be judged.
    """
    claims = [(figure.id, claim) for figure in figures for claim in figure.claims]
    needed: dict[int, dict[str, list[str]]] = {}
    for name, claim in claims:
        if claim.min_seeds > seeds[name]:
            needed.setdefault(claim.min_seeds, {}).setdefault(name, []).append(claim.id)
    if not needed:
        return
    count = sum(len(ids) for by_figure in needed.values() for ids in by_figure.values())
    yield f"too few {paper.unit} to judge {count} of {_count(len(claims), 'claim')}; --seeds {max(needed)} judges all:"
    for least, by_figure in sorted(needed.items()):
        yield f"  {least} needed: " + "; ".join(f"{name}: {', '.join(ids)}" for name, ids in by_figure.items())


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _duration(seconds: float) -> str:
    """A time as one says it.

    >>> [_duration(seconds) for seconds in (8, 200, 10_000)]
    ['8 s', '3 min', '2.8 h']
    """
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
