"""Made-up results of the shipped sweeps that agree with theory, and perturbations of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import xarray as xr

from ...theory.xie2025 import Law, best_loss
from ..base import Counterexample, Data
from .plateau_stays import DIM, GAIN, LR, RANKS, spectra

INITS, DECAYS, RUNS = (0.01, 0.02, 0.04, 0.3), (0.5, 1.0), 16
Perturb = Callable[[Data], Data]


def crossings(long_at: Callable[[int], Collection[int]], short: Callable[[float], float]) -> xr.DataArray:
    """Crossing steps of runs that stay 1/init own units at the levels `long_at(rank)` and short(init) elsewhere.

    (init, decay, rank, seed, crossing), all seeds alike.
    """
    table = np.zeros((len(INITS), len(DECAYS), len(RANKS), RUNS, DIM))
    for i, init in enumerate(INITS):
        for j, values in enumerate(spectra(np.array(DECAYS))):
            unit = 1 / (2 * LR * GAIN * values**2)
            for k, rank in enumerate(RANKS):
                own = [1 / init if m in long_at(rank) else short(init) for m in range(DIM)]
                table[i, j, k] = np.cumsum(np.array(own) * unit)
    coords = {"init": list(INITS), "decay": list(DECAYS), "rank": list(RANKS), "seed": list(range(RUNS))}
    return xr.DataArray(table, {**coords, "crossing": range(DIM)}, (*coords, "crossing"))


def crossings_at_multiples() -> Data:
    """Training and theory alike: plateaus ∝ 1/init at the multiples of R, ∝ ln(1/init) elsewhere."""
    found = crossings(lambda rank: range(0, DIM, rank), lambda init: 1.5 * np.log(1 / init))
    return {"crossing": found, "theory": found.copy(deep=True)}


def longer(rank: int, multiples: bool, factor: Callable[[Any], Any]) -> Perturb:
    """Training in which the runs of one rank stay longer at the multiples of R (or elsewhere), by factor(init)."""

    def perturb(data: Data) -> Data:
        table = data["crossing"]
        spans = table - table.shift(crossing=1, fill_value=0.0)
        chosen = (table["rank"] == rank) & ((table["crossing"] % rank == 0) == multiples)
        changed = (spans * xr.where(chosen, factor(table["init"]), 1.0)).cumsum("crossing", skipna=False)
        return {**data, "crossing": changed.assign_coords(table.coords).transpose(*table.dims)}

    return perturb


def later(factor: float, rank: int, crossing: int | None = None) -> Perturb:
    """Training in which the drops of one rank (or one of them) come later than theory says, by a factor."""

    def perturb(data: Data) -> Data:
        table = data["crossing"]
        chosen = (table["rank"] == rank) & (True if crossing is None else table["crossing"] == crossing)
        return {**data, "crossing": table * xr.where(chosen, factor, 1.0)}

    return perturb


def optimal_losses() -> Data:
    """Final losses of five seeds, three of which reach the optimum of their number of heads, and two do not."""
    contexts, heads, norms = (4, 16), (1, 2, 3, 4, 5, 6), (0.0, 1.0, 2.0)
    seeds = np.array([0, 1e-7, 1e-6, 0.1, 0.3])
    table = np.zeros((len(contexts), len(heads), len(norms), len(seeds)))
    for i, context in enumerate(contexts):
        for k, norm in enumerate(norms):
            law = Law.isotropic(DIM, context, norm)
            for j, count in enumerate(heads):
                table[i, j, k] = best_loss(law, count).loss + seeds
    coords = {"context_len": list(contexts), "num_heads": list(heads), "norm": list(norms), "seed": range(len(seeds))}
    return {"loss": xr.DataArray(table, coords, tuple(coords))}


def losses(name: str, change: Callable[[xr.DataArray], xr.DataArray]) -> Counterexample:
    """Final losses changed in a named way."""
    return Counterexample(name, lambda data: {**data, "loss": change(data["loss"].copy(deep=True))})


def as_with(heads: int, others: int) -> Callable[[xr.DataArray], xr.DataArray]:
    """Losses in which so many heads do as well as another number of them."""
    return lambda loss: loss.where(loss["num_heads"] != heads, loss.sel(num_heads=others))
