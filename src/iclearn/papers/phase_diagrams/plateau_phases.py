"""Where do plateaus sit at every R-th saddle? Init scale × decay of the spectrum × rank, against zhang2025's theory.

A plateau that a new head must leave lasts ∝ 1/init, one that a new pair of a grown head leaves ∝ ln(1/init). So long
plateaus at the multiples of R, and no others, are a matter of small weights; this sweep shows how small.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.ndimage import gaussian_filter

from ...core.recipe import Init, Optimizer, Recipe
from ...engines.reductions import crossings, sample_steps
from ...models import Attention
from ...probes.saddle_stays import long_stay
from ...sweeps.api import make_plan
from ...sweeps.plan import Plan
from ...tasks import Covariance, LinearRegression
from ...theory.zhang2025 import (
    SeparateWeights,
    conspicuous_plateaus,
    drop_sequences,
    gain_of,
    loss_of_progress,
    progress,
    saddle_losses,
)
from ..base import Claim, Data, Figure, Outcome, judge_true
from ..lab import Lab
from .setup import Options, swept

TITLE = "Sweep: where plateaus sit at every R-th saddle"
CITATION = "Theory: Zhang, Singh, Latham, Saxe, Training Dynamics of In-Context Learning in Linear Attention, 2025."
DIM, HEADS, CONTEXT, LR = 4, 4, 31, 0.02
GAIN = gain_of("none", CONTEXT)
RANKS = (1, 2, 3, 4)
TICKS = (0.01, 0.03, 0.1)
LINE, GREY = "#D55E00", "0.9"
SMALL_INIT = 0.04  # up to here the theory, which is leading order in the init scale, is judged
SAME_SIDE, SAME_SIDE_BY_RANK = 0.95, 0.94  # a theory that had grown heads' pairs too early was at 0.938 for rank 4
LATE = 0.02
GRIDS = {
    "small": {
        "init": {"field": "init.scale", "values": {"logspace": [0.005, 0.32, 7]}},
        "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.5, 1.5, 3]}},
    },
    "medium": {
        "init": {"field": "init.scale", "values": {"logspace": [0.03, 0.4, 10]}},
        "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.4, 1.6, 7]}},
    },
    "full": {
        "init": {"field": "init.scale", "values": {"logspace": [0.003, 0.3, 21]}},
        "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.2, 1.8, 17]}},
    },
}
SEEDS = {"small": 16, "medium": 358, "full": 700}
STEPS = {"small": 40_001, "medium": 12_001, "full": 60_001}
SAMPLES = {"small": 1600, "medium": 600, "full": 1500}
PREDICTED = {"small": 16, "medium": 60, "full": 24}  # seeds of every point that the theory is asked for


def base(preset: str) -> Recipe:
    """zhang2025's separate attention, D = 4, on infinitely many prompts with λ_d ∝ d^-decay."""
    return Recipe(
        task=LinearRegression(
            dim=DIM, context_len=CONTEXT, covariance=Covariance.power(1.0, rotate=False), num_prompts=None
        ),
        model=Attention("separate_reduced", num_heads=HEADS),
        init=Init(0.01),
        optimizer=Optimizer(lr=LR),
        steps=STEPS[preset],
        dtype="float64" if preset == "small" else "float32",
    )


def plan(options: Options) -> Plan:
    return make_plan(
        base(options.preset),
        {**GRIDS[options.preset], "model.rank": list(RANKS)},
        SEEDS[options.preset],
        reduce={"levels": "zhang2025", "samples": SAMPLES[options.preset]},
        name="plateaus",
        chunk=options.chunk,
        path=options.path,
    )


def spectra(decays: np.ndarray) -> np.ndarray:
    """Eigenvalues by decay: (decay, component)."""
    return np.stack([Covariance.power(float(d)).values(DIM) for d in decays])


