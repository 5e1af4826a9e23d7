"""The field side by side: the same work in iclearn and in the model of every public system, and the page about it.

python -m benchmarks.side_by_side --measure            measure here, into benchmarks/results/side-by-side-cpu.json
python -m benchmarks.side_by_side --table              the page docs/side-by-side.md from what is stored
python -m benchmarks.side_by_side --measure --torch-device cuda --out benchmarks/results/side-by-side-h200.json
                                                       the steps alone, with PyTorch and JAX on a GPU
python -m benchmarks.side_by_side --agreement          every golden file again, into benchmarks/results/agreement.json

`--measure` on a processor takes two to four minutes on two quiet cores; `--agreement` takes no times, so that other
work does not matter to it. Costs are processor time where other work on the machine could lengthen wall time; on a GPU
they are wall time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
STORED, PAGE = ROOT / "benchmarks" / "results" / "side-by-side-cpu.json", ROOT / "docs" / "side-by-side.md"
AGREEMENT = ROOT / "benchmarks" / "results" / "agreement.json"


def measured(*, quick: bool, device: str, only: Sequence[str] = ()) -> dict[str, Any]:
    """Everything that `--measure` takes, as JSON. A part that fails is named under ``failed`` and stops no other.

    Args:
        quick: tiny sizes, which show that all works and no speed.
        device: of PyTorch, cpu or cuda; on cuda the steps alone.
        only: parts to take (systems, cost, memory, startup); none: all.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch shares the GPU
    os.environ["ICLEARN_COMPILED"] = "off"  # the loop in JAX; compiled code has a page of its own
    from . import side_costs, side_systems
    from .machine import machine, now, source_digest, versions

    begin = time.perf_counter()
    found: dict[str, Any] = {
        "format": 1, "quick": quick, "started": now(), "machine": machine(), "versions": versions(),
        "source": source_digest(), "load_average_before": list(os.getloadavg()), "systems": [], "failed": [],
    }  # fmt: skip

    def say(line: str) -> None:
        print(f"{time.perf_counter() - begin:5.0f} s  {line}", file=sys.stderr, flush=True)

    def take(name: str, part: Any) -> Any:
        try:
            return part()
        except Exception as error:
            found["failed"].append({"name": name, "error": f"{type(error).__name__}: {error}"})
            say(f"{name}: FAILED, {type(error).__name__}: {error}")
            return None

    for system in side_systems.systems(quick) if not only or "systems" in only else ():
        row = take(system.name, lambda s=system: side_systems.compare(s, repeats=1 if quick else 3, device=device))
        if row is not None:
            found["systems"].append(row)
            say(f"{system.name}: {min(r['processor_us'] for r in row['ours']):.4g} µs of processor a step")
    parts = {
        "cost": lambda: side_costs.cost(quick, say), "memory": lambda: side_costs.memory(quick),
        "startup": lambda: side_costs.startup(quick),
    }  # fmt: skip
    for name, part in parts.items() if device == "cpu" else ():
        if not only or name in only:
            found[name] = take(name, part)
            say(name)
    return found | {
        "load_average_after": list(os.getloadavg()), "finished": now(), "seconds": time.perf_counter() - begin,
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure and store")
    parser.add_argument("--agreement", action="store_true", help="verify the golden files of every system, and store")
    parser.add_argument("--table", action="store_true", help="write the page")
    parser.add_argument("--out", type=Path, help="where the JSON, or the page alone, goes")
    parser.add_argument("--torch-device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="systems, cost, memory, startup")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to see that it runs")
    args = parser.parse_args(argv)
    if not (args.measure or args.table or args.agreement):
        parser.error("say --measure, --agreement or --table")
    failed = 0
    if args.agreement:
        from .harness import write
        from .machine import now, source_digest, versions
        from .side_costs import agreement

        files = agreement(lambda line: print(line, file=sys.stderr, flush=True))
        made = {"made": now(), "source": source_digest(), "versions": versions(), "systems": files}
        write(made, AGREEMENT)
    if args.measure:
        from .harness import write

        found = measured(quick=args.quick, device=args.torch_device, only=args.only)
        write(found, args.out or STORED)
        failed = len(found["failed"])
    if args.table:
        from .side_page import page

        (PAGE if args.measure or args.out is None else args.out).write_text(page(ROOT / "benchmarks" / "results"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
