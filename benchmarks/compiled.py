"""Compiled code against the loops in JAX on a processor: speed, equality, and cost against the sizes.

python -m benchmarks.compiled --out benchmarks/results/compiled-cpu.json [--only steps batch cost equality] [--quick]
python -m benchmarks.compiled --table benchmarks/results/compiled-cpu.json

Needs Numba (the extra ``fast``). Both ways of a ratio are timed in turns, in one process; times are processor seconds
of this process, all its threads together, the least of some repeats, because other work on a machine only ever adds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.engines.batch.inputs import recipe_of_run, run_inputs, traced_runs
from iclearn.engines.batch.rows import unroll
from iclearn.engines.batch.train_batch import train_vmap
from iclearn.engines.batch.unrolled import lengths_of, sizes_of, train_unrolled
from iclearn.engines.build import prepare
from iclearn.engines.compiled.batches import train_compiled
from iclearn.engines.compiled.choose import batch_sizes, compiled_sizes
from iclearn.engines.compiled.programs import is_straight
from iclearn.engines.compiled.single import CompiledRun
from iclearn.engines.compiled.straight import operations
from iclearn.engines.compiled.switch import SWITCH, path_name, thread_count
from iclearn.engines.loop import STEP_SLOTS, State, advance
from iclearn.engines.reductions import reduce_curves, sample_steps
from iclearn.engines.simulate import simulate
from iclearn.models.attention import Attention
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.regression import LinearRegression

from .machine import machine, now, source_digest, versions

FAMILIES = ("merged", "separate", "merged_reduced", "separate_reduced", "mlp", "conv")
SAMPLES = 256


def recipe_of(
    family: str, dim: int, heads: int, rank: int, prompts: int | None, steps: int, dtype: str = "float64", **more: Any
) -> Recipe:
    merged = family in ("merged", "merged_reduced", "mlp")
    return Recipe(
        task=LinearRegression(dim=dim, num_prompts=prompts, covariance=Covariance.power(1.0, rotate=False)),
        model=Attention(family, num_heads=heads, rank=rank),  # type: ignore[arg-type]
        init=Init(more.pop("init", 0.05)),
        optimizer=Optimizer(more.pop("rule", "gd"), lr=more.pop("lr", 0.001 if merged else 0.01)),
        steps=steps,
        record=Record(weights=more.pop("records", 0)),
        dtype=dtype,  # type: ignore[arg-type]
        **more,
    )


def least(calls: dict[str, Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Least processor seconds of every call, the calls taken in turns; each is made once before."""
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(repeat + 1):
        for name, call in calls.items():
            begin = time.process_time()
            jax.block_until_ready(call())
            if turn:
                best[name] = min(best[name], time.process_time() - begin)
    return best


def one_run(recipe: Recipe, repeat: int, *, plain: bool = True) -> dict[str, Any]:
    """Microseconds of a step of one run, every loss recorded, by compiled code and by the loop in JAX."""
    setup = prepare(recipe)
    sizes = compiled_sizes(recipe, setup)
    assert sizes is not None
    inputs = run_inputs(recipe, setup.model, setup.engine)
    begin = time.thread_time()
    run = CompiledRun(inputs, sizes)
    compile_seconds = time.thread_time() - begin
    start = [np.array(leaf) for leaf in jax.tree.leaves(run.state)]
    state = State(inputs.model, inputs.optimizer, jnp.asarray(0))
    stop, every = jnp.asarray(recipe.steps), jnp.asarray(STEP_SLOTS)

    def compiled() -> None:
        run.load(start)
        run.advance(recipe.steps, recipe.steps)

    calls: dict[str, Callable[[], Any]] = {"compiled": compiled}
    if plain:
        calls["xla"] = lambda: advance(inputs.engine, state, inputs.hyper, inputs.key, stop, every)
    seconds = least(calls, repeat)
    row = {f"{name}_us": 1e6 * value / recipe.steps for name, value in seconds.items()}
    how = "straight" if is_straight(sizes) else "loops"
    return {**row, "code": how, "products": sizes.products, "setup_seconds": compile_seconds}


