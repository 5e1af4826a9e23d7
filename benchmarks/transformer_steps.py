"""A step of the transformers of raventos2023 and garg2022, several side by side, against its roofline and PyTorch.

python -m benchmarks.transformer_steps --out benchmarks/results/transformer-h200.json [--seconds 55] [--quick]

The program is the one `simulate_many` runs: fresh prompts, all prefixes in one pass, Adam.
Operations and bytes are counted from the sizes: the bytes are those of a program that keeps between two products what
the next one reads and nothing else. The roofline is that of the maker's numbers for the device; what one large product
and one large copy reach there is measured beside it, and is the roofline where the maker's numbers are not known. A
plain PyTorch model of the same size, with the same predictions on common prompts, runs in the same process. Programs
compile in threads; what has not been measured when the time is over is named as left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from iclearn import CausalTransformer, Init, Recipe
from iclearn.core.jax_settings import tuning_options
from iclearn.engines import prepare
from iclearn.engines.batch.inputs import RunInputs, run_inputs, stack_runs
from iclearn.engines.run_kinds import advance_many
from iclearn.papers.garg2022 import setup as garg2022
from iclearn.papers.raventos2023 import setup as raventos2023

from .machine import available_cores, machine, now, versions

AGREE = 2e-4  # relative to the largest prediction, in float32
DATASHEET = {"NVIDIA H200": {"full": 66.9e12, "tf32": 494e12, "bfloat16": 989e12, "bytes": 4.8e12}}
UNTUNED: dict[str, Any] = {"xla_gpu_autotune_level": 0}


class Training(NamedTuple):
    """A training of a paper: which run is which recipe, and what it is made of."""

    recipe: Callable[[int], Recipe]
    pool: int | None  # of the PyTorch side: pools differ here


def raventos(index: int) -> Recipe:
    """All pools of seed 0, then those of seed 1, …"""
    preset = raventos2023.PRESETS["full"]
    pools = preset.short.pools
    return raventos2023.recipe_of(preset, "short", pools[index % len(pools)], index // len(pools))


TRAININGS: dict[str, Training] = {
    "raventos2023": Training(raventos, 64),
    "garg2022 SMALL": Training(lambda i: garg2022.recipe_of(garg2022.SMALL, i // 2, garg2022.NOISE * (i % 2)), None),
    "garg2022 MEDIUM": Training(lambda i: garg2022.recipe_of(garg2022.MEDIUM, i), None),
}


class Case(NamedTuple):
    """What is measured: how many models of which training, in which precision, compiled with which options."""

    models: int
    precision: str
    training: str = "raventos2023"
    tuned: bool = True  # as iclearn trains where products are large

    @property
    def name(self) -> str:
        told = [self.training, f"{self.models} models", self.precision]
        return ", ".join(told if self.tuned else [*told, "kernels not tried out"])

    def recipe(self, index: int, batch: int | None) -> Recipe:
        """One of its runs; `batch` prompts a step where the training's own number is not wanted."""
        found = TRAININGS[self.training].recipe(index).replace(model__precision=self.precision)
        return found if batch is None else found.replace(optimizer__batch_size=batch)


def cases(quick: bool) -> list[Case]:
    """All cases, those that matter most first."""
    if quick:
        other = Case(2, "full", "garg2022 SMALL")
        return [Case(2, "tf32", tuned=False), Case(2, "tf32"), Case(1, "bfloat16"), other]
    small, medium = "garg2022 SMALL", "garg2022 MEDIUM"
    papers = [Case(36, "tf32"), Case(18, "tf32"), Case(6, "full", small), Case(3, "full", medium)]
    single = [Case(1, "full", small), Case(1, "full", medium), Case(1, "tf32"), Case(36, "bfloat16")]
    return [papers[0]._replace(tuned=False), *papers, *single]


def inputs_of(case: Case, batch: int | None) -> RunInputs:
    """The runs of a case."""
    runs = []
    for index in range(case.models):
        one = case.recipe(index, batch)
        setup = prepare(one)
        runs.append(run_inputs(one, setup.model, setup.engine))
    return stack_runs(runs)


class Work(NamedTuple):
    """Floating-point operations of products, and bytes, of one step of one model."""

    operations: float
    bytes: float


def work(recipe: Recipe) -> Work:
    """Count one step: a forward pass, and twice its products backward.

    Between products a token of a block leaves 22 and takes up 47 vectors of E numbers (reading and writing counted):
    forward qkv 4, attention 4, merge 3, expand 5, contract 6; backward twice what each product reads and writes,
    attention 7, residuals and norms 8. Adam reads and writes seven numbers a weight.
    """
    spec, dim, tokens = recipe.model, recipe.task.dim, recipe.task.context_len + 1
    assert isinstance(spec, CausalTransformer)
    width, rows, depth = spec.width, 2 * tokens * (recipe.optimizer.batch_size or 0), spec.layers
    products = rows * width**2 * (12 * (depth - 1) + 7)  # the last block: queries, merge and MLP of half the tokens
    attention = rows * 2 * tokens * width * 2 * (depth - 0.5)
    ends = rows / 2 * width * (dim + 2)
    weights = sum(int(np.prod(shape)) for shape in spec.shapes(dim, tokens).values())
    number = 2 if spec.precision == "bfloat16" else 4
    vectors = rows * width * (depth - 1 + 0.6)
    between = vectors * (49 * number + 20 * 4)  # 20 of the 69 are of the residual stream, in float32
    return Work(6 * (products + attention + ends), between + 28 * weights)


