"""Many runs by compiled code, in threads: blocks of runs side by side for small models, run after run for larger."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxtyping import Float

from ..batch.inputs import RunInputs
from ..batch.rows import unroll
from ..contractions import Sizes
from .loops import loop_numbers
from .machine_code import load_entry
from .programs import block_source, is_straight, run_source
from .switch import thread_count
from .update_rules import MEMORY

LANES = {"float32": 16, "float64": 8}  # runs of a block: 64 bytes of each weight


def train_compiled(
    runs: RunInputs,
    sizes: Sizes,
    rotate: bool,
    lengths: np.ndarray,
    *,
    lanes: int | None = None,
    threads: int | None = None,
) -> Float[np.ndarray, "run sample"]:
    """Train runs and keep their losses at sampled steps; neither threads nor blocks change a number.

    Args:
        runs: with a leading axis.
        sizes: what the step depends on.
        rotate: whether to go to the eigenbasis of each run's inputs.
        lengths: (sample) steps from each sampled one to the next.
        lanes: runs of a block (default: 64 bytes of each weight).
        threads: how many (default: `switch.thread_count`).

    Returns:
        (run, sample) the losses.
    """
    rule, dtype = runs.hyper.rule, str(runs.hyper.lr.dtype)
    written = unroll(runs, sizes, rotate)
    weights, numbers = np.asarray(written.weights), np.asarray(written.numbers)
    hyper = np.stack([np.asarray(part) for part in (runs.hyper.lr, runs.hyper.momentum, runs.hyper.weight_decay)])
    lengths = np.ascontiguousarray(lengths, np.int64)
    count = weights.shape[1]
    curves = np.empty((count, len(lengths)), dtype)
    if is_straight(sizes):
        step = lanes or LANES[dtype]
        train = load_entry(block_source(sizes, dtype, rule, step), apart=True)

        def work(start: int) -> None:
            columns = np.minimum(np.arange(start, start + step), count - 1)  # the last block is filled up
            memory = np.zeros((MEMORY[rule] * sizes.num_weights, step), dtype)
            rows = np.concatenate([weights[:, columns], numbers[:, columns], memory, hyper[:, columns]])
            losses = np.empty(len(lengths) * step, dtype)
            train(rows.ravel(), lengths, losses)
            curves[start : start + step] = losses.reshape(len(lengths), step).T[: count - start]
    else:
        step = 1
        sample = load_entry(run_source(sizes, dtype, rule, "sample"))

        def work(start: int) -> None:
            form = loop_numbers(np.ascontiguousarray(numbers[:, start]), sizes)
            memory = np.zeros(MEMORY[rule] * sizes.num_weights, dtype)
            now, own = np.ascontiguousarray(weights[:, start]), np.ascontiguousarray(hyper[:, start])
            sample(now, form, memory, own, lengths, curves[start])

    each_in_threads(work, range(0, count, step), threads)
    return curves


def each_in_threads(work: Callable[[int], None], items: range, threads: int | None = None) -> None:
    """Call a function for every item, in threads; compiled code runs without the lock of the interpreter.

    Args:
        work: the function.
        items: the items.
        threads: how many (default: `switch.thread_count`).
    """
    many = min(threads or thread_count(), len(items))
    if many <= 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(many) as pool:
        list(pool.map(work, items))
