"""A whole run as the theory predicts it, under the names and axes of a Trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from ...core.checks import literals_checked
from ...core.errors import IclearnError
from .flow import gradient_flow
from .landscape import loss_of
from .merged import growing_modes, is_white, merged_course, typical_effective_init, white_course
from .population import Size, Spectrum, check_sizes, columns, spectrum
from .saddles import saddle_losses
from .sequence import drop_sequence, typical_sequence
from .staircase import loss_of_progress, progress, weights_of_progress
from .weights import MergedWeights, SeparateWeights, Weights, read_weights

Family = Literal["merged", "separate"]
_AXES = {
    "value": ("record", "head", "output", "label"),
    "kq": ("record", "head", "input", "key_input"),
    "key": ("record", "head", "rank", "key_input"),
    "query": ("record", "head", "rank", "input"),
}


def _start(family: Family, weights: Mapping[str, Any] | Weights | None, init: float | None) -> Weights | None:
    """The given initial weights, checked against the family."""
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
    context_len: Size,
    w_init: float,
    num_heads: int,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
    shares: np.ndarray | None = None,
) -> MergedWeights:
    """Merged weights over time: v_h = c_h ψ, U_h = c_h Ψ, by (10) if Λ is white, else by `merged_course`.

    Args:
        times: (time) t/τ.
        eigenvalues: (dim) of Λ.
        context_len: N.
        w_init: size of the initial weights, see `effective_init`.
        num_heads: H.
        basis: (dim, dim) eigenvectors as columns (default: the axes).
        gain: g, see `gain_of`.
        noise: σ², see `inflation`.
        shares: (head) c_h up to a factor (default: all heads alike); from given weights they are `growing_modes`.

    Returns:
        Weights with a leading time axis.

    >>> float(merged_states(np.array([1e3]), [0.5], 31, 0.01, num_heads=2).effective()[0, 0, 0].round(4))  # (11)
    1.8788
    """
    values = spectrum(eigenvalues)
    if is_white(values):
        course = white_course(times, values, context_len, w_init, gain=gain, noise=noise)
        sigma, fourth = np.sqrt(course), len(values) ** 0.25
        scale, diagonal = sigma * fourth, sigma[:, None] / np.full(len(values), fourth)
    else:
        scale, diagonal = merged_course(times, values, context_len, w_init, gain=gain, noise=noise)
    vectors = columns(basis, len(values))
    part = np.full(num_heads, num_heads**-0.5) if shares is None else shares / np.linalg.norm(shares)
    kq = np.einsum("h,td,jd,id->thji", part, diagonal, vectors, vectors)
    return MergedWeights(jnp.asarray(scale[:, None] * part), jnp.asarray(kq))


@literals_checked
def predict(
    family: Family,
    eigenvalues: Spectrum,
    context_len: int,
    *,
    steps: int,
    lr: float,
    num_heads: int,
    gain: float,
    noise: float = 0.0,
    rank: int = 1,
    init: float | None = None,
    weights: Mapping[str, Any] | Weights | None = None,
    basis: np.ndarray | None = None,
    method: Literal["formula", "flow"] = "formula",
    records: int = 200,
) -> Any:
    """The run the theory expects of gradient descent, under the names and axes of a Trace.

    Args:
        family: ``merged``: (10), or its generalization `merged_course` to any spectrum. ``separate``: the sequence of
            plateaus and drops, `drop_sequence` and (21).
        eigenvalues: (dim) of Λ.
        context_len: N.
        steps: number of updates.
        lr: rate of gradient descent; step n is at t/τ = 2·lr·n.
        num_heads: H.
        gain: factor on β̂ by which the model normalizes, `gain_of`: N for ``normalize="none"``, the default of
            `Attention`, and 1 for ``"context"``, the paper's. `iclearn.predict` takes all of this from a run.
        noise: σ², the variance of the noise on the context labels.
        rank: R (separate).
        init: scale of the initial weights, for a typical run; or
        weights: the initial weights themselves (named as in a Trace), for this very run.
        basis: (dim, dim) eigenvectors of Λ as columns, where weights are not given in the eigenbasis.
        method: ``formula``, or ``flow`` to integrate the gradient flow of all weights instead (needs `weights`).
        records: at how many steps to keep weights.

    Returns:
        An `xarray.Dataset`: ``loss`` and ``time`` over ``step``; ``weight_*`` over ``record`` as the reduced models
        name them; ``covariance``; ``loss_minimum``; and besides ``saddle_loss`` (plateau), for merged attention
        ``effective_init``, and for separate attention ``drop_time``, ``drop_step``, ``drop_head``, ``new_head`` and
        ``head_scale`` over ``drop``.

    >>> run = predict("separate", [0.6, 0.4], 31, steps=5, lr=0.02, num_heads=2, gain=1, init=0.01)
    >>> run["loss"].dims, float(run["time"][1])
    (('step',), 0.04)
    """
    import xarray as xr

    values, start = spectrum(eigenvalues), _start(family, weights, init)
    check_sizes(context_len, gain, noise)
    if steps < 1 or records < 2 or not lr > 0:
        raise IclearnError(f"steps must be at least 1, records 2 and lr positive, not {steps}, {records} and {lr}")
    vectors = columns(basis, len(values))
    covariance = vectors * values @ vectors.T
    times, scale = 2 * lr * np.arange(steps + 1), {"gain": gain, "noise": noise}
    sizes = {"basis": vectors, **scale}
    done, extra = None, {}
    if start is not None and num_heads != start.value.shape[0]:
        raise IclearnError(f"num_heads is {num_heads}, but the weights given have {start.value.shape[0]} heads")
    if method == "flow":
        if start is None:
            raise IclearnError("the flow starts from weights: pass weights=, or choose method='formula'")
        path: Weights = gradient_flow(start, covariance, context_len, times, **scale)  # type: ignore[type-var]
    elif family == "merged":
        shares = growing_modes(start, values, basis=vectors) if isinstance(start, MergedWeights) else None
        w_init = typical_effective_init(init or 0.0, num_heads) if shares is None else float(np.linalg.norm(shares))
        path = merged_states(times, values, context_len, w_init, num_heads, shares=shares, **sizes)
        extra = {"effective_init": ((), w_init)}
    else:
        if isinstance(start, SeparateWeights):
            drops, rank = drop_sequence(start, values, context_len, **sizes), start.key.shape[1]
        else:
            drops = typical_sequence(values, context_len, init or 0.0, num_heads=num_heads, rank=rank, **scale)
        done = progress(times, drops, values, context_len, **scale)
        path = weights_of_progress(done, drops, values, context_len, num_heads=num_heads, rank=rank, **sizes)
        read = {"drop_time": "time", "drop_head": "head", "new_head": "new_head", "head_scale": "v_0"}
        extra = {name: ("drop", np.array([getattr(drop, field) for drop in drops])) for name, field in read.items()}
        extra["drop_step"] = ("drop", extra["drop_time"][1] / (2 * lr))
    if done is None:
        loss = np.asarray(loss_of(path, jnp.asarray(covariance), context_len, **scale))
    else:
        loss = loss_of_progress(done, values, context_len, noise=noise)
    heights = saddle_losses(values, context_len, noise=noise)
    data = {
        "loss": ("step", loss[:-1], {"long_name": "training loss"}),
        "covariance": (("input", "key_input"), covariance),
        "loss_minimum": ((), heights[-1]),
        "saddle_loss": ("plateau", heights),
        **extra,
    }
    record = np.unique(np.linspace(0, steps, records).round().astype(int))
    for name, axes in _AXES.items():
        if hasattr(path, name):
            array = np.asarray(getattr(path, name))[record]
            data[f"weight_{name}"] = (axes, array[..., None, None] if name == "value" else array)
    dataset = xr.Dataset(data, attrs={"paper": "zhang2025", "family": family, "method": method, "gain": gain})
    dataset = dataset.assign_coords({dim: np.arange(size) for dim, size in dataset.sizes.items()})
    clock = ("step", times[:-1], {"long_name": "time", "units": "tau"})
    return dataset.assign_coords(record=record, time=clock)