def peaks(quick: bool) -> dict[str, float]:
    """Operations a second of one large product in each precision, bytes a second of one large copy, as measured."""
    size = 512 if quick or jax.default_backend() == "cpu" else 8192
    ways = {"full": ("highest", "float32"), "tf32": ("default", "float32"), "bfloat16": ("default", "bfloat16")}
    found = {}
    for name, (precision, dtype) in ways.items():
        a = jax.random.normal(jax.random.key(0), (size, size), jnp.float32).astype(dtype)
        product = jax.jit(lambda a, b, p=precision: jnp.matmul(a, b, precision=p), compiler_options=tuning_options())
        found[name] = 2 * size**3 / _seconds(lambda f=product, a=a: f(a, a), 3)
    large, copy = jnp.zeros((4 * size, size), jnp.float32), jax.jit(lambda a: a + 1)
    found["bytes"] = 2 * large.nbytes / _seconds(lambda: copy(large), 5)
    return found


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """The least time of a call, after one that is not counted."""
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - begin)
    return min(times[1:])


class Program:
    """One case, lowered here and compiled in a thread."""

    def __init__(self, case: Case, batch: int | None, pool: ThreadPoolExecutor) -> None:
        self.case, begin = case, time.perf_counter()
        self.inputs = inputs_of(case, batch)
        given = (self.inputs, jnp.asarray(0), jnp.asarray(1), jnp.asarray(1))
        program: Any = advance_many
        lowered = program.lower(*given)
        self.lowering = time.perf_counter() - begin
        self.compiled: Future[Any] = pool.submit(self._compile, lowered, case)

    @staticmethod
    def _compile(lowered: Any, case: Case) -> tuple[Any, float]:
        begin = time.perf_counter()
        compiled = lowered.compile(compiler_options=tuning_options() if case.tuned else UNTUNED)
        return compiled, time.perf_counter() - begin

    def measure(self, steps: int, repeats: int) -> dict[str, Any]:
        """Milliseconds a step, each repeat from the first step on; the program must have been compiled."""
        compiled, compiling = self.compiled.result(timeout=0)
        start, stop, last = jnp.asarray(0), jnp.asarray(steps), [0.0]

        def once() -> float:
            begin = time.perf_counter()
            _, chunk = compiled(self.inputs, start, stop, stop)
            last[0] = float(chunk.loss[0, steps - 1])  # waits for it
            return (time.perf_counter() - begin) / steps * 1e3

        once()
        times = [once() for _ in range(repeats)]
        return {
            "lowering_seconds": self.lowering, "compile_seconds": compiling, "ms_a_step": times,
            "ms_a_step_median": statistics.median(times), "last_loss": last[0],
        }  # fmt: skip


def judged(case: Case, row: dict[str, Any], need: Work, peak: dict[str, float]) -> dict[str, Any]:
    """A row with its counts, and the share of the roofline's speed that it reached."""
    seconds = row["ms_a_step_median"] * 1e-3 / case.models
    limits = {"operations": need.operations / peak[case.precision], "bytes": need.bytes / peak["bytes"]}
    bound = max(limits, key=lambda name: limits[name])
    return {
        "name": case.name, **case._asdict(), **row, "us_a_model_and_step": seconds * 1e6,
        "operations_a_model": need.operations, "bytes_a_model": need.bytes,
        "roofline_us_a_model": {name: limit * 1e6 for name, limit in limits.items()}, "bound_by": bound,
        "share_of_roofline": limits[bound] / seconds, "teraflops": need.operations / seconds / 1e12,
    }  # fmt: skip


