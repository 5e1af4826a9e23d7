"""From what a run recorded to its Trace: named axes, thinned records, how it ended, where it came from."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from ..core.columns import Columns
from ..core.provenance import now, versions
from ..core.recipe import Recipe
from ..core.status import Status
from ..core.trace import Trace
from .build import Setup
from .loop import State
from .reductions import BLOW_UP, CONVERGED


@dataclass
class Log:
    """Everything one run has recorded so far, in parts.

    Args:
        loss: training losses.
        test_loss: (step, test_set) test losses.
        records: steps at which weights were recorded.
        weights: name → weights there.
    """

    loss: list[np.ndarray] = field(default_factory=list)
    test_loss: list[np.ndarray] = field(default_factory=list)
    records: list[np.ndarray] = field(default_factory=list)
    weights: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def joined(self) -> dict[str, np.ndarray]:
        """All parts put together, under the names of a checkpoint."""
        arrays = {name: np.concatenate(getattr(self, name)) for name in ("loss", "test_loss", "records")}
        return arrays | {f"weight_{n}": np.concatenate(parts) for n, parts in self.weights.items()}

    @staticmethod
    def of(arrays: dict[str, np.ndarray]) -> Log:
        """The log that `joined` wrote."""
        weights = {n.removeprefix("weight_"): [a] for n, a in arrays.items() if n.startswith("weight_")}
        return Log([arrays["loss"]], [arrays["test_loss"]], [arrays["records"]], weights)


def diverged(loss: np.ndarray, first: float) -> np.ndarray:
    """Which losses are those of a divergence and no fluctuation any more.

    Args:
        loss: (step) the losses.
        first: the first loss of the run.

    Returns:
        (step) true where the loss is not finite, or more than BLOW_UP times the first.
    """
    return ~np.isfinite(loss) | (loss > BLOW_UP * max(first, 1e-300))


def finished_trace(
    recipe: Recipe, setup: Setup, log: Log, state: State, bad_step: int | None, facts: dict[str, Any]
) -> Trace:
    """The Trace of a run that has ended.

    Args:
        recipe: the experiment.
        setup: where it started.
        log: what it recorded.
        state: where it ended.
        bad_step: the step at which it diverged, if it did.
        facts: times and places, for the provenance.

    Returns:
        The Trace.
    """
    arrays = log.joined()
    least = setup.engine.minimum()
    minimum = None if least is None else float(least)
    status, status_step = _status(arrays["loss"], bad_step, minimum)
    provenance = {
        "recipe": recipe.to_dict(),
        "recipe_hash": recipe.hash,
        "engine": setup.engine_name,
        **versions("jax", "numpy"),
        "machine": platform.machine(),
        "device": str(jax.devices()[0].device_kind),
        "platform": jax.default_backend(),
        "dtype": recipe.dtype,
        **({"products": recipe.model.products()} if recipe.model.products() else {}),
        "seed": recipe.seed,
        "created": now(),
        **facts,
    }
    return Trace.of_columns(_label(recipe, setup, arrays, state, minimum, bad_step), status, status_step, provenance)


def _status(loss: np.ndarray, bad_step: int | None, minimum: float | None) -> tuple[Status, int]:
    if bad_step is not None:
        return Status.DIVERGED, bad_step
    if minimum is not None and loss[-1] - minimum <= CONVERGED * max(loss[0] - minimum, 0):
        return Status.CONVERGED, len(loss)
    return Status.FINISHED, len(loss)


def select_records(loss: np.ndarray, count: int) -> np.ndarray:
    """Indices of points of a curve: half of them spread over the steps, half where the logarithm of the loss moves.

    Args:
        loss: (point) the curve.
        count: how many points at most.

    Returns:
        The indices, in increasing order.

    >>> select_records(np.ones(9), 3)
    array([0, 4, 8])
    """
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
    recipe: Recipe, setup: Setup, arrays: dict[str, np.ndarray], state: State, minimum: float | None, bad: int | None
) -> Columns:
    """Named axes for everything; after a divergence the curve ends with the last step that was still sound."""
    loss = arrays["loss"] if bad is None else arrays["loss"][: max(1, bad)]
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
        for name, axes in state.model.axes.items():
            path = arrays[f"weight_{name}"][sound][chosen]
            if complete:
                path = np.concatenate([path, np.asarray(final[name])[None]])
            variables[f"weight_{name}"] = (("record", *axes), path)
            coords |= {axis: (axis, np.arange(size)) for axis, size in zip(axes, path.shape[1:], strict=True)}
        for index, leaf in enumerate(jax.tree.leaves(state.optimizer) if complete else ()):
            values = np.asarray(leaf)  # what momentum and Adam remember, so that training can go on
            variables[f"optimizer_{index}"] = (tuple(f"optimizer_{index}_{k}" for k in range(values.ndim)), values)
    matrix = setup.task.covariance_matrix(recipe.seed)
    if matrix is not None and np.isfinite(matrix := np.asarray(matrix)).all():
        variables["covariance"] = (("input", "key_input"), matrix)
        coords |= {axis: (axis, np.arange(len(matrix))) for axis in ("input", "key_input")}
    if minimum is not None:
        variables["loss_minimum"] = ((), minimum)
    return Columns(variables, coords, {})
