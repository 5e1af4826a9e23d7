"""What fig_training reads off its runs: distances to the gradient step, recovered weights, guesses over training."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import xarray as xr

from ...core.prompt import Batch
from ...core.rng import stream
from ...core.trace import Trace
from ...models.predictors import GradientDescent
from ...probes.similarity_training import RecoveredStep, recovered_step, similarity_over_training
from ...theory.xie2025 import gd_step
from .setup import DIM, MEMBERS, NAMES, law_of, losses_over_training, paper_task, prior_mean

NORM = 3.0  # of w*, where yq-LSA is compared with the gradient step
PROMPTS = 4096
Names = Sequence[str | int]


def _recovered(trace: Trace) -> list[RecoveredStep]:
    """The gradient step that the first member of a run is at every record."""
    p, q, guess = (trace.data[f"weight_{n}"].values.astype(float) for n in ("p", "q", "guess"))
    return [recovered_step(p[i, 0, 0], q[i, 0, 0], guess[i, 0]) for i in range(len(p))]


def _distances(found: Sequence[RecoveredStep], norm: float) -> dict[str, tuple[str, np.ndarray]]:
    mean = np.array(prior_mean(norm))
    return {
        "guess_distance": ("record", np.array([np.linalg.norm(f.guess - mean) for f in found])),
        "start_distance": ("record", np.array([np.linalg.norm(f.start - mean) for f in found])),
        "step": ("record", np.array([f.step for f in found])),
    }


def ends_of(traces: Sequence[Trace], norm: float) -> xr.Dataset:
    """Distances of w_q and −p_x/p_y to w*, and the step size, at the end of every run."""
    parts = [xr.Dataset(_distances(_recovered(trace)[-1:], norm)).isel(record=0) for trace in traces]
    return xr.concat(parts, "seed")


def similarity_paths(traces: Sequence[Trace], shown: Names, names: Names, grid: np.ndarray) -> xr.Dataset:
    """Losses, distances to the gradient step and recovered weights at every record of every seed."""
    task = paper_task(NORM)
    law = law_of(task)
    reference = GradientDescent(law.mean, gd_step(law, law.mean).step)
    batch = task.fresh(0, jax.random.fold_in(stream(0, "check"), 1), PROMPTS, "float64")
    assert isinstance(batch, Batch)
    parts: list[xr.Dataset] = []
    for trace in traces:
        records = trace.data["record"].values
        paths = {n: trace.data[f"weight_{n}"].values.astype(float) for n in ("p", "q", "guess")}
        tables: list[xr.Dataset] = []
        for name in shown:
            index = names.index(name)
            spec = MEMBERS[NAMES.index(name)]
            models = [spec.rebuild(DIM, {n: w[i, index] for n, w in paths.items()}) for i in range(len(records))]
            tables.append(similarity_over_training(models, records, reference, batch))
        labels = np.array([str(name) for name in shown], dtype=object)
        table = xr.concat(tables, "member").assign_coords(member=labels)
        table["loss"] = (("record", "member"), losses_over_training(trace)[:, [names.index(name) for name in shown]])
        table = table.assign(_distances(_recovered(trace), NORM))
        parts.append(table.interp(record=grid))  # seeds keep different records
    whole = xr.concat(parts, "seed")
    assert isinstance(whole, xr.Dataset)
    return whole


def guesses_of(slow: Sequence[Trace], fast: Sequence[Trace], grid: np.ndarray) -> xr.Dataset:
    """yq-LSA at ‖w*‖ = 10 under both learning rates: its loss and guess over training."""
    parts = []
    for pair in zip(slow, fast, strict=True):
        both = []
        for name, trace in zip(("slow", "fast"), pair, strict=True):
            records = trace.data["record"].values
            losses = losses_over_training(trace)[:, 0]
            guess = trace.data["weight_guess"].values[:, 0].astype(float)
            table = {f"{name}_loss": ("record", losses), f"{name}_guess": (("record", "input"), guess)}
            both.append(xr.Dataset(table, {"record": records}).interp(record=grid))
        parts.append(xr.merge(both))
    whole = xr.concat(parts, "seed")
    assert isinstance(whole, xr.Dataset)
    return whole
