"""Small data of the figures' structure, made from closed forms, and the perturbations that claims must refuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ...models.lsa import LSA
from ...theory.xie2025 import Law, best_loss, optimum
from ..perturbing import a_nan as a_nan
from ..perturbing import changed as changed
from ..perturbing import counter as counter
from ..perturbing import plus as plus
from ..perturbing import times as times
from .setup import CONTEXT, DIM, MEMBERS, NAMES, NORMS

SEEDS = 6


def optima(law: Law, members: Sequence[LSA]) -> np.ndarray:
    """The least loss of each member: the gradient step from w* with a trainable guess, else that of its heads."""
    return np.array(
        [optimum(law).step_loss if m.guess == "trainable" else best_loss(law, m.num_heads).loss for m in members]
    )


def exact_example(axis: str, best: Mapping[Any, np.ndarray], names: Sequence[Any]) -> xr.DataArray:
    """Exact training that ends 1e-8 above each optimum: (axis, seed, member)."""
    rows = np.stack(list(best.values()))
    table = rows[:, None] * (1 + 1e-8 * np.random.default_rng(0).uniform(size=(1, SEEDS, 1)))
    return xr.DataArray(table, dims=(axis, "seed", "member"), coords={axis: list(best), "member": list(names)})


def rest_example(axis: str, best: Mapping[Any, np.ndarray], floor: np.ndarray, names: Sequence[Any]) -> xr.Dataset:
    """Sampled training at rest: losses one noise floor above each optimum, 5 % of it from seed to seed."""
    rng, dims = np.random.default_rng(1), (axis, "seed", "member")
    rows = np.stack(list(best.values()))[:, None]
    floors = np.broadcast_to(floor, (len(best), SEEDS, len(names))).copy()
    drawn = {
        name: (dims, rows + floors * (1 + 0.05 * rng.normal(size=floors.shape))) for name in ("loss", "late", "earlier")
    }
    labels = {axis: list(best), "member": np.array([str(n) for n in names], dtype=object)}
    return xr.Dataset({**drawn, "floor": (dims, floors)}, labels)


def measured_example() -> xr.Dataset:
    """What the paper's training would give at rest: floors of 0.003 for one head up to 0.011 for twenty."""
    best = {m: optima(Law.isotropic(DIM, CONTEXT, m), MEMBERS) for m in NORMS}
    return rest_example("norm", best, np.linspace(0.003, 0.011, len(NAMES)), NAMES)
