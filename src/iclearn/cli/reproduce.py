"""`iclearn reproduce PAPER [FIGURE…]`: the paper again, figure by figure, and a verdict for every claim."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import tyro

from ..core.errors import IclearnError
from .output import json_text
from .parsing import parse, use_device

if TYPE_CHECKING:
    from ..papers.base import Paper
    from ..papers.collect import FigureResult


@dataclass(frozen=True)
class ReproduceArgs:
    """Reproduce a paper: train, draw, judge. Data already stored is not computed again.

    Papers: zhang2025, xie2025, li2024, xie2025-llm, oswald2023, ahn2023, fu2024, vladymyrov2024, looped, depth-rates
    (our own), raventos2023, lu2025, letey2026, linear-transience (our own), garg2022, and those of installed packages.
    `iclearn reproduce PAPER --help` lists the options that one paper alone takes.

    The exit status is 0 where every claim came out as expected, 1 where a claim that should hold is contradicted or
    failed, or where a verdict differs from the stored one over as many seeds, and 2 where the command is wrong.
    """

    paper: Annotated[str, tyro.conf.Positional]
    """Which paper."""
    figures: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Figures to do; all of them when none is named."""
    seeds: int | None = None
    """Seeds of every figure with random starts. Default: the number that each figure has planned (--list)."""
    out: Path | None = None
    """Folder for figures, data, verdicts and card. Default: reproduced/PAPER."""
    draw_only: bool = False
    """Draw and judge what is stored; never simulate."""
    refresh: bool = False
    """Compute again what is stored but was made by other code than today's."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to run."""
    workers: int | None = None
    """Runs side by side. Default: one per core."""
    list: bool = False
    """List the figures with their seeds and costs, and their claims; do nothing."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the verdicts as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn reproduce``."""
    from ..core.registry import PAPERS
    from ..papers.collect import load_paper

    named = next((word for word in argv if word in PAPERS.names()), None)
    own: Any = load_paper(named).options if named is not None else None
    args = parse(_with_options(own) if own is not None else ReproduceArgs, argv, "iclearn reproduce")
    use_device(args.device)
    paper = load_paper(args.paper)
    given = {f.name: getattr(args, f.name) or None for f in fields(own)} if own is not None else {}
    given.pop("device", None)
    if args.list:
        _list(paper, args, own, given)
        return 0
    from ..papers.collect import paper_options
    from ..papers.planning import plan
    from ..report.paper import stale_sentence, summary_line, terminal_table
    from ..report.reproduction import reproduce

    told = not (args.quiet or args.json)
    if told and not args.draw_only:
        out = args.out or Path("reproduced") / paper.id
        options = paper_options(paper, given, out, device=args.device)
        for line in plan(paper, args.figures, out, seeds=args.seeds, options=options):
            print(line, flush=True)
    with Status(args.quiet) as status:

        def finished(result: FigureResult) -> None:
            status.hide()
            terminal_table([v.to_dict() for v in result.verdicts])
            sys.stdout.flush()
            status.show()

        report = reproduce(
            paper, args.figures, seeds=args.seeds, out=args.out, draw_only=args.draw_only, workers=args.workers,
            refresh=args.refresh, progress=status.say, device=args.device, finished=finished if told else None, **given,
        )  # fmt: skip
    verdicts = [v.to_dict() for v in report.verdicts]
    if args.json:
        print(json_text({"paper": paper.id, "page": report.page, "verdicts": verdicts}))
    elif told:
        print(f"{summary_line(verdicts, paper)}\nopen it: {report.page}")
    if report.stale:
        print(f"iclearn reproduce: {stale_sentence(report.stale)}", file=sys.stderr)
    for v in report.broken:
        print(f"{v.figure}/{v.claim} should hold and is {v.verdict}: {v.statement}", file=sys.stderr)
    for v, stored in report.differing:
        print(f"{v.figure}/{v.claim} was {stored} here and is {v.verdict}: {v.statement}", file=sys.stderr)
    return 1 if report.broken or report.differing else 0


def _list(paper: Paper, args: ReproduceArgs, own: Any, given: dict[str, Any]) -> None:
    """Print figures with seeds and costs, their claims, and what all of it takes."""
    from ..papers.collect import planned_seeds
    from ..papers.planning import plan

    options = None
    with contextlib.suppress(IclearnError):  # the figures can be listed without what their runs need
        options = own.of(given) if own is not None else None
    for figure in [paper.figure(name) for name in args.figures] or paper.figures:
        seeds = args.seeds or planned_seeds(paper, figure, options)
        unit = paper.unit if seeds > 1 else paper.unit.removesuffix("s")
        print(f"{figure.id}: {figure.title} ({seeds} {unit}{f'; {figure.cost}' if figure.cost else ''})")
        for claim in figure.claims:
            print(f"    {claim.id}: {claim.statement}" + (f" [at least {claim.min_seeds}]" if claim.min_seeds else ""))
    for line in plan(paper, args.figures, args.out or Path("reproduced") / paper.id, seeds=args.seeds, options=options):
        print(line)


def _with_options(own: Any) -> Any:
    """The arguments of every paper and those of one: an option that is not given is None."""
    hints, taken = get_type_hints(own), {f.name for f in fields(ReproduceArgs)}
    more: list[Any] = [
        (f.name, *((bool, False) if hints[f.name] is bool else (hints[f.name] | None, None))) for f in fields(own)
    ]
    made = make_dataclass("Args", [m for m in more if m[0] not in taken], bases=(ReproduceArgs,), frozen=True)
    made.__doc__ = f"{ReproduceArgs.__doc__}\n{own.__doc__}"
    return made


class Status:
    """What is being done: a spinner on a terminal, one line a figure elsewhere, nothing where it is to be quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet, self.begun = quiet, set[str]()
        self.spinner: Any = None
        if sys.stderr.isatty() and not quiet:
            from rich.console import Console

            self.spinner = Console(stderr=True).status("…")

    def say(self, figure: str, text: str) -> None:
        """Tell what a figure is doing."""
        if self.spinner is not None:
            self.spinner.update(f"{figure}: {text}")
        elif not self.quiet and figure not in self.begun:
            print(f"{figure} …", file=sys.stderr, flush=True)
        self.begun.add(figure)

    def __enter__(self) -> Status:
        self.show()
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def show(self) -> None:
        """Put the spinner on the screen."""
        if self.spinner is not None:
            self.spinner.start()

    def hide(self) -> None:
        """Take it off, so that something else can be printed."""
        if self.spinner is not None:
            self.spinner.stop()
