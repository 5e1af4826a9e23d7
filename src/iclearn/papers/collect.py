"""Reproduce a paper: collect the data of its figures, judge every claim, keep verdicts and facts beside them."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from ..core import interrupts
from ..core.atomic import set_aside, write_text
from ..core.errors import DamagedError, IclearnError, IclearnWarning
from ..core.processes import no_main_module
from ..core.registry import PAPERS as PAPERS
from ..core.threads import one_core_each
from ..store.locks import held
from .base import Figure, Paper, PaperOptions, Verdict, Word
from .lab import Lab

Progress = Callable[[str, str], None]


@dataclass(frozen=True)
class FigureResult:
    """A figure collected and judged.

    Args:
        figure: the figure.
        verdicts: of its claims.
        facts: what its data cost and consist of.
        gather: reads its data, which may have been collected by another process.
        differing: verdicts that are not the stored ones, as `Report.differing`.
    """

    figure: Figure
    verdicts: list[Verdict]
    facts: dict[str, Any]
    gather: Callable[[], Any]
    differing: tuple[tuple[Verdict, Word], ...] = ()

    @functools.cached_property
    def data(self) -> Any:
        """What the figure is drawn and judged from."""
        return self.gather()


Each = Callable[[FigureResult], None]


def load_paper(name: str) -> Paper:
    """A paper by its name."""
    return PAPERS.get(name)


def planned_seeds(paper: Paper, figure: Figure, options: Any = None) -> int:
    """The seeds of a figure when none are asked for: its own, those of the options, or those of the paper."""
    own = options.usual_seeds if isinstance(options, PaperOptions) else None
    return figure.seeds or own or paper.seeds


def stored_seeds(out: Path) -> int | None:
    """The seeds that were asked for when the options in a folder were stored; None for those planned."""
    return read_json(out / "options.json", {}).get("seeds")


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
    seeds: int | None = None,
    draw_only: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    each: Each | None = None,
    options: Any = None,
    refresh: bool = False,
    finished: Each | None = None,
) -> list[FigureResult]:
    """Collect and judge figures (all of them when none is named), writing verdicts.json and facts.json in `out`.

    Figures are collected side by side, each with its judging and `each` in a process of its own, where there are cores
    for it and the paper is registered; otherwise one after the other in this process.

    Args:
        paper: the paper.
        figures: names of its figures.
        out: folder of runs, datasets and verdicts.
        seeds: of every figure with random starts (None: as many as each has planned).
        draw_only: never simulate.
        workers: runs side by side (None: one a core).
        progress: called with (figure, what is being done).
        each: called with every figure as soon as it is judged (to draw it), in the process that judged it: it must be
            one that can be pickled.
        options: what this paper alone takes.
        refresh: compute again what is stored but was made by other code than today's.
        finished: called with every figure as soon as it is judged and its verdicts are stored, in this process.

    Returns:
        The figures in the order asked for. Verdicts of others are kept from earlier runs.
    """
    chosen = [paper.figure(name) for name in figures] or list(paper.figures)
    _check_owner(paper, out)
    lab = Lab(out, seeds=seeds, offline=draw_only, workers=workers, options=options, refresh=refresh)
    if options is not None:
        write_json(out / "options.json", asdict(options) | ({} if seeds is None else {"seeds": seeds}))
    apart = options is None and PAPERS.found_elsewhere(paper.id) is paper
    processes = min(side_by_side(lab.workers), len(chosen)) if apart else 1
    results = {}
    for result in (_one_by_one if processes == 1 else _side_by_side)(paper, chosen, lab, progress, each, processes):
        result = results[result.figure.id] = replace(result, differing=_remember(paper, result, out))
        if finished is not None:
            finished(result)
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
    """Figures collected at a time, each by a process of its own: one for two cores, or for one where there are two.

    Args:
        workers: runs that may be made at a time.

    >>> [side_by_side(workers) for workers in (1, 2, 4, 16)]
    [1, 2, 2, 8]
    """
    return max(min(workers, 2), workers // 2)


def _judged(paper: Paper, figure: Figure, lab: Lab) -> FigureResult:
    """One figure, collected and judged here."""
    begin = time.perf_counter()
    data = figure.collect(lab)
    verdicts = figure.judge(paper.id, data, lab.num_seeds)
    if lab.facts.stale:  # what other code made is recognized, and never silently judged
        verdicts = [replace(verdict, verdict="outdated", planned={}) for verdict in verdicts]
    facts = {**asdict(lab.facts), "total_seconds": time.perf_counter() - begin, "seeds": lab.num_seeds}
    return FigureResult(figure, verdicts, facts, lambda: data)


def _one_by_one(
    paper: Paper, figures: Sequence[Figure], lab: Lab, progress: Progress | None, each: Each | None, _: int
) -> Iterator[FigureResult]:
    with one_core_each():  # what is large enough for several cores is divided among threads by the figure
        for figure in figures:
            page = lab.fork(
                progress and functools.partial(progress, figure.id), planned_seeds(paper, figure, lab.options)
            )
            result = _judged(paper, figure, page)
            yield result
            if each is not None:
                each(result)


def _side_by_side(
    paper: Paper, figures: Sequence[Figure], lab: Lab, progress: Progress | None, each: Each | None, processes: int
) -> Iterator[FigureResult]:
    """The figures, each as soon as a process has collected and judged it.

    Processes and not threads, because most of the work is tracing programs, judging and drawing, which Python does one
    at a time. They share an accelerator, so none takes its memory beforehand. Two cores are used by each
    of two processes: one often waits for runs that the other is making for both.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # read where JAX starts
    context = get_context("spawn")
    workers = max(2, lab.workers // processes)
    settings = {"seeds": lab.asked_seeds, "offline": lab.offline, "workers": workers, "refresh": lab.refresh}
    sys.warnoptions.append(_NO_WARNING)
    said = context.SimpleQueue()
    listening = threading.Thread(target=_pass_on, args=(said, progress), daemon=True)
    listening.start()
    begin = (os.getpid(), said)
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin_process, initargs=begin)
    try:
        with no_main_module():  # the processes start with the first figure
            waiting = {
                pool.submit(_figure_apart, paper.id, figure.id, lab.root, settings, each): figure for figure in figures
            }
        for done in as_completed(waiting):
            figure = waiting[done]
            yield FigureResult(figure, *done.result(), functools.partial(_read_again, paper, figure, lab))
    finally:
        pool.shutdown(cancel_futures=True)
        said.put(None)
        listening.join()
        sys.warnoptions.remove(_NO_WARNING)


