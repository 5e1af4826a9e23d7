"""Small made-up tables in which a layer ends where a figure says, and perturbations of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from ..base import Counterexample, Data
from .setup import REPETITIONS, STEPS

Perturb = Callable[[Data], Data]
Ends = Callable[[xr.Dataset], np.ndarray | float]


def made_up(
    loss: float = 0.05,
    gd_loss: float = 0.05,
    cosine: tuple[float, float] = (0.02, 0.99),
    preds: tuple[float, float] = (0.05, 0.005),
    model: tuple[float, float] = (0.4, 0.04),
    norm: float = 0.39,
    *,
    spread: float = 1e-3,
    falling: float = 0.005,
    repetitions: int = REPETITIONS,
    steps: int = STEPS,
) -> xr.Dataset:
    """Measures of a layer beside gradient descent, (repetition, step) at the start, half way and the end of training.

    Args:
        loss: at the end; three times as much at the start.
        cosine: at the start and at the end, likewise `preds` and `model`.
        spread: relative, over repetitions.
        falling: by how much the loss falls over the last half, relative to the end.
    """
    wobble = 1 + spread * np.linspace(-1, 1, repetitions)

    def path(start: float, half: float, stop: float) -> tuple[tuple[str, str], np.ndarray]:
        return ("repetition", "step"), np.outer(wobble, [start, half, stop])

    ways = {"model_cos": cosine, "preds_diff": preds, "model_diff": model}
    return xr.Dataset(
        {name: path(a, (a + 9 * b) / 10, b) for name, (a, b) in ways.items()}
        | {
            "loss": path(3 * loss, (1 + falling) * loss, loss),
            "gd_loss": ("repetition", gd_loss * wobble),
            "gd_norm": ("repetition", norm * wobble),
        },
        {"step": [0, steps // 2, steps], "repetition": range(repetitions)},
    )


def ending(key: str, name: str, value: Ends, some: int | None = None) -> Perturb:
    """Data in which a measure of table `key` ends at value(table), in the first `some` repetitions (None: in all)."""

    def perturb(data: Data) -> Data:
        values = data[key][name].values.copy()
        values[:some, -1] = np.broadcast_to(value(data[key]), len(values))[:some]
        return {**data, key: data[key].assign({name: (data[key][name].dims, values)})}

    return perturb


def times(key: str, name: str, factor: float) -> Perturb:
    """Data in which one variable of table `key` is multiplied by a factor (NaN: it is lost)."""
    return lambda data: {**data, key: data[key].assign({name: factor * data[key][name]})}


def lost(key: str, name: str) -> Counterexample:
    return Counterexample(f"{name} is NaN", times(key, name, np.nan))


def start(name: str) -> Ends:
    """A measure before training, by repetition."""
    return lambda table: table[name].values[:, 0]
