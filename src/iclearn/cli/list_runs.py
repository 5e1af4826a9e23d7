"""`iclearn list`: the runs in a folder."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from ..core.errors import IclearnError
from .output import fields_text, json_text
from .parsing import parse


@dataclass(frozen=True)
class ListArgs:
    """List stored runs, newest first.

    The column "differs" has the recipe's fields that are not at their defaults, less those that all runs listed share.
    """

    where: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Which runs: task.noise=0.25 (or noise=0.25) for a field of the recipe; any other word is looked for in the run's
    name, model, task, status, engine and changed fields. With several, runs that fit all of them."""
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
    runs, others = Store(args.out).survey(*args.where, verify=args.check)
    for reason in others.values():
        print(f"iclearn list: {reason}", file=sys.stderr)
    code = 1 if args.check and others else 0
    if args.json:
        print(json_text([vars(s) for s in runs]))
        return code
    if not runs:
        print(f"no runs in {args.out}{' fit ' + ' '.join(args.where) if args.where else ''}")
        return code
    from rich.table import Column, Table

    from ..report.paper import print_table

    changed = [s.values(changed=True) for s in runs]
    others = changed[1:] or [{}]  # one run shares nothing
    shared = {"steps"} | {p for p in changed[0] if all(p in c and c[p] == changed[0][p] for c in others)}
    titles = "model", "task", "differs", "steps", "final loss", "status", "engine", "created"
    table = Table(Column("run", no_wrap=True), *titles)
    for s, own in zip(runs, changed, strict=True):
        differs = fields_text({path: value for path, value in own.items() if path not in shared})
        row = *s.describe(), differs, str(s.steps), f"{s.final_loss:.6f}", s.status, s.engine, s.created
        table.add_row(s.run_id, *row)
    print_table(table, 160)
    return code
