"""`iclearn list`: the runs in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .parsing import parse


@dataclass(frozen=True)
class ListArgs:
    """List stored runs, newest first."""

    out: Path = Path("runs")
    """Folder of stored runs."""
    json: bool = False
    """Print as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn list``."""
    args = parse(ListArgs, argv, "iclearn list")
    import json

    from ..store.runs import Store

    runs = Store(args.out).list()
    if args.json:
        print(json.dumps([{**vars(s), "path": str(s.path)} for s in runs], indent=2))
        return 0
    if not runs:
        print(f"no runs in {args.out}")
        return 0
    from rich.table import Column, Table

    from ..report.paper import print_table

    table = Table(Column("run", no_wrap=True), "model", "task", "steps", "final loss", "status", "engine", "created")
    for s in runs:
        table.add_row(s.run_id, *s.describe(), str(s.steps), f"{s.final_loss:.6f}", s.status, s.engine, s.created)
    print_table(table, 140)
    return 0
