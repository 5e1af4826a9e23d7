"""Made-up curves on which the claims of this finding hold."""

from __future__ import annotations

import numpy as np
import xarray as xr

from .setup import DIM, RIDGES, TIMES, Case

POOLS = 6


def curve(least: float, end: float, when: float) -> np.ndarray:
    """An error that falls from 1.1 to `least` at time `when` and rises to `end`."""
    fall = np.maximum(0.0, 1 - np.log1p(np.minimum(TIMES, 1e9)) / np.log1p(when)) ** 2
    return least + (1.1 - least) * fall + (end - least) * np.maximum(0.0, 1 - when / TIMES) ** 2


def table(cases: dict[Case, tuple[tuple[float, float, float], tuple[float, float, float]]]) -> xr.Dataset:
    """Curves of e_ICL and e_IDG with these least and last values and times of the least, pools a few per cent apart.

    The ridge curves have the same least values, at λ = .4 for new tasks and .2 for the pool.
    """
    scale = 1 + 0.03 * (np.arange(POOLS) - (POOLS - 1) / 2)
    names = ("icl", "idg")
    errors = {
        name: np.stack([scale[:, None] * curve(*both[i]) for both in cases.values()]) for i, name in enumerate(names)
    }
    ridged = {
        f"ridge_{name}": np.stack(
            [np.outer(scale, both[i][0] * (1 + 0.1 * np.log(RIDGES / best) ** 2)) for both in cases.values()]
        )
        for i, (name, best) in enumerate(zip(names, (0.4, 0.2), strict=True))
    }
    axes = {"case": [case.name for case in cases], "seed": np.arange(POOLS)}
    loss = np.stack([np.tile(1 / (1 + TIMES), (POOLS, 1)) for _ in cases])
    variables = {name: ((*axes, "time"), values) for name, values in (errors | {"loss": loss}).items()}
    variables |= {name: ((*axes, "ridge"), values) for name, values in ridged.items()}
    return xr.Dataset(variables, {**axes, "time": TIMES, "ridge": RIDGES, "dim": DIM})


def column(dims: tuple[int, ...]) -> xr.Dataset:
    """Rises that fall as 1/d with the column for mean y², and are none without."""
    rises = np.outer(2.4 / np.array(dims), 1 + 0.1 * np.arange(POOLS))
    axes = {"dim": list(dims), "seed": np.arange(POOLS)}
    return xr.Dataset({"with": (tuple(axes), rises), "without": (tuple(axes), 0 * rises)}, axes)