def initial_weights(recipe: Recipe, seeds: Sequence[int]) -> SeparateWeights:
    """The weights that runs of these seeds start from, exactly, with a leading axis of runs."""
    task, spec = recipe.task, recipe.model
    assert isinstance(task, LinearRegression)
    assert isinstance(spec, Attention)
    # Not jitted, and mapped over nothing but seeds: otherwise XLA rounds the scale of the weights in another way.
    drawn = jax.vmap(lambda seed: spec.initial(task, recipe.init, seed, "float64").weights())(jnp.asarray(seeds))
    return SeparateWeights(drawn["value"][..., 0, -1], drawn["key"], drawn["query"])


def predicted(found: Plan, seeds: int) -> xr.Dataset:
    """When the theory, started from the very weights of each run, has the loss cross half way between two levels."""
    init, decay, rank, seed = found.axes
    chosen = seed.coords[:seeds]
    steps, eigenvalues = sample_steps(found.base.steps, found.reduce.samples), spectra(np.asarray(decay.coords))
    values = np.repeat(eigenvalues, len(chosen), 0)  # the runs of one init scale and rank: decay, then seed
    levels = np.stack([saddle_losses(row, CONTEXT) for row in values])
    read = jax.jit(jax.vmap(crossings, (0, None, 0)))
    table = np.full((len(init), len(decay), len(rank), len(chosen), DIM), np.nan)
    for i, k in np.ndindex(len(init), len(rank)):
        weights = initial_weights(found.recipe((i, 0, k, 0)), chosen)
        every = jax.tree.map(lambda w: np.concatenate([w] * len(decay)), weights)
        drops = drop_sequences(every, values, CONTEXT, gain=GAIN)
        curves = loss_of_progress(progress(2 * LR * steps, drops, values, CONTEXT, gain=GAIN), values, CONTEXT)
        table[i, :, k] = np.asarray(read(curves, steps, levels)).reshape(len(decay), len(chosen), DIM)
    coords = {axis.name: list(axis.coords) for axis in (init, decay, rank)} | {seed.name: list(chosen)}
    return xr.Dataset({"crossing_step": ((*coords, "crossing"), table)}, {**coords, "crossing": range(DIM)})


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


def collect(options: Options):
    def from_lab(lab: Lab) -> Data:
        found, seeds = plan(options), PREDICTED[options.preset]
        data = swept(lab, found, options)
        theory = lab.dataset("plateaus-theory", {"sweep": found.hash, "seeds": seeds}, lambda: predicted(found, seeds))
        return {"crossing": data["crossing_step"].astype(float), "theory": theory["crossing_step"]}

    return from_lab


def medians(own: xr.DataArray, multiples: bool) -> xr.DataArray:
    """Median stay at multiples of R (or elsewhere) after the first plateau, by init, decay and rank, in own units."""
    rank, level = own["rank"], own["level"]
    chosen = (level % rank == 0) if multiples else (level % rank != 0)
    return own.where(chosen).median(("seed", "level"))


def draw(data: Data):
    measured, theory = stays(data["crossing"]), stays(data["theory"])
    shares = {"training": share(measured), "theory": share(theory)}
    lasting = {"at multiples of R": medians(measured, True), "elsewhere": medians(measured, False)}
    figure, axes = plt.subplots(4, len(RANKS), figsize=(11, 9), sharex=True, sharey=True, layout="constrained")
    spread = np.concatenate([table.values.ravel() for table in lasting.values()])
    scales = (
        {"norm": Normalize(0, 1), "cmap": "cividis"},
        {"norm": LogNorm(np.nanmin(spread), np.nanmax(spread)), "cmap": "viridis"},
    )
    names = (
        "share of runs that stay long\nat every multiple of R, and only there",
        "median stay, in units $\\tau/(N\\lambda_{m+1}^2)$",
    )
    for rows, tables, scale, name in zip((axes[:2], axes[2:]), (shares, lasting), scales, names, strict=True):
        for row, (kind, table) in zip(rows, tables.items(), strict=True):
            row[0].set_ylabel(kind)
            for ax, rank in zip(row, RANKS, strict=True):
                _cells(ax, table.sel(rank=rank), **scale)
        figure.colorbar(ScalarMappable(**scale), ax=rows, label=name, aspect=25, pad=0.01)
    for ax, rank in zip(axes[:2].T, RANKS, strict=True):
        for panel in ax:
            _half(panel, shares["theory"].sel(rank=rank))
    inits = measured["init"].values
    ticks = [tick for tick in TICKS if inits[0] <= tick <= inits[-1]]
    for ax, rank in zip(axes[0], RANKS, strict=True):
        ax.set(title=f"rank R = {rank}", xscale="log")
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xticks((), minor=True)
    figure.supxlabel("init scale", size="medium")
    figure.supylabel("decay of the spectrum", size="medium")
    key = [
        Line2D([], [], color=LINE, lw=2, label="half of the runs, by theory"),
        Patch(color=GREY, label="too few runs finished"),
    ]
    figure.legend(handles=key, loc="outside lower right", ncols=2)
    return figure


