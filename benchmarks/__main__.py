"""`python -m benchmarks [--out FILE.json] [--only NAME ...] [--quick] [--list]`, from the root of the repository."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

# Programs kept from earlier runs would hide the compile times of this one.
os.environ["ICLEARN_COMPILE_CACHE"] = "off"

from . import against_torch, online, papers, recompile, shell, steps, streaming, theory_points
from .harness import as_json, run, selected, write
from .measure import Case, Scale


def all_cases(scale: Scale) -> Iterator[Case]:
    for part in (steps, online, against_torch, streaming, recompile, theory_points, shell, papers):
        yield from part.cases(scale)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure iclearn and write JSON.")
    parser.add_argument("--out", type=Path, help="write the JSON here (default: print it)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases whose names begin so (paper: only when named)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, and no speed")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and stop")
    args = parser.parse_args(argv)
    scale = Scale.small() if args.quick else Scale.full()
    if args.list:
        print("\n".join(case.name for case in all_cases(scale) if case.name.startswith(tuple(args.only or [""]))))
        return 0
    chosen = selected(all_cases(scale), args.only)
    if not chosen:
        parser.error(f"no case begins with {' or '.join(args.only)}; --list shows them all")
    report = run(chosen, quick=scale.quick)
    if args.out is None:
        sys.stdout.write(as_json(report))
    else:
        write(report, args.out)
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
