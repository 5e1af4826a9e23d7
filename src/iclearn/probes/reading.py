"""How probes read their input: plain arrays, or a Trace with its named axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.checks import as_numbers
from ..core.errors import IclearnError
from ..core.trace import Trace
from ..models.features import attention_scale


def finite(name: str, values: Any, ndim: int | None = None) -> np.ndarray:
    """`values` as a float64 array without NaN or infinity; anything else is refused with `IclearnError`.

    Args:
        name: of the values, for the message.
        values: an array, or what numpy can make one of.
        ndim: the number of axes it must have (None: any).

    Returns:
        The array.
    """
    array = as_numbers(name, values, ndim)
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise IclearnError(f"{name} has {int(bad.sum())} NaN or infinite values, the first at index {where}")
    return array


def loss_curve(loss: Any, time: Any = None) -> tuple[Float[np.ndarray, " step"], Float[np.ndarray, " step"]]:
    """A loss curve and its times, checked.

    Args:
        loss: (point) an array, or a Trace.
        time: (point) increasing times (default: a Trace's t/τ where it has it, else its steps; for arrays 0, 1, …).

    Returns:
        The loss and the times, each (point).

    >>> loss_curve([2.0, 1.0])
    (array([2., 1.]), array([0., 1.]))
    """
    if isinstance(loss, Trace):
        if time is None:
            time = loss.data["time"].values if "time" in loss.data else loss.data["step"].values
        loss = loss.loss.values
    curve = finite("the loss curve", loss, 1)
    if curve.size < 2:
        raise IclearnError(f"a loss curve needs at least 2 points, not {curve.size}")
    times = np.arange(curve.size, dtype=float) if time is None else finite("the times", time, 1)
    if times.shape != curve.shape:
        raise IclearnError(f"{times.size} times were given for a loss curve of {curve.size} points")
    if not (np.diff(times) > 0).all():
        raise IclearnError("the times of a loss curve must increase from each point to the next")
    return curve, times


@dataclass(frozen=True)
class SeparateWeights:
    """Weights of a separate-weights model with one output, over records, without the zero blocks.

    Args:
        value: (record, head) v_h.
        key: (record, head, rank, dim) k_{h,r}.
        query: (record, head, rank, dim) q_{h,r}.
    """

    value: Float[np.ndarray, "record head"]
    key: Float[np.ndarray, "record head rank dim"]
    query: Float[np.ndarray, "record head rank dim"]

    def matrices(self) -> Float[np.ndarray, "record dim dim"]:
        """W = Σ_h v_h Σ_r k_{h,r} q_{h,r}ᵀ at every record (record, dim, dim): ŷ = βᵀ W x_q."""
        return np.einsum("th,thri,thrj->tij", self.value, self.key, self.query, optimize=True)


def _records(source: Trace, *names: str) -> list[np.ndarray]:
    found = source.weight_paths()
    if missing := [name for name in names if name not in found]:
        raise IclearnError(
            f"this run recorded no weights {', '.join(missing)}; it has {', '.join(sorted(found)) or 'none'}: "
            "choose a run of a model that has them, with record.weights > 0"
        )
    return [finite(f"weight_{name}", found[name]) for name in names]


def _one_label(value: np.ndarray, dim: int) -> np.ndarray:
    """The label entry of the values of one output: (record, head), from (record, head[, output, entry or label])."""
    if value.ndim == 2:
        return value
    labels = value[..., dim:] if value.shape[-1] > dim else value
    if value.ndim != 4 or value.shape[2] != 1 or labels.shape[3] != 1:
        raise IclearnError(f"this probe reads models with one output; the values have shape {value.shape}")
    return labels[:, :, 0, 0]


def separate_weights(source: Any, key: Any = None, query: Any = None) -> SeparateWeights:
    """Separate weights over records, from a Trace or from arrays.

    Args:
        source: a Trace, `SeparateWeights` (returned as they are), or the values ([record,] head).
        key: ([record,] head, rank, dim), where `source` are the values.
        query: ([record,] head, rank, dim), where `source` are the values.

    Returns:
        The weights, with a record axis.
    """
    if isinstance(source, Trace):
        value, key, query = _records(source, "value", "key", "query")
        dim = query.shape[-1]
        return SeparateWeights(_one_label(value, dim), key[..., :dim], query)
    if isinstance(source, SeparateWeights):
        return source
    if key is None or query is None:
        raise IclearnError("separate weights are a Trace, or three arrays: value, key and query")
    value, key, query = finite("the values", source), finite("the keys", key), finite("the queries", query)
    if value.ndim == 1:
        value, key, query = value[None], key[None], query[None]
    if key.ndim != 4 or key.shape != query.shape or key.shape[:2] != value.shape:
        raise IclearnError(
            "value, key and query must have shapes ([record,] head), ([record,] head, rank, dim) twice, "
            f"not {value.shape}, {key.shape}, {query.shape}"
        )
    return SeparateWeights(value, key, query)


def gain_of_run(source: Any, context_len: int | None = None) -> float:
    """How many times β̂ = (1/N) Σ y x the model of a run sees: N for the unnormalized sum over tokens, 1 for 1/N.

    Args:
        source: a Trace; anything else is refused.
        context_len: N (default: that of the run).

    Returns:
        The gain.
    """
    normalize = getattr(source.recipe.model, "normalize", None) if isinstance(source, Trace) else None
    if normalize is None:
        raise IclearnError("the gain is known of runs of linear attention only: pass gain=, N for sums over tokens")
    length = float(source.recipe.task.context_len if context_len is None else context_len)
    return float(length * attention_scale(normalize, length))


def effective_matrices(source: Any, *, gain: float | None = None) -> Float[np.ndarray, "record dim dim"]:
    """The matrix W with ŷ = β̂ᵀ W x_q at every record, of any model that is linear in the cubic features.

    Args:
        source: a Trace, or an array ([record,] dim, dim) that is returned times `gain`.
        gain: how many times β̂ = (1/N) Σ y x the model sees (default: `gain_of_run` of a Trace, 1 of an array).

    Returns:
        (record, dim, dim) W.

    >>> effective_matrices(np.eye(2), gain=31.0)[0].tolist()
    [[31.0, 0.0], [0.0, 31.0]]
    """
    if not isinstance(source, Trace):
        matrices = finite("the matrices", source)
        if matrices.ndim not in (2, 3) or matrices.shape[-1] != matrices.shape[-2]:
            raise IclearnError(f"matrices must have shape ([record,] dim, dim), not {matrices.shape}")
        return (1.0 if gain is None else gain) * matrices.reshape(-1, *matrices.shape[-2:])
    gain = gain_of_run(source) if gain is None else gain
    if "weight_first" in source.data:
        first, second = _records(source, "first", "second")
        dim = round(first.shape[-1] ** 0.5)
        if second.shape[1] != 1 or dim**2 != first.shape[-1]:
            raise IclearnError(f"this probe reads models with one output; the output layer has shape {second.shape}")
        flat = np.einsum("th,thf->tf", second[:, 0], first).reshape(-1, dim, dim)
        return gain * flat.transpose(0, 2, 1)
    if "weight_kq" in source.data:
        value, kq = _records(source, "value", "kq")
        dim = kq.shape[2]
        return gain * np.einsum("th,thji->tij", _one_label(value, dim), kq[..., :dim])
    return gain * separate_weights(source).matrices()


def record_times(source: Any, count: int, time: Any = None) -> Float[np.ndarray, " record"]:
    """The times of records.

    Args:
        source: a Trace, or anything else.
        count: the number of records.
        time: (record) increasing times (default: a Trace's record steps, in t/τ where it has it; else 0, 1, …).

    Returns:
        (record) the times.
    """
    if time is None and isinstance(source, Trace):
        steps = source.data["record"].values.astype(float)
        if "time" not in source.data or source.data["time"].size < 2:
            return steps
        axis, times = source.data["step"].values.astype(float), source.data["time"].values
        rate = (times[-1] - times[0]) / (axis[-1] - axis[0])
        inside = np.interp(steps, axis, times)  # the last record is after the last step
        return np.where(steps > axis[-1], times[-1] + rate * (steps - axis[-1]), inside)
    times = np.arange(count, dtype=float) if time is None else finite("the times", time, 1)
    if times.size != count:
        raise IclearnError(f"{times.size} times were given for {count} records")
    if not (np.diff(times) > 0).all():
        raise IclearnError("the times of the records must increase from each to the next")
    return times


def covariance_of(source: Any, covariance: Any = None) -> Float[np.ndarray, "dim dim"]:
    """The covariance Λ of the inputs (dim, dim): the given one, or the one that the Trace `source` holds."""
    if covariance is None:
        if not isinstance(source, Trace) or "covariance" not in source.data:
            raise IclearnError("this probe needs the covariance of the inputs: pass covariance=")
        covariance = source.data["covariance"].values
    matrix = finite("the covariance", covariance, 2)
    if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
        raise IclearnError(f"the covariance must be a symmetric matrix, not of shape {matrix.shape}")
    return matrix


def eigenbasis(covariance: Any) -> tuple[Float[np.ndarray, " dim"], Float[np.ndarray, "dim dim"]]:
    """Eigenvalues of Λ (dim) in decreasing order, and the eigenvectors (dim, dim) as columns in the same order."""
    values, vectors = np.linalg.eigh(finite("the covariance", covariance, 2))
    return values[::-1], vectors[:, ::-1]