def torch_rows(name: str, batch: int | None, steps: int, repeats: int, device: str) -> list[dict[str, Any]]:
    """The plain PyTorch model of a training, after a check that it predicts the same."""
    import torch  # pyright: ignore[reportMissingImports]

    from .naive_gpt2 import GPT2, train

    own = TRAININGS[name].recipe(0)
    task, spec, tokens = own.task, own.model.replace(precision="full"), own.task.context_len + 1
    assert isinstance(spec, CausalTransformer)
    model = spec.initial(task, Init(0.3), 1, "float32")
    source: Any = task.replace(num_prompts=32).source(3, "float32")
    drawn = source.sequences()
    ours = np.asarray(eqx.filter_jit(lambda m, x, y: m.predict_sequences(x, y))(model, drawn.x, drawn.y))
    shared = spec.entries == "shared"
    naive = GPT2(task.dim, tokens, spec.layers, spec.width, spec.num_heads, shared=shared).load(model.weights())  # type: ignore[arg-type]
    with torch.no_grad():
        theirs = naive(torch.tensor(np.array(drawn.x)), torch.tensor(np.array(drawn.y))).numpy()
    error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(ours)))
    if not error <= AGREE:
        raise AssertionError(f"the PyTorch model and iclearn disagree: relative error {error:.1e}")
    naive, rows = naive.to(device), []
    for precision in ("full", "tf32", "bfloat16"):
        given: dict[str, Any] = {"batch": batch or own.optimizer.batch_size, "tokens": tokens, "dim": task.dim}
        given |= {"pool": TRAININGS[name].pool, "lr": 1e-4}
        train(naive, 1 if device == "cpu" else 5, precision=precision, **given)
        times = []
        for _ in range(repeats):
            begin = time.perf_counter()
            train(naive, steps, precision=precision, **given)
            times.append((time.perf_counter() - begin) / steps * 1e3)
        median = statistics.median(times)
        row = {"training": name, "precision": precision, "device": device, "ms_a_step": times}
        rows.append({**row, "ms_a_step_median": median, "prediction_error": error})
    return rows


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=55.0, help="no new measurement begins after so many seconds")
    parser.add_argument("--steps", type=int, default=40, help="steps of a repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few models, batches of 16, 2 steps: to see that it runs")
    args = parser.parse_args(words)
    begin = time.perf_counter()
    left = lambda: args.seconds - (time.perf_counter() - begin)  # noqa: E731
    batch, steps, repeats = (16, 2, 1) if args.quick else (None, args.steps, args.repeats)
    result: dict[str, Any] = {
        "machine": machine(), "versions": versions(), "started": now(), "batch": batch, "quick": args.quick,
        "datasheet": DATASHEET.get(machine()["device"]), "rows": [], "torch": [], "left_out": [],
    }  # fmt: skip

    def keep() -> None:
        result["finished"], result["seconds"] = now(), time.perf_counter() - begin
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")

    def leave_out(name: str, why: Any) -> None:
        result["left_out"].append({"name": name, "why": f"{type(why).__name__}: {why}"[:300]})
        print(f"{name}: left out, {result['left_out'][-1]['why']}", flush=True)
        keep()

    programs = compiled_programs(cases(args.quick), batch, left, leave_out)
    result["peaks"] = peaks(args.quick)
    roof = result["datasheet"] or result["peaks"]
    try:
        gpu = jax.default_backend() == "gpu"
        device = _torch_device(gpu)
        for name in TRAININGS:
            result["torch"] += torch_rows(name, batch, steps if gpu else 1, repeats if gpu else 1, device)
        for row in result["torch"]:
            told = f"PyTorch, {row['training']}, 1 model, {row['precision']}"
            print(f"{told}: {row['ms_a_step_median']:.3f} ms a step", flush=True)
    except Exception as error:
        leave_out("PyTorch", error)
    keep()
    for program in programs:
        case = program.case
        try:
            if left() <= 0:
                raise TimeoutError("the time is over")
            row = judged(case, program.measure(steps, repeats), work(case.recipe(0, batch)), roof)
        except Exception as error:
            leave_out(case.name, error)
            continue
        result["rows"].append(row)
        print(
            f"{case.name}: {row['ms_a_step_median']:.3f} ms a step, {row['us_a_model_and_step']:.0f} µs a model, "
            f"{row['share_of_roofline']:.0%} of the roofline ({row['bound_by']}), "
            f"compiled in {row['compile_seconds']:.0f} s",
            flush=True,
        )
        keep()
    keep()
    if words is None:
        sys.stdout.flush()
        os._exit(0)  # what is still compiling would be waited for


def compiled_programs(
    chosen: list[Case], batch: int | None, left: Callable[[], float], leave_out: Callable[[str, Any], None]
) -> list[Program]:
    """Compile all cases in threads until a third of the time is left, and give those that are done by then.

    Few at a time: trying kernels out takes turns on the one device.
    """
    pool, whole, programs = ThreadPoolExecutor(max(2, min(4, available_cores() - 2))), left(), []
    for case in chosen:
        try:
            if left() < 0.6 * whole:
                raise TimeoutError("no time to compile it")
            programs.append(Program(case, batch, pool))
            if not case.tuned:  # XLA remembers what it tried out in this process
                wait([programs[-1].compiled])
        except Exception as error:
            leave_out(case.name, error)
    wait([program.compiled for program in programs], timeout=max(0.0, left() - whole / 3))
    pool.shutdown(wait=False, cancel_futures=True)
    return programs


def _torch_device(gpu: bool) -> str:
    import torch  # pyright: ignore[reportMissingImports]

    return "cuda" if gpu and torch.cuda.is_available() else "cpu"


if __name__ == "__main__":
    main()
