"""`iclearn sweep SPEC.yaml`: train every point of a grid. `iclearn sweep status DIR`: how far it is."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ..core.errors import IclearnError
from .output import json_text
from .parsing import parse, use_device

if TYPE_CHECKING:
    from ..sweeps.plan import Plan

SHIPPED = ("plateaus", "prior-gap", "minima", "memorization", "pools")


@dataclass(frozen=True)
class SweepArgs:
    """Train every point of a grid and keep what became of each in one dataset. Killed at any moment, the same command
    goes on where it stopped."""

    what: Annotated[str, tyro.conf.Positional]
    """A YAML file, a shipped sweep (plateaus, prior-gap, minima, memorization, pools), or `status` with a folder."""
    folder: Annotated[Path | None, tyro.conf.Positional] = None
    """The folder of the sweep that `status` is asked about."""
    out: Path | None = None
    """Folder of the sweep. Default: sweeps/NAME-HASH (a shipped sweep: swept/NAME)."""
    workers: int = 0
    """Worker processes; 0: this one (of a cluster: one a core, or one job)."""
    cluster: str | None = None
    """Use Dask: local, a scheduler's address (tcp://host:8786), slurm, or pbs."""
    chunk: int | None = None
    """Runs computed and stored together at most. Default: what fits the device's memory."""
    path: Literal["auto", "vmap", "unrolled", "pallas", "compiled", "serial"] = "auto"
    """How a chunk is trained; compiled: by LLVM, with Numba installed; serial: one run at a time, the reference."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to run."""
    retries: int = 2
    """Further attempts on a chunk that failed."""
    preset: Literal["small", "medium", "full"] = "small"
    """Size of a shipped sweep: small or medium for a CPU, full for a GPU."""
    dry_run: bool = False
    """Print the plan and do nothing."""
    draw_only: bool = False
    """Draw and judge a shipped sweep that is stored; never train."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the outcome, or the status, as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn sweep``. The exit code is 1 where a shipped sweep contradicts a claim that should hold."""
    args = parse(SweepArgs, argv, "iclearn sweep")
    use_device(args.device)
    if args.what == "status":
        return show_status(args)
    if args.what not in SHIPPED:
        for flag in ("preset", "draw_only"):
            if getattr(args, flag) != getattr(SweepArgs, flag):
                raise IclearnError(
                    f"--{flag.replace('_', '-')} is for the shipped sweeps ({', '.join(SHIPPED)}): drop it"
                )
    if args.folder is not None:
        raise IclearnError(f"a folder is given with --out, not as {str(args.folder)!r}; only status takes it so")
    return shipped(args) if args.what in SHIPPED else from_file(args)


def show_status(args: SweepArgs) -> int:
    """``iclearn sweep status DIR``."""
    if args.folder is None:
        raise IclearnError("status needs the folder of a sweep: iclearn sweep status DIR")
    from ..sweeps.progress import status

    progress = status(args.folder)
    print(json_text(vars(progress)) if args.json else "\n".join(progress.lines()))
    return 0


def from_file(args: SweepArgs) -> int:
    """A sweep described by a YAML file."""
    if Path(args.what).suffix not in (".yaml", ".yml"):
        raise IclearnError(f"{args.what!r} is no YAML file and no shipped sweep ({', '.join(SHIPPED)})")
    from ..sweeps.api import carry_out, plan_from_file
    from ..sweeps.schema import STATUS

    plan = plan_from_file(args.what, chunk=args.chunk, compute=args.path)
    if args.dry_run:
        print("\n".join(plan_lines(plan)))
        return 0
    folder = carry_out(
        plan, args.out, workers=args.workers, cluster=args.cluster, retries=args.retries,
        progress=None if args.quiet else progress_line(), say=None if args.quiet else say,
    )  # fmt: skip
    codes = folder.dataset()["status"].values
    counts = ", ".join(f"{int((codes == code).sum())} {status.label}" for code, status in enumerate(STATUS))
    if args.json:
        ended = {status.label: int((codes == code).sum()) for code, status in enumerate(STATUS)}
        print(json_text({"name": plan.name, "runs": plan.num_runs, **ended, "folder": folder.root}))
    elif not args.quiet:
        how = f"xarray.open_zarr({str(folder.data_path)!r}, consolidated=False)"
        print(f"{plan.num_runs} runs: {counts}\nstored in {folder.root}; {how} reads it")
    return 0


def shipped(args: SweepArgs) -> int:
    """A sweep that comes with iclearn: trained, drawn and judged."""
    from ..papers.phase_diagrams import Options, paper_of, plan_of

    how = (args.chunk, args.path, args.workers, args.cluster, args.retries)
    told = (None, None) if args.quiet else (progress_line(), say)
    options = Options(args.preset, *how, *told)
    if args.dry_run:
        print("\n".join(plan_lines(plan_of(args.what, options))))
        return 0
    from ..papers.collect import collect, read_json
    from ..report.paper import Drawing, summary_line, terminal_table, write_report

    out = args.out or Path("swept") / f"{args.what}-{args.preset}"
    paper = paper_of(args.what, options)
    with Drawing(out) as draw:
        collect(paper, (), out, draw_only=args.draw_only, each=draw)
    page = write_report(paper, out)
    verdicts = read_json(out / "verdicts.json", [])
    if args.json:
        print(json_text({"page": page, "verdicts": verdicts}))
    elif not args.quiet:
        terminal_table(verdicts)
        print(f"{summary_line(verdicts)} Page: {page}")
    return 1 if any(v["should_hold"] and v["verdict"] in ("contradicted", "failed") for v in verdicts) else 0


def plan_lines(plan: Plan) -> list[str]:
    """The plan in words."""
    lines = [f"{plan.name}: {plan.num_runs} runs of {plan.base.steps} steps, sweep {plan.hash[:8]}"]
    for axis, number, size in zip(plan.axes, plan.numeric, plan.box_shape, strict=True):
        ends = f"{axis.coords[0]}" if len(axis) == 1 else f"{axis.coords[0]} … {axis.coords[-1]}"
        how = f"side by side, {size} in a chunk" if number else "a program each"
        lines.append(f"  {axis.name}: {len(axis)} values ({ends}) of {', '.join(axis.fields)}, {how}")
    chunks = f"{plan.num_chunks} chunks of at most {math.prod(plan.box_shape)} runs"
    return [*lines, f"  {plan.num_groups} static groups, {chunks}, path {plan.path}"]


def say(text: str) -> None:
    """A line on stderr."""
    print(text, file=sys.stderr, flush=True)


def progress_line() -> Callable[[int, int], None]:
    """Progress with rate and estimate: one line that changes on a terminal, a line every ten seconds elsewhere."""
    begin, first, last = time.monotonic(), None, float("-inf")

    def show(done: int, total: int) -> None:
        nonlocal first, last
        terminal, now = sys.stderr.isatty(), time.monotonic()
        first = done if first is None else first
        if not terminal and now - last < 10 and done < total:
            return
        last = now
        rate = (done - first) / max(now - begin, 1e-9)
        text = f"{done} of {total} runs ({100 * done / total:.1f} %)"
        if rate > 0 and done < total:
            from ..sweeps.progress import duration

            text += f", {rate:.3g} a second, about {duration((total - done) / rate)} left"
        end = "\n" if done == total or not terminal else ""
        print(f"\r\033[K{text}" if terminal else text, end=end, file=sys.stderr, flush=True)

    return show
