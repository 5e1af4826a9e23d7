"""A whole run as the theory predicts it, under the names and axes of a Trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from .flow import gradient_flow
from .landscape import loss_of
from .merged import growing_modes, is_white, merged_course, typical_effective_init, white_course
from .population import Spectrum, check_sizes, spectrum
from .saddles import saddle_losses
from .sequence import Drop, drop_sequence, typical_sequence
from .staircase import loss_of_progress, progress, weights_of_progress
from .weights import MergedWeights, SeparateWeights, Weights, read_weights

if TYPE_CHECKING:
    import xarray as xr

Family = Literal["merged", "separate"]
_AXES = {
    "value": ("record", "head", "output", "label"),
    "kq": ("record", "head", "input", "key_input"),
    "key": ("record", "head", "rank", "key_input"),
    "query": ("record", "head", "rank", "input"),
}


def _start(family: Family, weights: Mapping[str, Any] | Weights | None, init: float | None) -> Weights | None:
    """The given initial weights, checked against the family."""
    if family not in ("merged", "separate"):
        raise IclearnError(f"family must be merged or separate, not {family!r}")
    if weights is None:
        if init is None or not init > 0:
            raise IclearnError(f"the theory needs the initial weights, or a positive init scale, not {init}")
        return None
    own = weights if isinstance(weights, MergedWeights | SeparateWeights) else read_weights(weights)
    expected = MergedWeights if family == "merged" else SeparateWeights
    if not isinstance(own, expected):
        raise IclearnError(f"these are not the weights of a {family} model")
    return own


def merged_states(
    times: np.ndarray,
    eigenvalues: Spectrum,
    context_len: float,
    w_init: float,
    num_heads: int,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    shares: np.ndarray | None = None,
) -> MergedWeights:
    """Merged weights over time: v_h = c_h ψ, U_h = c_h Ψ, by (10) if Λ is white, else `merged_course`.

    Args:
        shares: c_h (default: all heads alike); from given weights they are (v + u)_h/‖v + u‖.
    """
    values = spectrum(eigenvalues)
    if is_white(values):
        diagonal = np.sqrt(white_course(times, values, context_len, w_init, gain=gain))
        scale, diagonal = (
            diagonal * len(values) ** 0.25,
            diagonal[:, None] / np.full(len(values), len(values) ** 0.25),
        )
    else:
        scale, diagonal = merged_course(times, values, context_len, w_init, gain=gain)
    vectors = np.eye(len(values)) if basis is None else np.asarray(basis, float)
    part = np.full(num_heads, num_heads**-0.5) if shares is None else shares / np.linalg.norm(shares)
    kq = np.einsum("h,td,jd,id->thji", part, diagonal, vectors, vectors)
    return MergedWeights(jnp.asarray(scale[:, None] * part), jnp.asarray(kq))


def predict(
    family: Family,
    eigenvalues: Spectrum,
    context_len: int,
    *,
    steps: int,
    lr: float,
    num_heads: int,
    rank: int = 1,
    init: float | None = None,
    weights: Mapping[str, Any] | Weights | None = None,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    method: Literal["formula", "flow"] = "formula",
    records: int = 200,
) -> xr.Dataset:
    """The run the theory expects, as an `xarray.Dataset` that can be laid over the data of a Trace.

    ``loss`` and ``time`` over ``step``; ``weight_*`` over ``record`` as the reduced models name them;
    ``covariance``; ``loss_minimum``; and besides ``saddle_loss`` (plateau) and, for separate attention,
    ``drop_time``, ``drop_step``, ``drop_head`` and ``new_head`` over ``drop``.

    Args:
        family: ``merged``: (10), or its generalization to any spectrum. ``separate``: the sequence of
            plateaus and drops.
        steps, lr: of gradient descent; step n is at t/τ = 2·lr·n.
        init: scale of the initial weights, for a typical run …
        weights: … or the initial weights themselves (named as in a Trace), for this very run.
        basis: eigenvectors of Λ as columns, where weights are not given in the eigenbasis.
        gain: factor on β̂, see `gain_of`.
        method: ``flow`` integrates the gradient flow of all weights instead (needs `weights`).
        records: at how many steps to keep weights.

    >>> run = predict("separate", [0.6, 0.4], 31, steps=5, lr=0.02, num_heads=2, init=0.01)
    >>> run["loss"].dims, float(run["time"][1])
    (('step',), 0.04)
    """
    import xarray as xr

    values, start = spectrum(eigenvalues), _start(family, weights, init)
    check_sizes(context_len, gain)
    if steps < 1 or records < 2 or not lr > 0:
        raise IclearnError(f"steps must be at least 1, records 2 and lr positive, not {steps}, {records} and {lr}")
    if start is not None:
        num_heads = start.value.shape[0]
    vectors = np.eye(len(values)) if basis is None else np.asarray(basis, float)
    setting = _Setting(values, vectors, vectors * values @ vectors.T, context_len, gain)
    times = 2 * lr * np.arange(steps + 1)
    if method == "flow":
        if start is None:
            raise IclearnError("the flow starts from weights: pass weights=, or choose method='formula'")
        loss, path, extra = _flow(setting, times, start)
    elif family == "merged":
        first = start if isinstance(start, MergedWeights) else None
        loss, path, extra = _merged(setting, times, first, init or 0.0, num_heads)
    else:
        drops = (
            drop_sequence(start, values, context_len, basis=vectors, gain=gain)
            if isinstance(start, SeparateWeights)
            else typical_sequence(values, context_len, init or 0.0, num_heads=num_heads, rank=rank, gain=gain)
        )
        rank = start.key.shape[1] if isinstance(start, SeparateWeights) else rank
        loss, path, extra = _separate(setting, times, drops, num_heads, rank)
        extra["drop_step"] = ("drop", extra["drop_time"][1] / (2 * lr))
    heights = saddle_losses(values, context_len)
    data = {
        "loss": ("step", loss[:-1], {"long_name": "training loss"}),
        "covariance": (("input", "key_input"), setting.covariance),
        "loss_minimum": ((), heights[-1]),
        "saddle_loss": ("plateau", heights),
        **extra,
    }
    record = np.unique(np.linspace(0, steps, records).round().astype(int))
    for name, axes in _AXES.items():
        if hasattr(path, name):
            array = np.asarray(getattr(path, name))[record]
            data[f"weight_{name}"] = (axes, array[..., None, None] if name == "value" else array)
    attrs = {"paper": "zhang2025", "family": family, "method": method, "gain": gain}
    dataset = xr.Dataset(data, attrs=attrs)
    dataset = dataset.assign_coords({dim: np.arange(size) for dim, size in dataset.sizes.items()})
    clock = ("step", times[:-1], {"long_name": "time", "units": "tau"})
    return dataset.assign_coords(record=record, time=clock)


@dataclass(frozen=True)
class _Setting:
    values: np.ndarray
    basis: np.ndarray
    covariance: np.ndarray
    context_len: int
    gain: float


_Course = tuple[np.ndarray, Weights, dict[str, Any]]


def _flow(setting: _Setting, times: np.ndarray, start: Weights) -> _Course:
    path: Weights = gradient_flow(start, setting.covariance, setting.context_len, times, gain=setting.gain)  # type: ignore[type-var]
    loss = loss_of(path, jnp.asarray(setting.covariance), setting.context_len, gain=setting.gain)
    return np.asarray(loss), path, {}


def _merged(setting: _Setting, times: np.ndarray, start: MergedWeights | None, init: float, num_heads: int) -> _Course:
    values, shares, w_init = setting.values, None, typical_effective_init(init, num_heads)
    if start is not None:
        modes = growing_modes(start, values, basis=setting.basis)
        shares, w_init = modes, float(np.linalg.norm(modes))
    path = merged_states(
        times,
        values,
        setting.context_len,
        w_init,
        num_heads,
        basis=setting.basis,
        gain=setting.gain,
        shares=shares,
    )
    loss = loss_of(path, jnp.asarray(setting.covariance), setting.context_len, gain=setting.gain)
    return np.asarray(loss), path, {"effective_init": ((), w_init)}


def _separate(setting: _Setting, times: np.ndarray, drops: list[Drop], num_heads: int, rank: int) -> _Course:
    values, context_len, gain = setting.values, setting.context_len, setting.gain
    done = progress(times, drops, values, context_len, gain=gain)
    path = weights_of_progress(
        done, drops, values, context_len, num_heads=num_heads, rank=rank, basis=setting.basis, gain=gain
    )
    extra = {
        "drop_time": ("drop", np.array([drop.time for drop in drops])),
        "drop_head": ("drop", np.array([drop.head for drop in drops])),
        "new_head": ("drop", np.array([drop.new_head for drop in drops])),
        "head_scale": ("drop", np.array([drop.v_0 for drop in drops])),
    }
    return loss_of_progress(done, values, context_len), path, extra
