"""`iclearn reproduce PAPER [FIGURE…]`: the paper again, figure by figure, and a verdict for every claim."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from .output import json_text
from .parsing import parse, use_device


@dataclass(frozen=True)
class ReproduceArgs:
    """Reproduce a paper: train, draw, judge. Data already stored is not computed again.

    Papers: zhang2025, xie2025, li2024, xie2025-llm, oswald2023, ahn2023, fu2024, vladymyrov2024, looped, depth-rates
    (our own), raventos2023, lu2025, letey2026, linear-transience (our own), garg2022, and those of installed packages.
    `iclearn reproduce PAPER --help` lists the options that one paper alone takes.
    """

    paper: Annotated[str, tyro.conf.Positional]
    """Which paper."""
    figures: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Figures to do; all of them when none is named."""
    seeds: int | None = None
    """Seeds of a figure with random starts. Default: the paper's own number."""
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
    """List the figures and their claims, and do nothing."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the verdicts as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn reproduce``. The exit code is 1 where a claim that should hold does not."""
    from ..core.registry import PAPERS
    from ..papers.collect import load_paper

    named = next((word for word in argv if word in PAPERS.names()), None)
    own: Any = load_paper(named).options if named is not None else None
    args = parse(_with_options(own) if own is not None else ReproduceArgs, argv, "iclearn reproduce")
    use_device(args.device)
    paper = load_paper(args.paper)
    if args.list:
        chosen = [paper.figure(name) for name in args.figures] or paper.figures
        for figure in chosen:
            print(f"{figure.id}: {figure.title}" + (f" ({figure.cost})" if figure.cost else ""))
            for claim in figure.claims:
                print(f"    {claim.id}: {claim.statement}")
        return 0
    from ..report.paper import stale_sentence, summary_line, terminal_table
    from ..report.reproduction import reproduce

    given = {f.name: getattr(args, f.name) or None for f in fields(own)} if own is not None else {}
    given.pop("device", None)
    with status_line(quiet=args.quiet) as say:
        report = reproduce(
            paper, args.figures, seeds=args.seeds, out=args.out, draw_only=args.draw_only, workers=args.workers,
            refresh=args.refresh, progress=say, device=args.device, **given,
        )  # fmt: skip
    verdicts = [v.to_dict() for v in report.verdicts]
    if args.json:
        print(json_text({"paper": paper.id, "page": report.page, "verdicts": verdicts}))
    elif not args.quiet:
        terminal_table(verdicts)
        print(f"{summary_line(verdicts, paper)} Page: {report.page}")
    if report.stale:
        print(f"iclearn reproduce: {stale_sentence(report.stale)}", file=sys.stderr)
    for v in report.broken:
        print(f"{v.figure}/{v.claim} should hold and is {v.verdict}: {v.statement}", file=sys.stderr)
    return 1 if report.broken else 0


def _with_options(own: Any) -> Any:
    """The arguments of every paper and those of one: an option that is not given is None."""
    hints, taken = get_type_hints(own), {f.name for f in fields(ReproduceArgs)}
    more: list[Any] = [
        (f.name, *((bool, False) if hints[f.name] is bool else (hints[f.name] | None, None))) for f in fields(own)
    ]
    made = make_dataclass("Args", [m for m in more if m[0] not in taken], bases=(ReproduceArgs,), frozen=True)
    made.__doc__ = f"{ReproduceArgs.__doc__}\n{own.__doc__}"
    return made


@contextmanager
def status_line(*, quiet: bool = False) -> Iterator[Callable[[str, str], None]]:
    """What is being done: a spinner on a terminal, one line a figure elsewhere, nothing where it is to be quiet."""
    if quiet:
        yield lambda figure, text: None
        return
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status("…") as spinner:
            yield lambda figure, text: spinner.update(f"{figure}: {text}")
        return
    begun = set()

    def say(figure: str, text: str) -> None:
        if figure not in begun:
            print(f"{figure} …", file=sys.stderr, flush=True)
        begun.add(figure)

    yield say
