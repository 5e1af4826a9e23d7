"""`iclearn report [FOLDERS…]`: what was reproduced, trained or swept as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..core.errors import IclearnError
from .parsing import parse


@dataclass(frozen=True)
class ReportArgs:
    """Write one HTML file of what `iclearn reproduce` stored: verdicts, figures, curves, recipes, cards, explorer; or
    of a store of runs, or of a sweep: a phase diagram whose cells show their runs."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional] = ()
    """Folders that `iclearn reproduce` or `iclearn sweep` wrote, or stores of runs, such as `runs`. Default: all under
    `reproduced`."""
    out: Path = Path("report.html")
    """The file to write."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn report``."""
    args = parse(ReportArgs, argv, "iclearn report")
    if args.out.suffix not in (".html", ".htm"):
        raise IclearnError(f"--out {args.out.name}: the name must end in .html")
    folders = args.folders or tuple(sorted(p.parent for p in Path("reproduced").glob("*/card.json")))
    if not folders:
        raise IclearnError("nothing is reproduced here yet: run `iclearn reproduce PAPER`, or name folders")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # nothing is trained
    from ..report.whole import write_whole_report

    path = write_whole_report(folders, args.out)
    count = "one folder" if len(folders) == 1 else f"{len(folders)} folders"
    print(f"report of {count} written to {path} ({path.stat().st_size / 2**20:.1f} MB)")
    return 0
