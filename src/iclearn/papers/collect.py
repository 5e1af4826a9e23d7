"""Reproduce a paper: collect the data of its figures, judge every claim, keep verdicts and facts beside them."""

from __future__ import annotations

import functools
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..core.atomic import set_aside, write_text
from ..core.errors import DamagedError, IclearnError, IclearnWarning
from ..core.registry import PAPERS as PAPERS
from ..core.threads import one_core_each
from ..store.locks import held
from .base import Figure, Paper, PaperOptions, Verdict
from .lab import Lab


@dataclass(frozen=True)
class FigureResult:
    """A figure collected and judged."""

    figure: Figure
    data: Any
    verdicts: list[Verdict]
    facts: dict[str, Any]


def load_paper(name: str) -> Paper:
    """A paper by its name."""
    return PAPERS.get(name)


def default_seeds(paper: Paper, out: Path | None = None, options: Any = None) -> int:
    """The seeds of a paper, or of its options, when none are asked for.

    Given a folder, those its stored options were run with.
    """
    kept = read_json(out / "options.json", {}) if out is not None else {}
    own = options.usual_seeds if isinstance(options, PaperOptions) else None
    return kept.get("seeds", own or paper.seeds)


def paper_options(
    paper: Paper, given: Mapping[str, Any], out: Path, *, draw_only: bool = False, device: str = "auto"
) -> Any:
    """The options of a paper, from those given (None: not given), checked; None for a paper that takes none.

    They are kept in ``out/options.json``, so that drawing again needs no flags.
    """
    told = {name: value for name, value in given.items() if value is not None}
    options: Any = paper.options
    if options is None:
        if told:
            flags = ", ".join(f"--{name.replace('_', '-')}" for name in told)
            raise IclearnError(f"{paper.id} does not take {flags}: leave that out")
        return None
    kept = read_json(out / "options.json", {}) if draw_only else {}
    if draw_only and not kept:
        raise IclearnError(f"nothing of {paper.id} is stored in {out} yet: reproduce once without --draw-only")
    for name, value in told.items():
        if kept and kept.get(name) != value:
            flag = f"--{name.replace('_', '-')} {value}"
            raise IclearnError(f"what is stored in {out} was not made with {flag}: reproduce without --draw-only")
    return options.of({**kept, **told, "device": device})


def collect(
    paper: Paper,
    figures: Sequence[str],
    out: Path,
    *,
    seeds: int = 6,
    draw_only: bool = False,
    workers: int | None = None,
    progress: Callable[[str, str], None] | None = None,
    each: Callable[[FigureResult], None] | None = None,
    options: Any = None,
    refresh: bool = False,
) -> list[FigureResult]:
    """Collect and judge figures (all of them when none is named), writing verdicts.json and facts.json in `out`.

    `each` is called with every figure as soon as it is judged (to draw it while the next one is trained).

    Verdicts of figures not asked for this time are kept from earlier runs.
    """
    chosen = [paper.figure(name) for name in figures] or list(paper.figures)
    _check_owner(paper, out)
    lab = Lab(out, seeds=seeds, offline=draw_only, workers=workers, options=options, refresh=refresh)
    if options is not None:
        write_json(out / "options.json", asdict(options) | {"seeds": seeds})

    def one(figure: Figure, elsewhere: dict[str, Any] | None) -> FigureResult:
        page = lab.fork(None if progress is None else functools.partial(progress, figure.id))
        begin = time.perf_counter()
        data = figure.collect(page)
        verdicts = figure.judge(paper.id, data)
        if page.facts.stale:  # what other code made is recognized, and never silently judged
            verdicts = [replace(verdict, verdict="outdated") for verdict in verdicts]
        own = {**asdict(page.facts), "total_seconds": time.perf_counter() - begin}
        facts = {**(elsewhere or own), "seeds": seeds}
        return FigureResult(figure, data, verdicts, facts)

    results = {}
    processes = 1 if draw_only or options is not None or paper.id not in PAPERS.names() else side_by_side(lab.workers)
    with one_core_each():  # what is large enough for several cores is divided among threads by the figure
        for figure, elsewhere in _collected_apart(paper, chosen, lab, min(processes, len(chosen))):
            results[figure.id] = one(figure, elsewhere)
            _remember(paper, results[figure.id], out)
            if each is not None:
                each(results[figure.id])
    return [results[figure.id] for figure in chosen]


