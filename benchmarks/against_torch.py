"""How many times faster a step is than in the naive PyTorch script: same data, same initial weights, one run."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Iterator

import jax
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

    The ratio divides torch's fastest step by our median one, so load on the machine cannot flatter it.
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
    error = 0.0
    default = torch.get_num_threads()
    for threads in sorted({1, available_cores()}):
        torch.set_num_threads(threads)
        losses, seconds = train(tokens, target, start, lr=recipe.optimiser.lr, steps=slow_steps + 1, softmax=softmax)
        naive[threads] = [s * 1e6 for s in seconds[1:]]  # the first step also allocates
        error = max(error, compare_losses(losses, recipe))
        ours += step_times(recipe, count, repeats).wall
    torch.set_num_threads(default)
    best = min(naive, key=lambda threads: min(naive[threads]))
    detail = {
        "engine": setup.engine_name,
        "ours_us": ours,
        "ours_median_us": statistics.median(ours),
        "ours_minimum_us": min(ours),
        "naive_us_by_threads": {str(threads): times for threads, times in naive.items()},
        "naive_minimum_us": min(naive[best]),
        "naive_threads": best,
        "ratio_of_minima": min(naive[best]) / min(ours),
        "losses_compared": slow_steps + 1,
        "loss_relative_error": error,
        "device": str(jax.devices()[0].device_kind),
    }
    return [
        Result(f"{name}/naive", f"naive PyTorch, {what}", "µs/step", tuple(naive[best]), None, {"threads": best}),
        Result(
            f"{name}/ratio",
            f"naive PyTorch ÷ iclearn, {what}",
            "times",
            (min(naive[best]) / statistics.median(ours),),
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