def steps_table(quick: bool) -> list[dict[str, Any]]:
    """One run: the sizes that the targets speak of."""
    steps, repeat = (64, 1) if quick else (STEP_SLOTS, 15)
    cases = [
        ("population, separate D=4 H=5 R=1", ("separate", 4, 5, 1, None), 0.5),
        ("population, merged D=4 H=8", ("merged", 4, 8, 1, None), 0.5),
        ("population, separate D=8 H=9 R=1", ("separate", 8, 9, 1, None), None),
        ("moments, reduced separate D=4 H=5 R=1", ("separate_reduced", 4, 5, 1, 1000), None),
        ("moments, separate D=4 H=5 R=1", ("separate", 4, 5, 1, 5000), 2.0),
        ("moments, merged D=4 H=8", ("merged", 4, 8, 1, 5000), None),
        ("moments, separate D=8 H=9 R=4", ("separate", 8, 9, 4, 5000), 15.0),
    ]
    return [
        {"name": name, "target_us": target, **one_run(recipe_of(*sizes, steps=steps), repeat)}
        for name, sizes, target in (cases[:1] if quick else cases)
    ]


def batch(name: str, recipe: Recipe, runs: int, others: dict[str, int], repeat: int) -> dict[str, Any]:
    """Complete runs a processor second, with reductions, by compiled code and by the other paths."""
    steps = sample_steps(recipe.steps, SAMPLES)
    lengths = lengths_of(steps, recipe.steps)

    def prepared(count: int) -> Any:
        given = {
            "seed": np.arange(count),
            "init__scale": np.geomspace(0.01, 0.1, count),
            "task__covariance__parameters": np.linspace(0.5, 1.5, count)[:, None],
        }
        setup = prepare(recipe_of_run(recipe, given, 0))
        return (setup, *jax.block_until_ready(traced_runs(recipe, setup, given)))

    setup, lanes, minimum = prepared(runs)
    how = batch_sizes(recipe, setup)
    assert how is not None
    marks = jnp.asarray(np.append(steps, recipe.steps))

    def reduced(curves: Any, minimum: Any) -> Any:
        return reduce_curves(jnp.asarray(curves), jnp.asarray(steps), minimum)

    calls: dict[str, Callable[[], Any]] = {"compiled": lambda: reduced(train_compiled(lanes, *how, lengths), minimum)}
    counts = {"compiled": runs, **others}
    for path, count in others.items():
        setup, some, floor = prepared(count)
        sizes = sizes_of(setup.task, setup.model, setup.engine, "gd")
        if path == "vmap":
            calls[path] = lambda some=some, floor=floor: reduced(train_vmap(some, marks), floor)
        else:
            assert sizes is not None
            written = unroll(some, sizes, False)
            calls[path] = lambda written=written, floor=floor: reduced(
                train_unrolled(written, jnp.asarray(lengths))[0].T, floor
            )
    seconds = least(calls, repeat)
    speeds = {path: counts[path] / value for path, value in seconds.items()}
    best = max(speed for path, speed in speeds.items() if path != "compiled")
    work = operations(how[0]) * recipe.steps * speeds["compiled"] / 1e9
    return {
        "name": name, "dtype": recipe.dtype, "steps": recipe.steps, "runs": counts, "threads": thread_count(),
        "runs_per_second": speeds, "ratio": speeds["compiled"] / best, "gflops": work,
        "share_of_matrix_product": work / matrix_gflops(recipe.dtype),
    }  # fmt: skip


def matrix_gflops(dtype: str, size: int = 1536) -> float:
    """Billions of operations a processor second of a matrix product on this machine, right now."""
    a = np.random.default_rng(0).normal(size=(size, size)).astype(dtype)
    return 2 * size**3 / least({"product": lambda: a @ a}, 5)["product"] / 1e9