def _check_owner(paper: Paper, out: Path) -> None:
    """Refuse a folder in which another paper was reproduced: one page, one set of verdicts, one paper."""
    try:
        owners = {str(verdict.get("paper")) for verdict in read_json(out / "verdicts.json", [])}
    except DamagedError:
        return
    if owners - {paper.id}:
        raise IclearnError(f"{out} holds {min(owners - {paper.id})}: choose another folder with --out")


def side_by_side(workers: int) -> int:
    """Figures collected at a time, each by a process of its own: where there are cores for it."""
    return max(1, workers // 2)


def _collected_apart(
    paper: Paper, figures: Sequence[Figure], lab: Lab, processes: int
) -> Iterator[tuple[Figure, dict[str, Any] | None]]:
    """The figures, each as soon as its data is in the store, with the facts that the process that made it noted.

    With one process at once and without facts, for the caller to collect.

    Processes and not threads, because most of the work is tracing programs, which Python does one at a time. They share
    an accelerator, so none takes its memory beforehand.
    """
    if processes == 1:
        yield from ((figure, None) for figure in figures)
        return
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read where JAX starts, here and in the others
    settings = {"seeds": lab.num_seeds, "workers": max(2, lab.workers // processes), "refresh": lab.refresh}
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_collect_one, paper.id, figure.id, lab.root, settings): figure for figure in figures}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def _collect_one(paper: str, figure: str, out: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Fill the store with what one figure needs and return the facts; the caller reads the data, and judges."""
    lab, begin = Lab(out, **settings), time.perf_counter()
    with one_core_each():
        load_paper(paper).figure(figure).collect(lab)
    return {**asdict(lab.facts), "total_seconds": time.perf_counter() - begin}


def _remember(paper: Paper, result: FigureResult, out: Path) -> None:
    """Merge one figure's verdicts and facts into the files, in the order of the paper."""
    with held(out / ".locks" / "verdicts"):
        _merge(paper, result, out)


def _merge(paper: Paper, result: FigureResult, out: Path) -> None:
    order = {figure.id: i for i, figure in enumerate(paper.figures)}
    stored = _read_or_set_aside(out / "verdicts.json", [], ("claim", "figure", "verdict"))
    last = {v["claim"]: v for v in stored if v["figure"] == result.figure.id}
    verdicts = [v for v in stored if v["figure"] != result.figure.id]
    for verdict in (v.to_dict() for v in result.verdicts):
        known = last.get(verdict["claim"], verdict)
        if known.get("definition") != verdict["definition"]:  # another claim under the same name
            verdict["changed_from"] = known["verdict"]
        verdicts.append(verdict)
    write_json(out / "verdicts.json", sorted(verdicts, key=lambda v: order.get(v["figure"], len(order))))
    facts = _read_or_set_aside(out / "facts.json", {}, ("recipes", "content", "simulated_seconds"))
    before = facts.get(result.figure.id)
    if before and result.facts["simulated_seconds"] < 0.1 * before["simulated_seconds"]:
        # data was reused: what it cost is what it cost when it was made
        for name in ("simulated_seconds", "total_seconds", "peak_memory_mb"):
            result.facts[name] = before[name]
    facts[result.figure.id] = result.facts
    write_json(out / "facts.json", facts)


def read_json(path: Path, default: Any) -> Any:
    """The value in a JSON file, `default` where there is none.

    Args:
        path: the file. One that is damaged, or that holds another kind of value than the default, is refused.
        default: an empty list (the file is one of tables) or an empty table.
    """
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        return default
    except ValueError:
        raise DamagedError(f"{path} is damaged: remove it and reproduce again") from None
    tables = value if isinstance(default, list) else [value]
    if not isinstance(value, type(default)) or not all(isinstance(table, dict) for table in tables):
        raise DamagedError(f"{path} is damaged: remove it and reproduce again")
    return value


def _read_or_set_aside(path: Path, default: Any, needed: Sequence[str] = ()) -> Any:
    """As `read_json`; a damaged file is set aside, with a warning, and counts as none."""
    try:
        value = read_json(path, default)
        tables = value if isinstance(default, list) else value.values()
        if all(isinstance(table, dict) and all(name in table for name in needed) for table in tables):
            return value
    except DamagedError:
        pass
    warnings.warn(f"{path} is damaged: it is kept as {set_aside(path).name}", IclearnWarning, stacklevel=2)
    return default


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")
