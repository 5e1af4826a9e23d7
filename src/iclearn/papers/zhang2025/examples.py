"""Small data for the figures' counter-examples: curves and whole runs from closed forms, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from ...core.status import Status
from ...core.trace import Trace
from ...theory.zhang2025 import SeparateWeights, drop_sequence, predict, read_weights
from ..base import Counterexample, Data
from .setup import CONTEXT, GAIN, basis, eigenvalues

SEEDS = 6
Change = Callable[[Trace], Trace]


def trace_of(data: xr.Dataset) -> Trace:
    """A finished run of which only the data matter."""
    return Trace(data, Status.FINISHED, data.sizes["step"], {"recipe_hash": "0" * 64})


def curve(loss: np.ndarray, **tests: np.ndarray) -> Trace:
    """A run that is nothing but its loss, and losses on test sets where given."""
    steps = np.arange(len(loss))
    data = xr.Dataset({"loss": ("step", loss)}, {"step": steps, "time": ("step", steps.astype(float))})
    if tests:
        data = data.assign(test_loss=(("step", "test_set"), np.stack(list(tests.values()), -1)))
        data = data.assign_coords(test_set=np.array(list(tests), dtype=object))
    return trace_of(data)


def stairs(*heights: float, width: int = 400) -> np.ndarray:
    """A curve with a plateau at each height and a smooth drop between neighbors."""
    t = np.arange(width * len(heights))
    falls = [(a - b) * expit((width * (i + 1) - t) / 8) for i, (a, b) in enumerate(pairwise(heights))]
    return heights[-1] + np.sum(falls, axis=0)


def wobble(seed: int, size: float) -> float:
    """1, give or take `size`: another factor for every seed, 1 in the mean over six."""
    return 1 + size * float(np.cos(np.pi * (2 * seed + 1) / SEEDS))


def merged_run(
    seed: int, *, white: bool = False, steps: int = 6001, lr: float = 1e-3, init: float = 1e-6, noise: float = 0.0
) -> Trace:
    """Merged attention as (10), or its form for any spectrum, predicts it; `noise` is that of the whole loss curve."""
    run = predict(
        "merged", eigenvalues(4, white=white), CONTEXT, steps=steps, lr=lr, num_heads=8,
        init=init * (1 + 0.1 * seed), gain=GAIN,
    )  # fmt: skip
    return scaled_loss(wobble(seed, noise))(trace_of(run))


def aligned_heads(seed: int, dim: int, rank: int, heads: int, own: float) -> dict[str, np.ndarray]:
    """Initial weights of heads that lie along the eigenvectors they will learn and leave zero one after the other.

    A new head lets wait `own` units τ/(g λ²) of its eigenvector, a little more or less by seed.
    """
    force = GAIN * eigenvalues(dim) ** 2
    value, key = np.zeros((heads, 1, 1)), np.zeros((heads, rank, dim))
    clock = 0.0
    for head in range(heads):
        held = np.arange(head * rank, min((head + 1) * rank, dim)) if head * rank < dim else np.array([dim - 1])
        clock += own / force[held[0]] * (1 + 0.04 * np.cos(seed + 2 * head))
        value[head] = 1 / (force[held[0]] * clock)
        key[head, np.arange(len(held)), held] = value[head] * np.where(held == held[0], 1.0, 0.2)
        clock += 12 * float(np.sum(1 / force[held[1:]]))
    return {"value": value, "key": key, "query": key.copy()}


def separate_run(
    seed: int,
    dim: int = 4,
    rank: int = 1,
    *,
    heads: int = 5,
    own: float = 100.0,
    end: float = 1.2,
    points: int = 4000,
    noise: float = 0.0,
) -> Trace:
    """Separate attention as the sequence of its drops predicts it, up to `end` times that of the last drop."""
    start = aligned_heads(seed, dim, rank, heads, own)
    weights = read_weights(start)
    assert isinstance(weights, SeparateWeights)
    last = drop_sequence(weights, eigenvalues(dim), CONTEXT, gain=GAIN)[-1].time
    run = predict(
        "separate", eigenvalues(dim), CONTEXT, steps=points, lr=end * last / (2 * points), num_heads=heads,
        rank=rank, weights=start, gain=GAIN, records=750,
    )  # fmt: skip
    for name, array in start.items():  # the theory's own path begins with the scale of each head only
        run[f"weight_{name}"][0] = array
    return scaled_loss(wobble(seed, noise))(trace_of(run))


def altered(change: Change, *path: Any, half: bool = False) -> Callable[[Data], Data]:
    """Data in which every run is changed.

    Args:
        path: keys of the data under which runs are changed (default: all).
        half: change every second run of a list only.
    """

    def walk(node: Any, rest: tuple[Any, ...]) -> Any:
        if isinstance(node, Trace):
            return change(node)
        if isinstance(node, Mapping):
            return {key: walk(part, rest[1:]) if not rest or key == rest[0] else part for key, part in node.items()}
        if isinstance(node, list):
            return [part if half and i % 2 else walk(part, rest) for i, part in enumerate(node)]
        return node

    return lambda data: walk(data, path)


def spoiled(name: str, change: Change, *path: Any, half: bool = False) -> Counterexample:
    """The counter-example in which runs are changed, see `altered`."""
    return Counterexample(name, altered(change, *path, half=half))


def with_arrays(trace: Trace, arrays: Mapping[str, np.ndarray]) -> Trace:
    """The run with other numbers, of the same shape, under some of its names.

    A shallow copy and new values take a tenth of the time of `Dataset.assign`, and there are thousands of them.

    Args:
        trace: the run, which stays as it is.
        arrays: name of a variable, or of a coordinate that is no index → its values.

    Returns:
        The changed run.
    """
    data = trace.data.copy()
    for name, array in arrays.items():
        data.variables[name].values = array
    return replace(trace, data=data)


def changed_loss(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda trace: with_arrays(trace, {"loss": change(trace.data.variables["loss"].values)})


def scaled_loss(factor: float) -> Change:
    return changed_loss(lambda loss: factor * loss)


def scaled_time(factor: float) -> Change:
    """The same curve and weights at `factor` times their time t/τ."""
    return lambda trace: with_arrays(trace, {"time": factor * trace.data.variables["time"].values})


def stretched_time(factor: Callable[[np.ndarray], np.ndarray]) -> Change:
    """The same curve in a time that passes `factor`(loss) times as fast at every step."""

    def changed(trace: Trace) -> Trace:
        steps = np.diff(trace.data.variables["time"].values) * factor(trace.data.variables["loss"].values)[1:]
        return with_arrays(trace, {"time": np.append(0, np.cumsum(steps))})

    return changed


def changed_weights(change: Callable[[str, np.ndarray], np.ndarray]) -> Change:
    """Weights, given by name and as arrays (record, …), made anew."""

    def changed(trace: Trace) -> Trace:
        held = {str(name): array for name, array in trace.data.variables.items()}
        weights = {name: array.values for name, array in held.items() if name.startswith("weight_")}
        return with_arrays(trace, {n: change(n.removeprefix("weight_"), array) for n, array in weights.items()})

    return changed


def turned(matrix: np.ndarray, *names: str) -> Change:
    """Keys and queries, or those named, with their components along the eigenvectors mixed by a matrix."""

    def changed(trace: Trace) -> Trace:
        vectors = basis(trace)

        def turn(name: str, array: np.ndarray) -> np.ndarray:
            made = array.copy()
            if name in (names or ("key", "query")):
                made[..., : len(matrix)] = array[..., : len(matrix)] @ vectors @ matrix.T @ vectors.T
            return made

        return changed_weights(turn)(trace)

    return changed


def random_weights(name: str, array: np.ndarray) -> np.ndarray:
    return np.random.default_rng(len(name)).normal(scale=np.std(array), size=array.shape)


def cut(share: float) -> Change:
    """The run ended after this share of its steps."""

    def changed(trace: Trace) -> Trace:
        steps = max(2, int(share * trace.data.sizes["step"]))
        records = trace.data["record"].values < steps if "record" in trace.data else None
        data = trace.data.isel(step=slice(steps))
        return replace(trace, data=data if records is None else data.isel(record=np.flatnonzero(records)))

    return changed


NAN_LOSS = spoiled("losses NaN", changed_loss(lambda loss: np.full_like(loss, np.nan)))
NAN_WEIGHTS = spoiled("weights NaN", changed_weights(lambda _, array: np.full_like(array, np.nan)))
ZERO_WEIGHTS = spoiled("weights zero", changed_weights(lambda _, array: np.zeros_like(array)))
RANDOM_WEIGHTS = spoiled("weights random", changed_weights(random_weights))
FEW_RECORDS = spoiled("runs cut to a fiftieth", cut(0.02))
