"""The theory's numbers for one set of sizes, as plain values that go into JSON."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.errors import IclearnError
from .merged import escape_time, merged_drop_time, typical_effective_init
from .population import Spectrum, check_sizes, spectrum
from .saddles import (
    conspicuous_plateaus,
    fixed_point_weights,
    learned_components,
    saddle_index,
    saddle_losses,
    saddle_weights,
)
from .sequence import typical_sequence


def summary(
    eigenvalues: Spectrum,
    context_len: int,
    num_heads: int | None = None,
    rank: int = 1,
    init: float = 0.01,
    gain: float = 1.0,
    lr: float | None = None,
    noise: float = 0.0,
) -> dict[str, Any]:
    """The theory's numbers for one set of sizes: what `iclearn theory zhang2025` prints.

    Args:
        eigenvalues: (dim) of Λ.
        context_len: N.
        num_heads: H (default: as many as it takes to learn every eigenvector).
        rank: R.
        init: scale of the initial weights: head scale v_0 of separate attention, w_init = init·√(H/2) of merged.
        gain: g, see `gain_of`.
        lr: with a learning rate, times are also given in steps, t/(2·lr).
        noise: σ², the variance of the noise on the context labels.

    Returns:
        Names and values that can be written as JSON. Times are t/τ.

    >>> round(summary([0.4, 0.3, 0.2, 0.1], 31)["saddle_losses"][1], 8)
    0.64057971
    """
    values = spectrum(eigenvalues)
    check_sizes(context_len, gain, noise)
    scale = {"gain": gain, "noise": noise}
    dim = len(values)
    if not 1 <= rank <= dim:
        raise IclearnError(f"rank must be between 1 and {dim}, the number of eigenvalues, not {rank}")
    for name, number in (("init", init), ("lr", 1.0 if lr is None else lr)):
        if not (number > 0 and math.isfinite(number)):
            raise IclearnError(f"{name} must be positive and finite, not {number}")
    heads = -(-dim // rank) if num_heads is None else num_heads
    if heads < 1:
        raise IclearnError(f"num_heads must be at least 1, not {num_heads}")
    drops = typical_sequence(values, context_len, init, num_heads=heads, rank=rank, **scale)
    w_init = typical_effective_init(init, heads)
    heights, room = saddle_losses(values, context_len, noise=noise), learned_components(dim, rank, heads)
    times = [drop.time for drop in drops]
    escape = escape_time(values, w_init, gain=gain)
    if not (escape > 0 and math.isfinite(escape)):
        raise IclearnError(
            f"init {init:g} is outside the theory, which is about small initial weights: choose a smaller one"
        )
    merged_time = merged_drop_time(values, context_len, w_init, **scale)
    result: dict[str, Any] = {
        "paper": "zhang2025",
        "eigenvalues": values.tolist(),
        "dim": dim,
        "context_len": context_len,
        "num_heads": heads,
        "rank": rank,
        "init": init,
        "gain": gain,
        "noise": noise,
        "saddle_losses": heights.tolist(),
        "saddle_weights": saddle_weights(values, context_len, **scale).tolist(),
        "saddle_index": [saddle_index(range(m), values, rank) for m in range(dim + 1)],
        "effective_weights": fixed_point_weights(range(dim), values, context_len, **scale).tolist(),
        "time_scales": (1 / (gain * values**2)).tolist(),
        "plateau_durations": [b - a for a, b in zip([0.0, *times[:-1]], times, strict=True)],
        "drop_times": times,
        "conspicuous_plateaus": conspicuous_plateaus(dim, rank, heads),
        "learned_components": room,
        "final_loss": float(heights[room]),
        "merged": {
            "w_init": w_init,
            "time_scale": float(1 / (gain * np.linalg.norm(values**2))),
            "escape_time": escape,
            "drop_time": merged_time,
            "final_loss": float(heights[-1]),
        },
    }
    if lr is not None:
        result |= {"lr": lr, "drop_steps": [t / (2 * lr) for t in times]}
        result["merged"]["drop_step"] = merged_time / (2 * lr)
    return result
