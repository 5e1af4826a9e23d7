"""`simulate`: a Recipe in, a Trace out. Chunks of the loop, with progress, checkpoints and checks between them."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from .. import __version__
from ..core.jax_settings import compile_meter, small_work
from ..core.prompt import Dataset
from ..core.recipe import Recipe
from ..core.status import Status
from ..core.trace import Trace
from .build import Setup, prepare
from .loop import FLOW_STEPS, RECORD_SLOTS, STEP_SLOTS, State, advance, advance_flow, initial_state
from .optimizers import Hyper
from .reductions import BLOW_UP, CONVERGED
from .samples import step_key

CHUNK_SECONDS = 0.5  # aimed time between two looks at a run

Progress = Callable[[int, int, float], None]


@runtime_checkable
class Checkpointer(Protocol):
    """Where a run in progress is kept; `iclearn.store` has one on disk."""

    def load(self) -> dict[str, np.ndarray] | None: ...
    def save(self, arrays: dict[str, np.ndarray]) -> None: ...
    def due(self) -> bool: ...


@dataclass
class Log:
    """Everything recorded so far."""

    loss: list[np.ndarray] = field(default_factory=list)
    test_loss: list[np.ndarray] = field(default_factory=list)
    records: list[np.ndarray] = field(default_factory=list)
    weights: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def joined(self) -> dict[str, np.ndarray]:
        arrays = {
            "loss": np.concatenate(self.loss),
            "test_loss": np.concatenate(self.test_loss),
            "records": np.concatenate(self.records),
        }
        return arrays | {f"weight_{n}": np.concatenate(parts) for n, parts in self.weights.items()}


def simulate(
    recipe: Recipe,
    *,
    dataset: Dataset | None = None,
    weights: Mapping[str, np.ndarray] | None = None,
    progress: Progress | None = None,
    checkpoint: Checkpointer | None = None,
) -> Trace:
    """Train as the recipe says and return the Trace. A run that diverges returns too, with that status.

    Args:
        dataset: the arrays a `GivenData` task describes.
        weights: the arrays an ``init`` of scheme ``given`` describes.
        progress: called between chunks with (step, steps, loss).
        checkpoint: keeps a long run's state, and gives it back when the same recipe starts again.
    """
    begin = time.perf_counter()
    identity = {"recipe": recipe.to_dict(), "recipe_hash": recipe.hash}  # refuses what cannot be written, at once
    with compile_meter() as compiling:
        setup = prepare(recipe, dataset=dataset, weights=weights)
        jax.block_until_ready(eqx.filter(setup, eqx.is_array))
        setup_seconds = time.perf_counter() - begin
        if setup.engine_name == "samples":
            device = jax.devices()[0]
            state, log, spent, bad_step = _run(recipe, setup, progress, checkpoint)
        else:
            with small_work() as device:
                setup = _moved(setup, device)
                state, log, spent, bad_step = _run(recipe, setup, progress, checkpoint)
    times = {
        "wall_seconds": time.perf_counter() - begin + spent,
        "setup_seconds": setup_seconds,
        "compile_seconds": compiling.seconds,
        "programs_compiled": compiling.programs,
        "compile_cache_hits": compiling.cache_hits,
    }
    places = {"device": str(device.device_kind), "platform": device.platform}
    return finished_trace(recipe, setup, log, state, bad_step, {**identity, **times, **places})


def _moved(setup: Setup, device: Any) -> Setup:
    """The same starting point on another device; where it is there already, nothing is copied."""
    if jax.default_backend() == device.platform and jax.device_count() == 1:
        return setup
    arrays, rest = eqx.partition(setup, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)


def finished_trace(
    recipe: Recipe, setup: Setup, log: Log, state: State, bad_step: int | None, facts: dict[str, Any]
) -> Trace:
    """The Trace of a run that has ended; `facts` (its identity and times) go into the provenance."""
    arrays = log.joined()
    least = setup.engine.minimum()
    minimum = None if least is None else float(least)
    status, status_step = _judge(arrays["loss"], bad_step, minimum)
    provenance = {
        "engine": setup.engine_name,
        "iclearn": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": str(jax.devices()[0].device_kind),
        "platform": jax.default_backend(),
        "dtype": recipe.dtype,
        "seed": recipe.seed,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **facts,
    }
    return Trace(_label(recipe, setup, arrays, state, minimum, bad_step), status, status_step, provenance)


def _run(
    recipe: Recipe, setup: Setup, progress: Progress | None, checkpoint: Checkpointer | None
) -> tuple[State, Log, float, int | None]:
    """All chunks; the state reached, the log, seconds spent before a resume, and the step of a divergence."""
    flow = recipe.optimizer.rule == "flow"
    hyper = Hyper.of(recipe.optimizer, recipe.dtype)
    state = initial_state(setup.model, hyper)
    key = step_key(recipe.seed)
    every = min(STEP_SLOTS, max(1, -(-recipe.steps // recipe.record.candidates)))
    if flow:  # records must fall on the points a call returns
        every = next(e for e in range(min(every, FLOW_STEPS), FLOW_STEPS + 1) if FLOW_STEPS % e == 0)
    log, spent, begin = Log(), 0.0, time.perf_counter()
    saved = checkpoint.load() if checkpoint is not None else None
    if saved is not None:
        state, log, spent = _restore(saved, state)
    length, limit = every, min(STEP_SLOTS // every, RECORD_SLOTS) * every
    done = int(state.step)
    bad_step: int | None = None
    while done < recipe.steps:
        tick = time.perf_counter()
        if flow:
            stop = min(done + FLOW_STEPS, recipe.steps)
            state, chunk = advance_flow(setup.engine, state, hyper, key)
        else:
            stop = min(done + length, recipe.steps)
            state, chunk = advance(setup.engine, state, hyper, key, jnp.asarray(stop), jnp.asarray(every))
        count = stop - done
        loss = np.asarray(chunk.loss)[:count]
        seconds = time.perf_counter() - tick
        log.loss.append(loss)
        log.test_loss.append(np.asarray(chunk.test_loss)[:count])
        records = np.arange(done, stop, every)
        log.records.append(records)
        stride = every if flow else 1
        for name, path in chunk.weights.items():
            log.weights.setdefault(name, []).append(np.asarray(path)[: len(records) * stride : stride])
        if flow and count < FLOW_STEPS:  # the last call went beyond the last step
            ends = {name: np.asarray(path)[count] for name, path in chunk.weights.items()}
            state = eqx.tree_at(lambda s, names=tuple(ends): [getattr(s.model, n) for n in names], state,
                                [jnp.asarray(end) for end in ends.values()])  # fmt: skip
        bad = diverged(loss, float(log.loss[0][0]))
        if bad.any():
            bad_step = done + int(np.argmax(bad))
            break
        done = stop
        if not flow:
            length = next_length(count, seconds, every, limit)
        if progress is not None:
            progress(done, recipe.steps, float(loss[-1]))
        if checkpoint is not None and done < recipe.steps and checkpoint.due():
            checkpoint.save(_freeze(state, log, spent + time.perf_counter() - begin))
    return state, log, spent, bad_step


def diverged(loss: np.ndarray, first: float) -> np.ndarray:
    """Which of these losses are no fluctuation any more."""
    return ~np.isfinite(loss) | (loss > BLOW_UP * max(first, 1e-300))


def next_length(count: int, seconds: float, every: int, limit: int) -> int:
    """Steps of the next chunk after `count` steps took these seconds: whole recording intervals, half a second."""
    faster = count * CHUNK_SECONDS / max(seconds, 1e-6)
    return max(every, min(limit, int(min(faster, 8 * count)) // every * every))


def _freeze(state: State, log: Log, seconds: float) -> dict[str, np.ndarray]:
    leaves = jax.tree.leaves(eqx.filter(state, eqx.is_array))
    return {
        **log.joined(),
        **{f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)},
        "seconds": np.asarray(seconds),
    }


def _restore(saved: dict[str, np.ndarray], like: State) -> tuple[State, Log, float]:
    arrays, rest = eqx.partition(like, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    loaded = [jnp.asarray(saved[f"state_{i}"], leaf.dtype) for i, leaf in enumerate(leaves)]
    weights = {n.removeprefix("weight_"): [a] for n, a in saved.items() if n.startswith("weight_")}
    log = Log([saved["loss"]], [saved["test_loss"]], [saved["records"]], weights)
    return eqx.combine(jax.tree.unflatten(structure, loaded), rest), log, float(saved["seconds"])


def _judge(loss: np.ndarray, bad_step: int | None, minimum: float | None) -> tuple[Status, int]:
    if bad_step is not None:
        return Status.DIVERGED, bad_step
    if minimum is not None and loss[-1] - minimum <= CONVERGED * max(loss[0] - minimum, 0):
        return Status.CONVERGED, len(loss)
    return Status.FINISHED, len(loss)


def select_records(loss: np.ndarray, count: int) -> np.ndarray:
    """Indices of at most `count` points of a curve: half spread over the steps, half where the loss moves."""
    total = len(loss)
    if total <= count:
        return np.arange(total)
    if count <= 0:
        return np.zeros(0, int)
    positive = np.log(np.maximum(np.abs(loss), 1e-300))
    moved = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(positive)))])
    spread = np.linspace(0, 1, total)
    length = spread if moved[-1] == 0 else 0.5 * spread + 0.5 * moved / moved[-1]
    return np.unique(np.searchsorted(length, np.linspace(0, length[-1], count)).clip(0, total - 1))


def _label(
    recipe: Recipe,
    setup: Setup,
    arrays: dict[str, np.ndarray],
    state: State,
    minimum: float | None,
    bad_step: int | None,
) -> xr.Dataset:
    """Named axes for everything; after a divergence the curve ends with the last step that was still sound."""
    loss = arrays["loss"] if bad_step is None else arrays["loss"][: max(1, bad_step)]
    steps = np.arange(len(loss))
    variables: dict[str, Any] = {"loss": ("step", loss, {"long_name": "training loss"})}
    coords: dict[str, Any] = {"step": ("step", steps, {"long_name": "step"})}
    if recipe.optimizer.rule in ("gd", "flow"):
        coords["time"] = ("step", 2 * recipe.optimizer.lr * steps, {"long_name": "time", "units": "tau"})
    if setup.task.tests:
        variables["test_loss"] = (("step", "test_set"), arrays["test_loss"][: len(loss)])
        coords["test_set"] = ("test_set", np.array(setup.task.tests, dtype=object))
    if recipe.record.weights:
        sound = arrays["records"] < len(loss)
        records = arrays["records"][sound]
        final = state.model.weights()
        complete = len(loss) == recipe.steps
        chosen = select_records(loss[records], recipe.record.weights - complete)
        coords["record"] = ("record", np.append(records[chosen], np.full(int(complete), recipe.steps)))
        for name, axes in type(state.model).axes.items():
            path = arrays[f"weight_{name}"][sound][chosen]
            if complete:
                path = np.concatenate([path, np.asarray(final[name])[None]])
            variables[f"weight_{name}"] = (("record", *axes), path)
            for axis, size in zip(axes, path.shape[1:], strict=True):
                coords[axis] = (axis, np.arange(size))
    covariance = np.asarray(setup.task.covariance_matrix(recipe.seed))
    if np.isfinite(covariance).all():
        variables["covariance"] = (("input", "key_input"), covariance)
        coords["input"] = ("input", np.arange(len(covariance)))
        coords["key_input"] = ("key_input", np.arange(len(covariance)))
    if minimum is not None:
        variables["loss_minimum"] = ((), minimum)
    return xr.Dataset(variables, coords)
