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
from ...sweeps.api import make_plan
from ...sweeps.plan import Plan
from ...tasks import Covariance, LinearRegression
from ...theory.zhang2025 import (
    SeparateWeights,
    drop_sequences,
    loss_of_progress,
    progress,
    saddle_losses,
)
from ..base import Data, Figure
from ..lab import Lab
from .examples import crossings_at_multiples
from .plateau_claims import CHOICES, CLAIMS
from .plateau_stays import CONTEXT, DIM, GAIN, HEADS, LR, RANKS, medians, share, spectra, stays
from .setup import Options, swept

TITLE = "Sweep: where plateaus sit at every R-th saddle"
CITATION = "Theory: Zhang, Singh, Latham, Saxe, Training Dynamics of In-Context Learning in Linear Attention, 2025."
TICKS = (0.01, 0.03, 0.1)
LINE, GREY = "#D55E00", "0.9"
GRIDS = {
    "small": {
        "init": {"field": "init.scale", "values": {"logspace": [0.005, 0.32, 7]}},
        "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.5, 1.5, 3]}},
    },
    "medium": {
        "init": {"field": "init.scale", "values": {"logspace": [0.005, 0.32, 10]}},
        "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.4, 1.6, 7]}},
    },
    "full": {
        "init": {"field": "init.scale", "values": {"logspace": [0.003, 0.3, 21]}},
        "decay": {"field": "task.covariance.parameters", "values": {"linspace": [0.2, 1.8, 17]}},
    },
}
SEEDS = {"small": 16, "medium": 358, "full": 700}
STEPS = {"small": 40_001, "medium": 60_001, "full": 60_001}
SAMPLES = {"small": 1600, "medium": 1500, "full": 1500}
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


def collect(options: Options):
    def from_lab(lab: Lab) -> Data:
        found, seeds = plan(options), PREDICTED[options.preset]
        data = swept(lab, found, options)
        theory = lab.dataset("plateaus-theory", {"sweep": found.hash, "seeds": seeds}, lambda: predicted(found, seeds))
        return {"crossing": data["crossing_step"].astype(float), "theory": theory["crossing_step"]}

    return from_lab


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


def figure(options: Options) -> Figure:
    size = plan_size(options.preset)
    return Figure(
        id="plateaus",
        title=f"plateau structure over init scale, spectrum and rank ({size} runs)",
        collect=collect(options),
        draw=draw,
        claims=CLAIMS,
        setup=f"""task: D={DIM}, N={CONTEXT}, λ_d ∝ d^-decay (trace 1), infinitely many prompts
model: separate attention, reduced, H={HEADS}, rank 1..4; k, q ~ N(0, init²/(5R)), v ~ N(0, init²); gradient descent, lr {LR}, {STEPS[options.preset]} steps
stay at level m: from drop to drop (loss half way between levels), in units τ/(N λ²_(m+1)); long: more than a new pair could need
theory: drop_sequences from the same initial weights ({PREDICTED[options.preset]} seeds a cell), read in the same way
orange: theory's share, averaged over neighboring points, is one half; grey: fewer than half of the runs finished""",
        cost={"small": "3 minutes on 2 cores", "medium": "a few minutes on 2 cores with Numba (the extra fast), hours without", "full": "under 3 minutes on an H200, most of it compiling and theory"}[options.preset],
        example=crossings_at_multiples,
        choices=CHOICES,
    )  # fmt: skip


def plan_size(preset: str) -> int:
    grid = GRIDS[preset]
    counts = [next(iter(axis["values"].values()))[2] for axis in grid.values()]  # type: ignore[union-attr]
    return int(np.prod(counts)) * len(RANKS) * SEEDS[preset]
