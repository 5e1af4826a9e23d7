"""`iclearn list`: the runs in a folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import IclearnError
from .output import json_text
from .parsing import parse


@dataclass(frozen=True)
class ListArgs:
    """List stored runs, newest first."""

    out: Path = Path("runs")
    """Folder of stored runs."""
    check: bool = False
    """Read every run whole and verify its checksum."""
    json: bool = False
    """Print as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn list``."""
    args = parse(ListArgs, argv, "iclearn list")
    from ..store.runs import Store

    if not args.out.is_dir() and (args.out.exists() or args.out != ListArgs.out):
        raise IclearnError(
            f"--out {args.out} is a file; give a folder" if args.out.exists() else f"no folder {args.out}"
        )
    list(args.out.iterdir()) if args.out.is_dir() else []  # a folder that may not be read is an error, not empty
    runs, others = Store(args.out).survey(verify=args.check)
    for reason in others.values():
        print(f"iclearn list: {reason}", file=sys.stderr)
    code = 1 if args.check and others else 0
    if args.json:
        print(json_text([vars(s) for s in runs]))
        return code
    if not runs:
        print(f"no runs in {args.out}")
        return code
    from rich.table import Column, Table

    from ..report.paper import print_table

    table = Table(Column("run", no_wrap=True), "model", "task", "steps", "final loss", "status", "engine", "created")
    for s in runs:
        table.add_row(s.run_id, *s.describe(), str(s.steps), f"{s.final_loss:.6f}", s.status, s.engine, s.created)
    print_table(table, 140)
    return code