def _edges(centers: np.ndarray) -> np.ndarray:
    middles = (centers[1:] + centers[:-1]) / 2
    return np.concatenate([2 * centers[:1] - middles[:1], middles, 2 * centers[-1:] - middles[-1:]])


def _cells(ax, table: xr.DataArray, **scale) -> None:
    """One panel: a cell for every point, grey where nothing is known."""
    values = table.transpose("decay", "init")
    ax.set_facecolor(GREY)
    if values.isnull().all():
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", va="center", color="0.4")
    across, up = np.exp(_edges(np.log(values["init"].values))), _edges(values["decay"].values)
    ax.pcolormesh(across, up, np.ma.masked_invalid(values.values), **scale)


def _half(ax, table: xr.DataArray) -> None:
    """The line on which a share is one half: of its mean over neighboring points, as few seeds are ragged."""
    values = table.transpose("decay", "init")
    known = values.notnull().values.astype(float)
    total, weight = (gaussian_filter(part, 1.0, mode="nearest") for part in (values.fillna(0).values, known))
    smooth = np.where(known > 0, total / np.where(known > 0, weight, 1), np.nan)
    if np.nanmin(smooth) < 0.5 < np.nanmax(smooth):
        at = values["init"], values["decay"], np.ma.masked_invalid(smooth), [0.5]
        ax.contour(*at, colors="white", linewidths=4)
        ax.contour(*at, colors=LINE, linewidths=2)


def boundary(data: Data) -> Outcome:
    """Cells that theory and training put on the same side of one half."""
    theory = share(stays(data["theory"]))
    measured = share(stays(data["crossing"])).sel(init=theory["init"], decay=theory["decay"])
    both = measured.notnull() & theory.notnull()
    same = ((measured >= 0.5) == (theory >= 0.5)).where(both)
    told = {
        "cells on the same side": float(same.mean()),
        "median difference of shares": float(abs(measured - theory).median()),
        "by rank": same.mean(("init", "decay")).values,
        "cells": int(both.sum()),
    }
    passed = told["cells on the same side"] >= SAME_SIDE and bool((told["by rank"] >= SAME_SIDE_BY_RANK).all())
    return judge_true(passed, told, seeds=data["crossing"].sizes["seed"])


def where_small(data: Data) -> Outcome:
    """Share of structured runs in the half plane of small init scales."""
    found = share(stays(data["crossing"]))
    small = found.where(found["init"] <= SMALL_INIT, drop=True).mean(("init", "decay"))
    large = found.where(found["init"] >= 0.1, drop=True).mean(("init", "decay"))
    told = {"small init, by rank": small.values, "init ≥ 0.1, by rank": large.values}
    return judge_true(bool((small >= 0.6).all()), told, seeds=data["crossing"].sizes["seed"])


def slope_of_logs(table: xr.DataArray) -> xr.DataArray:
    """Least-squares slope of ln(table) against ln(init); NaN where fewer than 3 points are known."""
    y = xr.apply_ufunc(np.log, table)
    x = xr.apply_ufunc(np.log, table["init"]).where(y.notnull())
    x, y = x - x.mean("init"), y - y.mean("init")
    return ((x * y).sum("init") / (x**2).sum("init")).where(y.notnull().sum("init") >= 3)


