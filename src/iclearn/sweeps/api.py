"""`iclearn.sweeps`: a base recipe and axes in, one labeled dataset out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import IclearnError
from ..core.reader import read_spec, read_table
from ..core.recipe import Recipe
from .axes import read_axes
from .dask_cluster import check_cluster, dask_runner
from .folder import SweepFolder
from .plan import ComputePath, Plan, Reduce
from .runners import RETRIES, Runner, execute, here, processes
from .validate import check_plan, chunk_limit

if TYPE_CHECKING:
    import xarray as xr

DEFAULT_ROOT = "sweeps"


def make_plan(
    base: Recipe | Mapping[str, Any],
    axes: Mapping[str, Any] | None = None,
    seeds: Any = None,
    *,
    reduce: Reduce | Mapping[str, Any] | None = None,
    name: str = "sweep",
    chunk: int | None = None,
    path: ComputePath = "auto",
) -> Plan:
    """The plan of a sweep: every point checked, chunks sized to the device's memory (or at most `chunk` runs each)."""
    recipe = read_spec(Recipe, base, "base")
    kept = reduce if isinstance(reduce, Reduce) else read_spec(Reduce, reduce or {}, "reduce")
    draft = Plan(recipe, read_axes(recipe, axes or {}, seeds), kept, 1 if chunk is None else chunk, name, path)
    bytes_a_run = check_plan(draft)
    if chunk is not None:
        return draft
    steps = max([recipe.steps, *(s for axis in draft.axes if "steps" in axis.fields for s in axis.column("steps"))])
    return Plan(recipe, draft.axes, kept, chunk_limit(bytes_a_run, steps), name, path)


def carry_out(
    plan: Plan,
    out: str | Path | None = None,
    *,
    workers: int = 0,
    cluster: str | None = None,
    retries: int = RETRIES,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> SweepFolder:
    """Run what is left of a plan in its folder (None: ``sweeps/NAME-HASH``)."""
    root = Path(out) if out is not None else Path(DEFAULT_ROOT) / f"{plan.name}-{plan.hash[:8]}"
    if workers < 0:
        raise IclearnError(f"the number of workers must not be negative, not {workers}")
    if cluster is not None:
        check_cluster(cluster)
    folder = SweepFolder.create(root, plan)
    with contextlib.ExitStack() as stack:
        runner: Runner = here
        if cluster is not None:
            runner = stack.enter_context(dask_runner(cluster, workers, say))
        elif workers > 0:
            runner = processes(workers)
        execute(folder, runner, retries=retries, progress=progress)
    return folder


def sweep(
    base: Recipe | Mapping[str, Any],
    axes: Mapping[str, Any] | None = None,
    seeds: Any = None,
    out: str | Path | None = None,
    *,
    reduce: Reduce | Mapping[str, Any] | None = None,
    name: str = "sweep",
    chunk: int | None = None,
    path: ComputePath = "auto",
    workers: int = 0,
    cluster: str | None = None,
    retries: int = RETRIES,
    progress: Callable[[int, int], None] | None = None,
) -> xr.Dataset:
    """Train every point of a grid and return what became of each, with the axes as dimensions.

    Axes that only change numbers are trained side by side, the others one group after the other. The folder `out`
    fills up while the sweep runs (``xarray.open_zarr(out/data.zarr)``); killed at any moment, the same call goes on.

        iclearn.sweep(recipe, axes={"init.scale": {"logspace": [1e-3, 0.1, 9]}, "model.rank": [1, 2]}, seeds=100)

    Args:
        axes: dotted field → values; see `read_axes`.
        seeds: a number of seeds, or their values.
        out: the folder (None: ``sweeps/NAME-HASH``).
        reduce: what is kept of each run: `Reduce`, or its fields as a dict.
        chunk: runs of a chunk at most (None: what fits).
        path: as `engines.batch.train_batch` has it, or ``serial``, which trains one run at a time: the reference.
        workers: worker processes on this machine (0: this one).
        cluster: Dask: ``local``, a scheduler's address, ``slurm`` or ``pbs``.
        retries: further attempts on a chunk that failed.
        progress: called with (runs finished, runs in all).
    """
    plan = make_plan(base, axes, seeds, reduce=reduce, name=name, chunk=chunk, path=path)
    folder = carry_out(plan, out, workers=workers, cluster=cluster, retries=retries, progress=progress)
    return folder.dataset().load()


KEYS = ("name", "base", "axes", "seeds", "reduce", "chunk")


def plan_from_file(path: str | Path, *, chunk: int | None = None, compute: ComputePath = "auto") -> Plan:
    """The plan of a YAML file, its keys checked."""
    data = read_table(path)
    if "base" not in data:
        raise IclearnError(f"{path} must be a table with base: and axes: (and {', '.join(KEYS)})")
    if unknown := [key for key in data if key not in KEYS]:
        raise IclearnError(f"{path} has no key {unknown[0]!r}; keys are {', '.join(KEYS)}")
    for key in ("axes", "reduce"):
        if not isinstance(data.get(key) or {}, dict):
            raise IclearnError(f"{path}: {key} must be a table, not {data[key]!r}")
    return make_plan(
        data["base"],
        data.get("axes"),
        data.get("seeds"),
        reduce=data.get("reduce"),
        name=str(data.get("name") or Path(path).stem),
        chunk=chunk if chunk is not None else data.get("chunk"),
        path=compute,
    )
