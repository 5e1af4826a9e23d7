"""A step of every training of oswald2023 and ahn2023 against a naive PyTorch script of the same model, in one run.

python -m benchmarks.depth_steps --out benchmarks/results/depth-cpu.json [--torch-device cuda] [--only fig3] [--quick]

Both sides draw fresh prompts at every step, as many, and train the same model with the same rule; that it is the same
model is checked on common prompts before. Microseconds a step are wall times of repeats that alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from iclearn import Init, LinearTransformer, Optimizer, Recipe
from iclearn.core.recipe import EngineName
from iclearn.core.rng import stream
from iclearn.engines import prepare
from iclearn.engines.loop import STEP_SLOTS, advance, initial_state
from iclearn.engines.optimizers import Hyper
from iclearn.engines.samples import step_key
from iclearn.models.deep_attention import DeepAttention, position_code
from iclearn.papers.oswald2023.setup import recipe as oswald
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.varied_regression import VariedRegression

from .machine import available_cores, machine, now, versions

AGREE = 2e-4  # relative to the largest prediction, in float32
LARGE = 0.3  # size of the weights with which the two are compared


@dataclass(frozen=True)
class Training:
    """One training: its name, its recipe here, and what it is in words."""

    name: str
    what: str
    recipe: Recipe


def ahn(layers: int, batch: int, *, rotated: bool, engine: EngineName, context_len: int = 20) -> Recipe:
    """ahn2023's protocols: identity (4000 prompts), rotated with matched prior (20000), variable N (40000)."""
    shape = (1.0, 1.0, 0.25, 0.0625, 1.0) if rotated else (1.0,) * 5
    task = VariedRegression(
        dim=5, context_len=context_len, covariance=Covariance.eigenvalues(shape, rotate=rotated), inverse_prior=rotated,
        num_prompts=None,
    )  # fmt: skip
    betas, clip = ((0.99, 0.9), None) if rotated else ((0.9, 0.9), 1000.0)
    optimizer = Optimizer("adam", 0.01 if rotated else 0.001, betas=betas, clip=clip, batch_size=batch)
    model = LinearTransformer(layers=layers)
    return Recipe(
        task=task, model=model, init=Init(1e-4), optimizer=optimizer, steps=2000, seed=0, engine=engine, dtype="float32"
    )


def trainings() -> list[Training]:
    """The trainings of the figures, by name."""
    tied, untied, copy = (
        DeepAttention(layers=5, tied=True), DeepAttention(layers=5),
        DeepAttention(layers=2, interleaved=True, positions=10, first_softmax=True),
    )  # fmt: skip
    one, two = DeepAttention(softmax=True), DeepAttention(num_heads=2, softmax=True)
    rows = [
        ("oswald2023/fig2", "one layer, d = N = 10", oswald(1, 0)),
        ("oswald2023/fig3", "two tied layers", oswald(2, 0)),
        ("oswald2023/fig3_deep/tied", "five tied layers with clip", oswald(5, 0, model=tied)),
        ("oswald2023/fig3_deep/untied", "five layers with clip", oswald(5, 0, model=untied)),
        ("oswald2023/gram/untied", "five layers without clip", oswald(5, 0, tied=False)),
        ("oswald2023/fig_softmax/one", "softmax, one head", oswald(1, 0, model=one)),
        ("oswald2023/fig_softmax/two", "softmax, two heads", oswald(1, 0, model=two)),
        ("oswald2023/fig_copy", "two layers, interleaved tokens", oswald(2, 0, model=copy, init=0.02)),
    ]
    engines: tuple[EngineName, ...] = ("gram", "samples")
    for engine in engines:
        recipe = ahn(3, 4000, rotated=False, engine=engine)
        rows.append((f"ahn2023/identity/{engine}", "three layers, d = 5, N = 20", recipe))
    for layers in (1, 2, 3, 4):
        recipe = ahn(layers, 20_000, rotated=True, engine="gram")
        rows.append((f"ahn2023/rotated/L{layers}", f"{layers} layers, rotated", recipe))
    recipe = ahn(3, 40_000, rotated=True, engine="gram", context_len=8)
    rows.append(("ahn2023/variable_n/N8", "three layers, rotated, N = 8", recipe))
    return [Training(*row) for row in rows]


def naive_model(recipe: Recipe, model: Any) -> Any:
    """The model in PyTorch, with these weights."""
    from .naive_depth import DeepAttentionNet, PreconditionedNet

    weights = {name: np.asarray(weight, np.float32) for name, weight in model.weights().items()}
    if "a" in weights:
        return PreconditionedNet(weights["a"][:, 0], weights["b"][:, 0])
    spec: Any = recipe.model
    if weights["query"].ndim == 4:  # (layer, head, entry, key), one head
        weights = {name: weight[:, 0] for name, weight in weights.items()}
    deep = isinstance(spec, DeepAttention)
    code = position_code(2 * recipe.task.context_len + 1, spec.positions) if deep and spec.interleaved else None
    return DeepAttentionNet(
        weights, layers=spec.layers, heads=spec.num_heads, softmax=deep and spec.softmax,
        first_softmax=deep and spec.first_softmax, clip=deep, positions=code,
    )  # fmt: skip


