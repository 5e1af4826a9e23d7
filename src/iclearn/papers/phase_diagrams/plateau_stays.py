"""How long runs of the plateaus sweep stay at each level, in the plateau's own time, and where they stay long."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ...probes.saddle_stays import long_stay
from ...tasks import Covariance
from ...theory.zhang2025 import conspicuous_plateaus, gain_of, saddle_losses

DIM, HEADS, CONTEXT, LR = 4, 4, 31, 0.02
GAIN = gain_of("none", CONTEXT)
RANKS = (1, 2, 3, 4)


def spectra(decays: np.ndarray) -> np.ndarray:
    """Eigenvalues by decay: (decay, component)."""
    return np.stack([Covariance.power(float(d)).values(DIM) for d in decays])


def stays(crossing: xr.DataArray) -> xr.DataArray:
    """Time from drop to drop in each plateau's own unit τ/(g λ²_{m+1}); NaN where the run did not get so far."""
    eigenvalues = spectra(crossing["decay"].values)
    unit = xr.DataArray(1 / (2 * LR * GAIN * eigenvalues**2), dims=("decay", "crossing"))
    steps = crossing.diff("crossing", label="upper").reindex(crossing=crossing["crossing"])
    return (steps.fillna(crossing.isel(crossing=[0]).reindex(crossing=crossing["crossing"])) / unit).rename(
        crossing="level"
    )


def long_ones(own: xr.DataArray) -> xr.DataArray:
    """Which stays are longer than a new pair could need (`probes.saddle_stays.long_stay`), run by run."""
    eigenvalues = spectra(own["decay"].values)
    gaps = np.array([-np.diff(saddle_losses(v, CONTEXT))[0] for v in eigenvalues])
    threshold = xr.apply_ufunc(
        np.vectorize(long_stay, otypes=[float]),
        own.isel(level=0, drop=True).fillna(0.0),
        xr.DataArray(gaps, dims="decay"),
        xr.DataArray(1 / (GAIN * eigenvalues[:, 0] ** 2), dims="decay"),
        DIM,
        own["rank"],
    )
    return own >= threshold


def structured(own: xr.DataArray) -> xr.DataArray:
    """1 where a run is long at every multiple of R and nowhere else, 0 where not, NaN where it did not finish."""
    expected = xr.DataArray(
        [[m in conspicuous_plateaus(DIM, int(r), HEADS) for m in range(DIM)] for r in own["rank"].values],
        dims=("rank", "level"),
    )
    right = (long_ones(own) == expected).all("level")
    return right.where(own.notnull().all("level"))


def share(own: xr.DataArray) -> xr.DataArray:
    """Share of the finished runs of each cell that have the structure; NaN where fewer than half finished."""
    kept = structured(own)
    return kept.mean("seed").where(kept.notnull().mean("seed") >= 0.5)


def medians(own: xr.DataArray, multiples: bool) -> xr.DataArray:
    """Median stay at multiples of R, the first plateau among them (or elsewhere), by init, decay and rank, in own units."""
    rank, level = own["rank"], own["level"]
    chosen = (level % rank == 0) if multiples else (level % rank != 0)
    return own.where(chosen).median(("seed", "level"))