def _read_again(paper: Paper, figure: Figure, lab: Lab) -> Any:
    return figure.collect(lab.fork(None, planned_seeds(paper, figure)))


def _pass_on(said: Any, progress: Progress | None) -> None:
    """Call `progress` with what processes say, until None comes."""
    while (words := said.get()) is not None:
        if progress is not None:
            progress(*words)


# After Ctrl-C this process ends at once, and Python's own helper, which cleans up behind it, would say that it does.
_NO_WARNING = "ignore:resource_tracker:UserWarning"
_said: Any = None  # in a process that collects figures: where to say what is being done


def _begin_process(parent: int, said: Any) -> None:
    """Set up a process that collects figures: Ctrl-C, and an end when its parent has ended."""
    global _said
    _said = said
    interrupts.install("")
    interrupts.end_with(parent)


def _figure_apart(
    paper: str, name: str, out: Path, settings: dict[str, Any], each: Each | None
) -> tuple[list[Verdict], dict[str, Any]]:
    """Collect, judge and draw one figure in a process of its own; verdicts and facts are sent back."""
    known = load_paper(paper)

    def say(text: str) -> None:
        _said.put((name, text))

    with one_core_each():
        figure = known.figure(name)
        result = _judged(known, figure, Lab(out, **settings).fork(say, planned_seeds(known, figure)))
        if each is not None:
            each(result)
    return result.verdicts, result.facts


def _remember(paper: Paper, result: FigureResult, out: Path) -> tuple[tuple[Verdict, Word], ...]:
    """Merge one figure's verdicts and facts into the files, in the order of the paper; the verdicts that differ."""
    with held(out / ".locks" / "verdicts"):
        return _merge(paper, result, out)


def _merge(paper: Paper, result: FigureResult, out: Path) -> tuple[tuple[Verdict, Word], ...]:
    order = {figure.id: i for i, figure in enumerate(paper.figures)}
    stored = _read_or_set_aside(out / "verdicts.json", [], ("claim", "figure", "verdict"))
    last = {v["claim"]: v for v in stored if v["figure"] == result.figure.id}
    verdicts = [v for v in stored if v["figure"] != result.figure.id]
    differing = []
    for judged in result.verdicts:
        verdict = judged.to_dict()
        known = last.get(verdict["claim"], verdict)
        if known.get("definition") != verdict["definition"]:  # another claim under the same name
            verdict["changed_from"] = known["verdict"]
        elif (
            known.get("seeds") == verdict["seeds"]
            and known["verdict"] != verdict["verdict"]
            and not {known["verdict"], verdict["verdict"]} & {"outdated", "too few seeds"}
        ):
            differing.append((judged, known["verdict"]))
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
    return tuple(differing)


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
