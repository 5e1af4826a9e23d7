"""`iclearn.sweeps`: a base recipe and axes in, one labeled dataset out."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import notebook
from ..core.checks import check_int, check_type, literals_checked
from ..core.errors import IclearnError
from ..core.reader import read_spec, read_table
from ..core.recipe import Recipe
from ..engines.batch.train_batch import choose_path
from ..engines.build import prepare
from .axes import read_axes
from .dask_cluster import check_cluster, dask_runner
from .folder import SweepFolder
from .plan import ComputePath, Plan, Reduce
from .runners import RETRIES, Runner, execute, here, processes
from .validate import FEW_PROMPTS, MOST_CHUNKS, check_plan, chunk_limit

if TYPE_CHECKING:
    import xarray as xr

DEFAULT_ROOT = "sweeps"
KEYS = ("name", "base", "axes", "seeds", "reduce", "chunk")


@literals_checked
def make_plan(
    base: Recipe | Mapping[str, Any], axes: Mapping[str, Any] | None = None, seeds: Any = None, *,
    reduce: Reduce | Mapping[str, Any] | None = None, name: str = "sweep", chunk: int | None = None,
    path: ComputePath = "auto",
) -> Plan:  # fmt: skip
    """The plan of a sweep. Every point is checked here, before anything is trained.

    Args:
        base: the recipe, or its fields as a table in full or short form.
        axes: dotted field → values; see `read_axes`.
        seeds: a number of seeds, or their values.
        reduce: what is kept of each run: `Reduce`, or its fields as a dict.
        name: what the sweep is called in folders and messages.
        chunk: runs of a chunk at most (None: what fits the device's memory).
        path: how a chunk is trained; see `sweep`.

    Returns:
        The `Plan`, which `carry_out` runs.

    >>> base = {"task": {"dim": 2, "num_prompts": "inf"}, "model": {"family": "separate_reduced"}, "steps": 20}
    >>> plan = make_plan(base, {"init.scale": [0.1, 0.2], "model.rank": [1, 2]}, seeds=3, chunk=6)
    >>> plan.num_runs, plan.num_groups, [chunk.runs for chunk in plan.chunks]
    (12, 2, [6, 6])
    """
    recipe = read_spec(Recipe, base, "base")
    check_type("the axes of a sweep", axes or {}, Mapping, '{"optimizer.lr": [0.01, 0.02]}')
    kept = read_spec(Reduce, reduce or {}, "reduce")
    plan = Plan(recipe, read_axes(recipe, axes or {}, seeds), kept, 1 if chunk is None else chunk, name, path)
    bytes_a_run = check_plan(plan)
    if chunk is None:
        steps = max(recipe.steps, *plan.values("steps"))
        plan = dataclasses.replace(plan, limit=chunk_limit(bytes_a_run, steps))
    return plan


def carry_out(
    plan: Plan, out: str | Path | None = None, *, workers: int = 0, cluster: str | None = None, retries: int = RETRIES,
    progress: Callable[[int, int], None] | bool | None = None, say: Callable[[str], None] | None = None,
) -> SweepFolder:  # fmt: skip
    """Run what is left of a plan in its folder.

    Args:
        plan: what `make_plan` or `plan_from_file` returned.
        out: the folder (None: ``sweeps/NAME-HASH``); one in which the same sweep was begun is continued.
        workers: worker processes on this machine (0: this one).
        cluster: Dask: ``local``, a scheduler's address, ``slurm`` or ``pbs``.
        retries: further attempts on a chunk that failed.
        progress: True, or a function that is called with (runs finished, runs in all). Default: a bar in a notebook,
            else nothing.
        say: called with the address of Dask's dashboard, in words.

    Returns:
        The folder, complete. Chunks that keep failing raise an `IclearnError` after all others are done.

    >>> import tempfile
    >>> base = {"task": {"dim": 2, "num_prompts": "inf"}, "model": {"family": "separate_reduced"}, "steps": 20}
    >>> folder = carry_out(make_plan(base, seeds=2, chunk=2, path="serial"), f"{tempfile.mkdtemp()}/sweep")
    >>> folder.dataset()["final_loss"].sizes["seed"], len(folder.entries())
    (2, 1)
    >>> from iclearn.sweeps import run_chunk
    >>> run_chunk(str(folder.root), folder.plan.chunks[0].id)
    'already'
    """
    root = Path(out) if out is not None else Path(DEFAULT_ROOT) / f"{plan.name}-{plan.hash[:8]}"
    check_int("the number of workers", workers, 0)
    check_int("the number of retries", retries, 0)
    if plan.num_chunks > MOST_CHUNKS:
        size = f"{plan.num_runs} runs make {plan.num_chunks} chunks, more than {MOST_CHUNKS}"
        raise IclearnError(f"{size}: take fewer points, or split the sweep")
    if plan.path == "pallas":
        choose_path(plan.base, prepare(plan.base.replace(task=plan.base.task.with_prompts(FEW_PROMPTS))), "pallas")
    if cluster is not None:
        check_cluster(cluster)
    folder = SweepFolder.create(root, plan)
    with contextlib.ExitStack() as stack:
        runner: Runner = processes(workers) if workers > 0 else here
        if cluster is not None:
            runner = stack.enter_context(dask_runner(cluster, workers, say))
        execute(folder, runner, retries=retries, progress=notebook.runs_bar(progress))
    return folder


@literals_checked
def sweep(
    base: Recipe | Mapping[str, Any], axes: Mapping[str, Any] | None = None, seeds: Any = None,
    out: str | Path | None = None, *, reduce: Reduce | Mapping[str, Any] | None = None, name: str = "sweep",
    chunk: int | None = None, path: ComputePath = "auto", workers: int = 0, cluster: str | None = None,
    retries: int = RETRIES, progress: Callable[[int, int], None] | bool | None = None,
) -> xr.Dataset:  # fmt: skip
    """Train every point of a grid and return what became of each, with the axes as dimensions.

    Runs along axes that only change numbers are trained side by side in one program; every combination of the other
    axes is a group with a program of its own. The folder `out` fills up while the sweep runs
    (``xarray.open_zarr(out/data.zarr, consolidated=False)``). After a kill at any moment the same call goes on where it
    stopped.

    Args:
        base: the recipe, or its fields as a table in full or short form.
        axes: dotted field → values; see `read_axes`.
        seeds: a number of seeds, or their values.
        out: the folder (None: ``sweeps/NAME-HASH``).
        reduce: what is kept of each run: `Reduce`, or its fields as a dict.
        name: what the sweep is called in folders and messages.
        chunk: runs of a chunk at most (None: what fits).
        path: as `engines.batch.train_batch` has it, or ``serial``, which trains one run at a time: the reference.
        workers: worker processes on this machine (0: this one).
        cluster: Dask: ``local``, a scheduler's address, ``slurm`` or ``pbs``.
        retries: further attempts on a chunk that failed.
        progress: True, or a function that is called with (runs finished, runs in all). Default: a bar in a notebook,
            else nothing.

    Returns:
        A Dataset with the dimensions of the axes, the seeds last. Of every run: ``first_loss``, ``final_loss``,
        ``minimum``, ``status``, ``status_step``, and what `Reduce` asks for.

    >>> import tempfile
    >>> base = {"task": {"dim": 2, "num_prompts": "inf"}, "model": {"family": "separate_reduced"}, "steps": 20}
    >>> data = sweep(base, {"init.scale": [0.1, 0.2]}, 2, f"{tempfile.mkdtemp()}/sweep", path="serial")
    >>> dict(data["final_loss"].sizes)
    {'scale': 2, 'seed': 2}
    """
    plan = make_plan(base, axes, seeds, reduce=reduce, name=name, chunk=chunk, path=path)
    folder = carry_out(plan, out, workers=workers, cluster=cluster, retries=retries, progress=progress)
    return folder.dataset().load()


@literals_checked
def plan_from_file(path: str | Path, *, chunk: int | None = None, compute: ComputePath = "auto") -> Plan:
    """The plan that a YAML file describes.

    Args:
        path: a file with the keys ``base`` and, optionally, ``name``, ``axes``, ``seeds``, ``reduce``, ``chunk``,
            which are the arguments of `make_plan`. Other keys are refused.
        chunk: runs of a chunk at most, instead of what the file says.
        compute: how a chunk is trained; see `sweep`.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "few.yaml"
    >>> lines = ["base: {task: {dim: 2, num_prompts: inf}, model: {num_heads: 2}}", "seeds: 4", "chunk: 2"]
    >>> _ = file.write_text("\\n".join(lines))
    >>> plan = plan_from_file(file)
    >>> plan.name, plan.num_runs, len(plan.chunks)
    ('few', 4, 2)
    """
    data = read_table(path)
    if "base" not in data:
        raise IclearnError(f"{path} must be a table with base: and axes: (and {', '.join(KEYS)})")
    if unknown := [key for key in data if key not in KEYS]:
        raise IclearnError(f"{path} has no key {unknown[0]!r}; keys are {', '.join(KEYS)}")
    for key in ("axes", "reduce"):
        if not isinstance(data.get(key) or {}, dict):
            raise IclearnError(f"{path}: {key} must be a table, not {data[key]!r}")
    given: dict[str, Any] = {key: data.get(key) for key in ("base", "axes", "seeds", "reduce")}
    size = chunk if chunk is not None else data.get("chunk")
    return make_plan(**given, name=str(data.get("name") or Path(path).stem), chunk=size, path=compute)