def exponents(data: Data) -> Outcome:
    """d ln(stay)/d ln(init) for small init: -1 at multiples of R, between -0.5 and 0 elsewhere."""
    own = stays(data["crossing"])
    own = own.where(own["init"] <= SMALL_INIT, drop=True)
    finished = own.notnull().all("level").mean("seed") >= 0.9
    slopes = {}
    for name, multiples in (("multiples of R", True), ("elsewhere", False)):
        slopes[name] = float(slope_of_logs(medians(own, multiples).where(finished)).median())
    passed = abs(slopes["multiples of R"] + 1) <= 0.2 and -0.5 <= slopes["elsewhere"] <= 0.05
    return judge_true(passed, slopes, seeds=own.sizes["seed"])


def times(data: Data) -> Outcome:
    """Measured over predicted crossing steps of the same runs, small init scales."""
    theory = data["theory"]
    off = abs(data["crossing"].sel({name: theory[name] for name in theory.dims}) / theory - 1)
    by_init = off.median(("decay", "rank", "seed", "crossing"))
    small = float(off.where(off["init"] <= SMALL_INIT, drop=True).median())
    told = {"median error, small init": small}
    told |= {f"init {scale:.3g}": round(float(error), 4) for scale, error in zip(by_init["init"], by_init, strict=True)}
    return judge_true(small <= LATE, told, seeds=theory.sizes["seed"])


def figure(options: Options) -> Figure:
    size = plan_size(options.preset)
    return Figure(
        id="plateaus",
        title=f"plateau structure over init scale, spectrum and rank ({size} runs)",
        collect=collect(options),
        draw=draw,
        claims=(
            Claim(
                "boundary", "Theory started from each run's own weights says where in the plane runs have a long plateau at every multiple of R and nowhere else.",
                "training and theory on the same side of one half", f"{SAME_SIDE:.0%} of the cells and {SAME_SIDE_BY_RANK:.0%} of those of each rank, far beyond the small weights the theory assumes", boundary, source="ours",
            ),
            Claim(
                "where_small", "With small weights plateaus sit at the multiples of R whatever the spectrum.",
                "most runs", f"mean share of at least 0.6 over all spectra, every rank, init ≤ {SMALL_INIT:g} (two heads can start so alike that one drop follows on another)", where_small, source="theory",
            ),
            Claim(
                "exponents", "Stays at multiples of R grow as 1/init, those elsewhere only as ln(1/init).",
                "slopes -1 and near 0 of ln(stay) against ln(init)", f"-1 ± 0.2; between -0.5 and 0.05; init ≤ {SMALL_INIT:g}", exponents, source="theory",
            ),
            Claim(
                "times", "Drops come when theory says.", "measured / predicted = 1", f"median error {LATE:.0%} up to init {SMALL_INIT:g}", times, source="theory",
            ),
        ),
        setup=f"""task: D={DIM}, N={CONTEXT}, λ_d ∝ d^-decay (trace 1), infinitely many prompts
model: separate attention, reduced, H={HEADS}, rank 1..4; k, q ~ N(0, init²/(5R)), v ~ N(0, init²); gradient descent, lr {LR}, {STEPS[options.preset]} steps
stay at level m: from drop to drop (loss half way between levels), in units τ/(N λ²_(m+1)); long: more than a new pair could need
theory: drop_sequences from the same initial weights ({PREDICTED[options.preset]} seeds a cell), read in the same way
orange: theory's share, averaged over neighboring points, is one half; grey: fewer than half of the runs finished""",
        cost={"small": "3 minutes on 2 cores", "medium": "three quarters of an hour on 2 cores with --path written", "full": "under 3 minutes on an H200, most of it compiling and theory"}[options.preset],
    )  # fmt: skip


def plan_size(preset: str) -> int:
    grid = GRIDS[preset]
    counts = [next(iter(axis["values"].values()))[2] for axis in grid.values()]  # type: ignore[union-attr]
    return int(np.prod(counts)) * len(RANKS) * SEEDS[preset]