def agreement(recipe: Recipe) -> float:
    """Largest difference of the predictions for common prompts, relative to the largest prediction."""
    import torch  # pyright: ignore[reportMissingImports]

    model = recipe.model.initial(recipe.task, Init(LARGE), 1, "float32")
    batch: Any = recipe.task.replace(num_prompts=64).source(3, "float32").everything()
    ours = np.asarray(eqx.filter_jit(lambda m, p: jax.vmap(m.predict)(p))(model, batch.prompt))[:, 0]
    with torch.no_grad():
        naive = naive_model(recipe, model)(torch.tensor(np.array(batch.prompt.tokens()))).numpy()
    error = float(np.max(np.abs(ours - naive)) / np.max(np.abs(ours)))
    if not error <= AGREE:
        raise AssertionError(f"the naive script and iclearn disagree: relative error {error:.1e}")
    return error


def our_step(recipe: Recipe, count: int) -> Callable[[], float]:
    """A function that trains `count` steps and gives the seconds, everything compiled beforehand."""
    setup = prepare(recipe)
    hyper = Hyper.of(recipe.optimizer, recipe.dtype)
    start, key = initial_state(setup.model, hyper), step_key(recipe.seed)

    def once() -> float:
        begin = time.perf_counter()
        jax.block_until_ready(advance(setup.engine, start, hyper, key, jnp.asarray(count), jnp.asarray(count)))
        return time.perf_counter() - begin

    once()
    return once


def naive_step(recipe: Recipe, count: int, device: str) -> Callable[[], float]:
    """The same in PyTorch."""
    from .naive_depth import Prompts, train

    task: Any = recipe.task
    factor = np.asarray(task.covariance.factor(task.dim, stream(recipe.seed, "covariance")))
    prior = np.asarray(task._prior(recipe.seed)[1])
    uniform, size, options = task.inputs == "uniform", recipe.optimizer.batch_size, recipe.optimizer
    prompts = Prompts(task.dim, task.context_len, size or 0, factor, prior, uniform)
    model = naive_model(recipe, prepare(recipe).model).to(device)

    def once() -> float:
        begin = time.perf_counter()
        train(
            model, prompts, count, lr=options.lr, betas=(options.betas[0], options.betas[1]), eps=options.eps,
            clip=options.clip, device=device,
        )  # fmt: skip
        return time.perf_counter() - begin

    once()
    return once


def compare(training: Training, *, steps: int, repeats: int, device: str) -> dict[str, Any]:
    """Both sides of one training, alternating; PyTorch on a processor with one thread or with all, the faster."""
    import torch  # pyright: ignore[reportMissingImports]

    recipe = training.recipe
    error, few, count = agreement(recipe), max(1, steps // 5), min(steps, STEP_SLOTS)
    ours, naive = our_step(recipe, count), naive_step(recipe, few, device)
    threads = [1] if device == "cuda" else sorted({1, available_cores()})
    own: list[float] = []
    theirs: dict[int, list[float]] = {number: [] for number in threads}
    for _ in range(repeats):
        own.append(ours() / count * 1e6)
        for number in threads:
            torch.set_num_threads(number)
            theirs[number].append(naive() / few * 1e6)
    best = min(threads, key=lambda number: statistics.median(theirs[number]))
    medians = statistics.median(own), statistics.median(theirs[best])
    return {
        "name": training.name, "what": training.what, "engine": recipe.engine, "batch": recipe.optimizer.batch_size,
        "ours_us": own, "naive_us_by_threads": {str(number): times for number, times in theirs.items()},
        "naive_threads": best, "ours_median_us": medians[0], "naive_median_us": medians[1],
        "ratio_of_medians": medians[1] / medians[0], "ratio_of_minima": min(theirs[best]) / min(own),
        "prediction_error": error,
    }  # fmt: skip


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--torch-device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", default=[], help="trainings whose names contain one of these")
    parser.add_argument("--steps", type=int, default=100, help="steps of a repeat (PyTorch: a fifth)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="5 steps, 2 repeats, batches of 32")
    args = parser.parse_args(words)
    import torch  # pyright: ignore[reportMissingImports]

    if args.torch_device == "cuda" and not torch.cuda.is_available():
        parser.error("this PyTorch sees no GPU")
    chosen = [t for t in trainings() if not args.only or any(word in t.name for word in args.only)]
    steps, repeats = (5, 2) if args.quick else (args.steps, args.repeats)
    started, rows = now(), []
    for training in chosen:
        if args.quick:
            training = Training(training.name, training.what, training.recipe.replace(optimizer__batch_size=32))
        rows.append(compare(training, steps=steps, repeats=repeats, device=args.torch_device))
        ours, naive = rows[-1]["ours_median_us"], rows[-1]["naive_median_us"]
        print(f"{training.name}: {ours:.0f} µs, naive {naive:.0f} µs, ratio {naive / ours:.2f}", flush=True)
        result = {
            "machine": machine(), "versions": versions(), "torch_device": args.torch_device, "quick": args.quick,
            "started": started, "finished": now(), "load_average_after": os.getloadavg(), "trainings": rows,
        }  # fmt: skip
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(result, indent=1) + "\n")  # also where it is cut short afterwards


if __name__ == "__main__":
    main()