def batch_table(quick: bool) -> list[dict[str, Any]]:
    """Many runs, with reductions, against the best other path of results/sweeps-cpu.json at its batch size."""
    steps, runs, repeat = (200, 32, 1) if quick else (10_000, 2048, 3)
    rows = []
    for dtype in ("float32", "float64"):
        made = recipe_of("separate_reduced", 4, 5, 1, None, steps, dtype, lr=0.02)
        rows.append(batch("population D=4 H=5 R=1", made, runs, {"unrolled": 32 if quick else 512}, repeat))
        print(json.dumps(rows[-1]), flush=True)
    for dtype in () if quick else ("float32", "float64"):
        made = recipe_of("separate_reduced", 4, 5, 1, 1000, steps, dtype, lr=0.02)
        rows.append(batch("moments P=1000 D=4 H=5 R=1", made, 1024, {"vmap": 64}, repeat))
        print(json.dumps(rows[-1]), flush=True)
    return rows


def cost_table(quick: bool) -> dict[str, Any]:
    """Microseconds of a step of one run against D, H, R and P, with an exponent fitted to each."""
    steps, repeat = (64, 1) if quick else (1024, 7)
    spans: dict[str, tuple[Callable[[int], tuple], list[int]]] = {
        "D, population": (lambda d: ("separate_reduced", d, 8, 1, None), [4, 8, 16, 32]),
        "D, moments full": (lambda d: ("separate", d, 4, 1, 200), [2, 4, 8, 12]),
        "H, population": (lambda h: ("separate_reduced", 8, h, 1, None), [4, 16, 64]),
        "R, population": (lambda r: ("separate_reduced", 8, 8, r, None), [1, 2, 4, 8]),
        "P, moments full": (lambda p: ("separate", 4, 5, 1, p), [100, 10_000]),
    }
    found: dict[str, Any] = {}
    for name, (make, values) in spans.items():
        rows = []
        for value in values[:2] if quick else values:
            rows.append({"value": value, **one_run(recipe_of(*make(value), steps=steps), repeat)})
            print(name, json.dumps(rows[-1]), flush=True)
        at = np.log([row["value"] for row in rows])
        fits = {way: float(np.polyfit(at, np.log([r[f"{way}_us"] for r in rows]), 1)[0]) for way in ("compiled", "xla")}
        found[name] = {"rows": rows, "exponent": fits}
    return found


def equality(count: int, steps: int, seed: int = 0) -> dict[str, Any]:
    """Random models and sizes: the largest difference of a loss, relative, and of a weight, against the largest one.

    Learning rates are well below divergence, near which training itself amplifies last digits.
    """
    rng, rows = np.random.default_rng(seed), []
    for index in range(count):
        family = FAMILIES[index % len(FAMILIES)]
        dim, heads, rank = int(rng.integers(1, 9)), int(rng.integers(1, 10)), int(rng.integers(1, 9))
        prompts = None if rng.random() < 0.5 else int(rng.integers(20, 400))
        rank = min(rank, dim) if family in ("separate", "separate_reduced", "conv") else 1
        lr = float(rng.choice([0.25, 1.0])) * (2e-3 if "separate" in family or family == "conv" else 2e-4)
        more = {"lr": lr, "seed": int(rng.integers(1000)), "init": float(rng.choice([0.02, 0.1, 0.3])), "records": 50}
        made = recipe_of(family, dim, heads, rank, prompts, steps, **more)
        made = made.replace(task__covariance=Covariance.power(1.0, rotate=bool(rng.random() < 0.5)))
        traces = {}
        for way in ("off", "require"):
            os.environ[SWITCH] = way
            traces[way] = simulate(made)
        plain, ours = traces["off"], traces["require"]
        loss = float(np.abs(ours.loss.values / plain.loss.values - 1).max())
        pairs = [(plain.data[n].values, ours.data[n].values) for n in plain.data if n.startswith("weight_")]
        weight = max(float(np.abs(a - b).max() / max(np.abs(a).max(), 1e-300)) for a, b in pairs)
        row = {
            "family": family, "dim": dim, "heads": heads, "rank": rank, "prompts": prompts, "lr": lr, "loss": loss,
            "weight": weight, "status": [plain.status.label, ours.status.label], "path": ours.provenance["path"],
            "fell_to": float(plain.loss[-1] / plain.loss[0]),
        }  # fmt: skip
        rows.append(row)
        print(json.dumps(row), flush=True)
    worst = {name: max(row[name] for row in rows) for name in ("loss", "weight")}
    return {"runs": count, "steps": steps, "worst": worst, "rows": rows}


