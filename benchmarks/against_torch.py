"""How many times faster a step is than in the naive PyTorch script: same data, same initial weights, one run."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator

import numpy as np

from iclearn import Recipe, simulate
from iclearn.core.prompt import Batch
from iclearn.engines import prepare

from .machine import available_cores
from .measure import Case, Result, Scale, Skip
from .recipes import merged, separate
from .steps import step_times

AGREE = 1e-9  # relative difference of the losses that counts as the same model
MOVES = 1e-3  # relative fall of the loss over the compared steps, below which agreement would mean nothing
INIT = 0.2  # large enough that the loss falls from the first step


def full_matrices(weights: dict[str, np.ndarray], dim: int) -> dict[str, np.ndarray]:
    """Our weights inside the full (dim+1)×(dim+1) matrices; the entries we leave out cannot reach the output."""
    entry = dim + 1
    heads = len(weights["value"])
    value = np.zeros((heads, entry, entry))
    value[:, dim:] = weights["value"]
    if "kq" in weights:
        kq = np.zeros((heads, entry, entry))
        kq[:, :dim] = weights["kq"]
        return {"value": value, "kq": kq}
    query = np.zeros((heads, weights["query"].shape[1], entry))
    query[:, :, :dim] = weights["query"]
    return {"value": value, "key": weights["key"], "query": query}


def compare_losses(naive: list[float], recipe: Recipe) -> float:
    """Largest relative difference to our own losses; an error if the two are not the same model."""
    ours = simulate(recipe.replace(steps=len(naive))).loss.values
    error = float(np.max(np.abs(np.array(naive) / ours - 1)))
    if not error <= AGREE:
        raise AssertionError(f"the naive script and iclearn disagree: relative error {error:.1e} in the first losses")
    if not abs(ours[-1] / ours[0] - 1) >= MOVES:
        raise AssertionError(f"the loss hardly moves ({ours[0]} to {ours[-1]}), so that agreement shows nothing")
    return error


def measure(name: str, what: str, recipe: Recipe, loop_steps: int, slow_steps: int, repeats: int) -> list[Result]:
    """Time both. Threads can slow torch down on a busy machine: it runs with one and with all, and the faster counts.

    A naive step takes long enough that other work on the machine lengthens it, and none of ours is that long. So the
    ratio is a lower bound that load hardly raises: torch's least processor time, as if all cores had shared it without
    loss, over our median wall time.
    """
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise Skip("torch is not installed (it is the extra `bench`)") from None
    from .naive_torch import train

    setup = prepare(recipe)
    batch = setup.task.source(recipe.seed, "float64").everything()
    assert isinstance(batch, Batch)
    softmax = setup.engine_name == "samples"
    tokens, target = np.asarray(batch.prompt.tokens()), np.asarray(batch.target)[:, 0]
    start = full_matrices({n: np.asarray(w) for n, w in setup.model.weights().items()}, setup.task.dim)
    count = slow_steps if softmax else loop_steps
    ours = list(step_times(recipe, count, repeats).wall)
    naive: dict[int, list[float]] = {}
    cpu: dict[int, list[float]] = {}
    error = 0.0
    default, cores = torch.get_num_threads(), available_cores()
    for threads in sorted({1, cores}):
        torch.set_num_threads(threads)
        losses, walls, cpus = train(
            tokens, target, start, lr=recipe.optimizer.lr, steps=slow_steps + 1, softmax=softmax
        )
        naive[threads] = [s * 1e6 for s in walls[1:]]  # the first step also allocates
        cpu[threads] = [s * 1e6 for s in cpus[1:]]
        error = max(error, compare_losses(losses, recipe))
        ours += step_times(recipe, count, repeats).wall
    torch.set_num_threads(default)
    best = min(naive, key=lambda threads: min(naive[threads]))
    our_median, least_cpu = statistics.median(ours), min(min(times) for times in cpu.values())
    detail = {
        "engine": setup.engine_name,
        "ours_us": ours,
        "ours_median_us": our_median,
        "ours_minimum_us": min(ours),
        "naive_us_by_threads": {str(threads): times for threads, times in naive.items()},
        "naive_cpu_us_by_threads": {str(threads): times for threads, times in cpu.items()},
        "ratio_of_medians": statistics.median(naive[best]) / our_median,
        "ratio_of_minima": min(naive[best]) / min(ours),
        "losses_compared": slow_steps + 1,
        "loss_relative_error": error,
    }
    row = f"naive PyTorch, {what}"
    return [
        Result(f"{name}/naive", row, "µs/step", tuple(naive[best]), None, {"threads": best}, tuple(cpu[best])),
        Result(
            f"{name}/ratio",
            f"naive PyTorch ÷ iclearn at least, {what}",
            "times",
            (least_cpu / cores / our_median,),
            None,
            detail,
        ),
    ]


def cases(scale: Scale) -> Iterator[Case]:
    few = scale.num_prompts[0]
    rows = [
        ("merged-d4", f"merged D=4 H=8 P={few}", merged(4, few)),
        ("separate-d4", f"separate D=4 H=5 P={few}", separate(4, few, num_heads=5)),
        ("separate-d8-r4", f"separate D=8 H=9 R=4 P={few}", separate(8, few, num_heads=9, rank=4)),
        ("softmax-merged-d4", f"softmax merged D=4 H=8 P={few}", merged(4, few, softmax=True)),
        ("softmax-separate-d4", f"softmax separate D=4 H=5 P={few}", separate(4, few, num_heads=5, softmax=True)),
    ]
    for label, what, recipe in rows:
        name, recipe = f"torch/{label}", recipe.replace(init__scale=INIT)
        repeats = min(scale.repeats, 5)
        yield Case(name, functools.partial(measure, name, what, recipe, scale.loop_steps, scale.slow_steps, repeats))
