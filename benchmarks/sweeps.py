"""Throughput of many small training runs side by side: plain vmap, step written out, fused kernel; CPU or GPU.

python -m benchmarks.sweeps --out benchmarks/results/sweeps-h200.json [--quick]

The case of the first table is D=4, H=5, R=1, float32, reduced model, complete runs of 10,000 steps. Times are medians
of the second and later calls (`first_seconds` holds the compilation); "whole call" is `train_batch` with the drawing of
initial weights, the reductions and the copy to the host, "train" the training alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.engines.batch import pallas
from iclearn.engines.batch.inputs import recipe_of_run, traced_runs
from iclearn.engines.batch.rows import unroll
from iclearn.engines.batch.train_batch import train_batch, train_vmap
from iclearn.engines.batch.unrolled import lengths_of, sizes_of, train_unrolled, unrolled_step
from iclearn.engines.build import prepare
from iclearn.engines.reductions import reduce_curves, sample_steps
from iclearn.engines.simulate import simulate
from iclearn.models.attention import Attention
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.regression import LinearRegression

from .machine import PEAK, machine, now, source_digest, versions

SAMPLES = 256
# How earlier results call the paths; their kernel was compiled by Triton.
FORMER_PATHS = {"plain": "vmap", "written": "unrolled", "fused": "triton", "alone": "serial"}


def recipe_of(dim: int, heads: int, rank: int, prompts: int | None, steps: int, dtype: str = "float32") -> Recipe:
    return Recipe(
        task=LinearRegression(dim=dim, num_prompts=prompts, covariance=Covariance.power(1.0, rotate=False)),
        model=Attention("separate_reduced", num_heads=heads, rank=rank),
        init=Init(0.05),
        optimizer=Optimizer(lr=0.02),
        steps=steps,
        record=Record(weights=0),
        dtype=dtype,  # type: ignore[arg-type]
    )


def numbers_of(runs: int) -> dict[str, np.ndarray]:
    return {
        "seed": np.arange(runs),
        "init__scale": np.geomspace(0.01, 0.1, runs),
        "task__covariance__parameters": np.linspace(0.5, 1.5, runs)[:, None],
    }


def operations(recipe: Recipe) -> int:
    """Floating-point operations of one written-out step, counted in its own expression."""
    setup = prepare(recipe)
    sizes = sizes_of(setup.task, setup.model, setup.engine, "gd")
    assert sizes is not None
    numbers = [jnp.ones(()) for _ in range(sizes.num_numbers)]
    step, _ = unrolled_step(sizes, numbers.__getitem__)
    program = jax.make_jaxpr(lambda w: step(w))([jnp.ones(())] * sizes.num_weights)
    seen = {(str(e.primitive), *map(str, e.invars)) for e in program.eqns}  # what is written twice is computed once
    return sum(operation in ("mul", "add", "sub") for operation, *_ in seen)


def timed(call: Callable[[], Any], repeat: int) -> tuple[float, list[float]]:
    """Seconds of the first call, and of the later ones."""
    times = []
    for _ in range(repeat + 1):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begin)
    return times[0], times[1:]


def case(recipe: Recipe, path: str, runs: int, repeat: int, block: int = pallas.BLOCK) -> dict[str, Any]:
    """One path at one batch size: training and reductions on the device, and the whole call."""
    numbers = numbers_of(runs)
    first = recipe_of_run(recipe, numbers, 0)
    setup = prepare(first)
    steps = sample_steps(recipe.steps, SAMPLES)
    lanes, minimum = jax.block_until_ready(traced_runs(recipe, setup, numbers))
    if path == "vmap":
        marks = jnp.asarray(np.append(steps, recipe.steps))

        def train() -> Any:
            return train_vmap(lanes, marks)
    else:
        sizes = sizes_of(setup.task, setup.model, setup.engine, "gd")
        assert sizes is not None
        written, lengths = unroll(lanes, sizes, False), jnp.asarray(lengths_of(steps, recipe.steps))

        def train() -> Any:
            if path in ("pallas", "triton"):
                backend = "triton" if path == "triton" else None
                return pallas.train_pallas(written, lengths, backend=backend, block=block)[0].T
            return train_unrolled(written, lengths)[0].T

    def train_and_reduce() -> Any:
        return reduce_curves(train(), jnp.asarray(steps), minimum)

    first_seconds, alone = timed(train, repeat)
    _, reduced = timed(train_and_reduce, repeat)
    row = {
        "path": path,
        "runs": runs,
        "first_seconds": first_seconds,
        "train_seconds": alone,
        "train_and_reduce_seconds": reduced,
        "runs_per_second": runs / float(np.median(reduced)),
        "microseconds_per_run": 1e6 * float(np.median(reduced)) / runs,
    }
    if path in ("pallas", "triton"):
        row["block"], row["backend"] = block, "triton" if path == "triton" else pallas.default_backend()
    if recipe.task.num_prompts is None and path != "triton":  # type: ignore[attr-defined]
        _, whole = timed(lambda: train_batch(recipe, numbers, samples=SAMPLES, path=path), 1)  # type: ignore[arg-type]
        row["whole_call_seconds"] = whole
    if path != "vmap":
        per_second = operations(recipe) * recipe.steps * runs / float(np.median(reduced))
        row["operations_per_second"] = per_second
        peak = PEAK.get(jax.devices()[0].device_kind)
        if peak is not None and recipe.dtype == "float32":
            row["share_of_peak"] = per_second / peak
    return row


def alone(recipe: Recipe, runs: int) -> dict[str, Any]:
    """The same runs one at a time, as `simulate` does them."""
    numbers = numbers_of(runs)
    simulate(recipe_of_run(recipe, numbers, 0))
    begin = time.perf_counter()
    for i in range(runs):
        simulate(recipe_of_run(recipe, numbers, i))
    seconds = time.perf_counter() - begin
    return {"path": "serial", "runs": runs, "runs_per_second": runs / seconds}


def tables(quick: bool) -> list[tuple[str, Recipe, list[tuple[str, int]]]]:
    """Name, recipe, and (path, runs) of every case for this device."""
    gpu = pallas.available()
    steps = 200 if quick else 10_000
    main, finite = recipe_of(4, 5, 1, None, steps), recipe_of(4, 5, 1, 1000, steps)
    if quick:
        paths = [("vmap", 8), ("unrolled", 8), *([("pallas", 256)] if gpu else [])]
        return [("population D=4 H=5 R=1", main, paths), ("moments P=1000 D=4 H=5 R=1", finite, paths)]
    if not gpu:
        cpu = [("serial", 8), ("vmap", 64), ("unrolled", 64), ("unrolled", 512), ("unrolled", 2048)]
        return [
            ("population D=4 H=5 R=1", main, cpu),
            ("moments P=1000 D=4 H=5 R=1", finite, [("serial", 4), ("vmap", 64), ("unrolled", 64)]),
        ]
    double = recipe_of(4, 5, 1, None, steps, "float64")
    growing = [("pallas", 1 << k) for k in (10, 14, 17, 20)]
    return [
        ("population D=4 H=5 R=1", main, [("vmap", 1 << 16), ("unrolled", 1 << 16), ("triton", 1 << 17), *growing]),
        ("moments P=1000 D=4 H=5 R=1", finite,
         [("vmap", 1 << 14), ("unrolled", 1 << 14), ("triton", 1 << 17), *growing[1:3]]),
        ("population D=2 H=2 R=1", recipe_of(2, 2, 1, None, steps), [("vmap", 1 << 16), ("pallas", 1 << 20)]),
        ("population D=4 H=4 R=2", recipe_of(4, 4, 2, None, steps), [("vmap", 1 << 16), ("pallas", 1 << 19)]),
        ("population D=4 H=5 R=1 float64", double, [("vmap", 1 << 15), ("pallas", 1 << 18)]),
    ]  # fmt: skip


def markdown(report: dict[str, Any]) -> str:
    """The report as a table for the docs."""
    lines = [
        f"{report['device']}, {report['versions'].get('jax', '')} (jax); training and reductions, warm.",
        "",
        "| case | path | runs at a time | runs a second | µs a run | of float32 peak | first call, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for table in report["tables"]:
        for row in table["rows"]:
            if "error" in row:
                continue
            share = f"{row['share_of_peak']:.0%}" if "share_of_peak" in row else ""
            speed = row["runs_per_second"]
            path = FORMER_PATHS.get(row["path"], row["path"])
            cells = [f"{table['name']}, {table['steps']} steps", path, f"{row['runs']:,}", f"{speed:,.0f}"]
            first = f"{row['first_seconds']:.1f}" if "first_seconds" in row else ""
            lines.append(f"| {' | '.join(cells)} | {1e6 / speed:,.2f} | {share} | {first} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the JSON here")
    parser.add_argument(
        "--table", type=Path, nargs="+", metavar="JSON", help="print these results as Markdown and stop"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, and no speed")
    parser.add_argument("--blocks", type=int, nargs="*", default=[], help="other block sizes to try in the kernel")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    if args.table:
        print("\n".join(markdown(json.loads(path.read_text())) for path in args.table))
        return
    if args.out is None:
        parser.error("--out or --table is needed")
    report: dict[str, Any] = {
        "started": now(), "device": jax.devices()[0].device_kind, "machine": machine(), "versions": versions(),
        "source": source_digest(), "samples": SAMPLES, "tables": [],
    }  # fmt: skip
    for name, recipe, cases in tables(args.quick):
        rows = []
        for path, runs in cases:
            blocks = [pallas.BLOCK, *(args.blocks if path == "pallas" and runs >= 1 << 17 else [])]
            for block in blocks:
                try:
                    rows.append(
                        alone(recipe, runs) if path == "serial" else case(recipe, path, runs, args.repeat, block)
                    )
                except Exception as error:
                    rows.append({"path": path, "runs": runs, "error": f"{type(error).__name__}: {error}"[:500]})
                print(name, json.dumps(rows[-1]), flush=True)
        table = {"name": name, "steps": recipe.steps, "operations_per_step": operations(recipe), "rows": rows}
        report["tables"].append(table)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