def markdown(report: dict[str, Any]) -> str:
    """The report as tables for the docs."""
    lines = [f"{report['machine'].get('cpu', 'processor')}, {report['path']}, {report['threads']} threads.", ""]
    if "steps" in report:
        lines += ["| one run, float64 | compiled, µs a step | JAX loop | ratio | aim |", "|---|---|---|---|---|"]
        for row in report["steps"]:
            aim = f"≤ {row['target_us']:g}" if row["target_us"] else ""
            ratio = row["xla_us"] / row["compiled_us"]
            lines.append(f"| {row['name']} | {row['compiled_us']:.3g} | {row['xla_us']:.3g} | {ratio:.0f} | {aim} |")
        lines.append("")
    if "batch" in report:
        lines += [
            "| many runs, with reductions | compiled, runs per core·s | best other | ratio | GFLOP/s | of a matmul |",
            "|---|---|---|---|---|---|",
        ]
        for row in report["batch"]:
            speeds = dict(row["runs_per_second"])
            own = speeds.pop("compiled")
            other = max(speeds, key=speeds.__getitem__)
            case, share = f"{row['name']}, {row['steps']} steps, {row['dtype']}", row["share_of_matrix_product"]
            cells = [case, f"{own:,.0f}", f"{speeds[other]:,.0f} ({other})", f"{row['ratio']:.0f}"]
            lines.append(f"| {' | '.join(cells)} | {row['gflops']:.0f} | {share:.0%} |")
        lines.append("")
    if "cost" in report:
        lines += ["| one run against | µs a step, compiled (JAX loop) | exponent, compiled (JAX) |", "|---|---|---|"]
        for name, found in report["cost"].items():
            each = ", ".join(f"{r['value']}: {r['compiled_us']:.2g} ({r['xla_us']:.2g})" for r in found["rows"])
            fits = found["exponent"]
            lines.append(f"| {name} | {each} | {fits['compiled']:.1f} ({fits['xla']:.1f}) |")
        lines.append("")
    if "equality" in report:
        found = report["equality"]
        lines.append(
            f"Equality: {found['runs']} random models (family, D ≤ 8, H ≤ 9, R ≤ 8, P finite or not), {found['steps']} "
            f"steps in float64: losses differ by at most {found['worst']['loss']:.1e} (relative), weights by "
            f"{found['worst']['weight']:.1e} of the largest one."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the JSON here; parts that are there and not named stay")
    parser.add_argument("--table", type=Path, metavar="JSON", help="print these results as Markdown and stop")
    parser.add_argument("--only", nargs="+", choices=("steps", "batch", "cost", "equality"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that everything runs, and no speed")
    args = parser.parse_args()
    if args.table:
        print(markdown(json.loads(args.table.read_text())))
        return
    if args.out is None:
        parser.error("--out or --table is needed")
    report: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {}
    report |= {"started": now(), "machine": machine(), "versions": versions(), "source": source_digest()}
    report |= {"path": path_name(), "threads": thread_count(), "load_average": os.getloadavg()}
    parts: dict[str, Callable[[], Any]] = {
        "steps": lambda: steps_table(args.quick),
        "batch": lambda: batch_table(args.quick),
        "cost": lambda: cost_table(args.quick),
        "equality": lambda: equality(*((6, 100) if args.quick else (102, 10_000))),
    }
    for name, part in parts.items():
        if not args.only or name in args.only:
            report[name] = part()
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
