"""Which minimum of two layers of GD++ does training find? Init scale × learning rate × rule × sizes, against basins.

The population loss of two layers with scalar weights has three strict minima. Runs are trained on it exactly; the basins
are those of its gradient flow from the very same weights, and sharpness says at which learning rate a minimum can be kept.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from ...core.recipe import Init, Optimizer, Recipe
from ...models.transformer import LinearTransformer
from ...sweeps.api import make_plan
from ...sweeps.plan import Plan
from ...tasks import Covariance, LinearRegression
from ...theory.depth import flow_losses, two_layer_minima
from ..base import Data, Figure
from ..lab import Lab
from .minima_claims import CHOICES, CLAIMS, NAMES, STEPS, ends_of, example, shares
from .setup import Options, swept

TITLE = "Sweep: which minimum of two layers of GD++ training finds"
CITATION = "Model: Ahn et al. 2023 (arXiv 2306.00297); minima, basins and sharpness: iclearn's own."
COLORS = ("#0072B2", "#E69F00", "#CC4C9A", "#999999", "#FFFFFF")
SIZES = {
    "small": ((2, 8), (5, 20), (5, 40)),
    "medium": ((2, 8), (5, 10), (5, 20), (5, 40)),
    "full": ((2, 8), (3, 10), (5, 10), (5, 20), (5, 40), (10, 20)),
}
POINTS = {"small": (9, 8), "medium": (11, 10), "full": (17, 13)}  # init scales and learning rates
SEEDS = {"small": 24, "medium": 48, "full": 64}
INITS, RATES = (0.01, 2.0), (2.5e-4, 0.16)
HALVED, LAST, STILL = 6, 4, 0.01  # a run is at rest whose loss at the last 4 of 41 samples is the same to 1 %


def plan(options: Options) -> Plan:
    sizes, (inits, rates) = SIZES[options.preset], POINTS[options.preset]
    base = Recipe(
        task=LinearRegression(dim=5, context_len=20, covariance=Covariance.white(trace=None), num_prompts=None),
        model=LinearTransformer(layers=2, scalar=True),
        init=Init(0.1),
        optimizer=Optimizer("gd", 0.01),
        steps=STEPS,
        engine="population",
    )
    axes = {
        "size": {
            "fields": {"task.dim": [d for d, _ in sizes], "task.context_len": [n for _, n in sizes]},
            "coords": [f"d={d}, N={n}" for d, n in sizes],
        },
        "rule": {
            "fields": {
                "optimizer.rule": ["gd", "adam"],
                "optimizer.betas": [[0.9, 0.999], [0.9, 0.9]],
                "optimizer.halve_every": [None, STEPS // HALVED],
            },
            "coords": ["gd", "adam"],
        },
        "init": {"field": "init.scale", "values": {"logspace": [*INITS, inits]}},
        "lr": {"field": "optimizer.lr", "values": {"logspace": [*RATES, rates]}},
    }
    kept = {"samples": 40, "curve": True}
    seeds = SEEDS[options.preset]
    return make_plan(base, axes, seeds, reduce=kept, name="minima", chunk=options.chunk, path=options.path)


def basins(options: Options) -> xr.Dataset:
    """Heights and sharpness of the minima of each size, and where the flow from each run's weights ends."""
    found, sizes = plan(options), SIZES[options.preset]
    size, _, init, _, seed = found.axes
    known = np.full((3, len(sizes), 3), np.nan)
    ends = np.full((len(sizes), len(init), len(seed)), np.nan)
    for i, (dim, context) in enumerate(sizes):
        minima = two_layer_minima(dim, context)[:3]
        known[:, i, : len(minima)] = np.array([(m.loss, m.sharpness, m.slowest) for m in minima]).T
        starts = np.concatenate(
            [starting_weights(found.recipe((i, 0, j, 0, 0)), seed.coords) for j in range(len(init))]
        )
        ends[i] = flow_losses(dim, context, starts).reshape(len(init), -1)
    coords = {"size": list(size.coords), "init": list(init.coords), "seed": list(seed.coords)}
    names = ("height", "sharpness", "slowest")
    variables: dict[str, Any] = {n: (("size", "minimum"), table) for n, table in zip(names, known, strict=True)}
    variables["flow"] = (("size", "init", "seed"), ends)
    return xr.Dataset(variables, {**coords, "minimum": [1, 2, 3]})


def starting_weights(recipe: Recipe, seeds) -> np.ndarray:
    """(seed, 4) a_1, a_2, b_1, b_2 with which runs of these seeds start."""

    def one(seed):
        drawn = recipe.model.initial(recipe.task, recipe.init, seed, "float64").weights()
        return jnp.concatenate([drawn["a"][:, 0], drawn["b"][:, 0]])

    return np.asarray(jax.vmap(one)(jnp.asarray(seeds)))


def collect(options: Options):
    def from_lab(lab: Lab) -> Data:
        found = plan(options)
        data = swept(lab, found, options)
        theory = lab.dataset("minima-basins", {"sweep": found.hash, "steps": STEPS}, lambda: basins(options))
        loss, last = data["final_loss"].astype(float), data["curve"].isel(sample=slice(-LAST, None)).astype(float)
        return {"loss": loss, "rest": (abs(last / loss - 1) <= STILL).all("sample"), "basins": theory}

    return from_lab


def draw(data: Data):
    ends, flow = ends_of(data)
    sizes, inits, rates = (ends[name].values for name in ("size", "init", "lr"))
    figure, axes = plt.subplots(
        3, len(sizes), figsize=(3.6 * len(sizes) + 0.6, 8.6), sharex=True, squeeze=False, layout="constrained"
    )
    colors = np.array([to_rgb(color) for color in COLORS])
    edges = [np.exp(_edges(np.log(values))) for values in (inits, rates)]
    for column, size in zip(axes.T, sizes, strict=True):
        parts = shares(flow.sel(size=size), "seed")  # (init, outcome)
        column[0].stackplot(inits, *parts.transpose("outcome", "init").values, colors=COLORS, lw=0)
        column[0].set(title=size, ylim=(0, 1), xscale="log")
        for ax, rule in zip(column[1:], ("gd", "adam"), strict=True):
            mixed = shares(ends.sel(size=size, rule=rule), "seed").transpose("lr", "init", "outcome").values @ colors
            ax.pcolormesh(*edges, np.clip(mixed, 0, 1))
            ax.set(yscale="log")
        sharp = data["basins"]["sharpness"].sel(size=size).values
        for limit, color in zip(2 / sharp, COLORS, strict=False):
            if rates[0] < limit < rates[-1]:
                column[1].axhline(limit, color="white", lw=3.5)
                column[1].axhline(limit, color=color, lw=2, ls="--")
        column[2].set_xlabel("init scale")
    axes[0, 0].set_ylabel("gradient flow\nshare of seeds")
    axes[1, 0].set_ylabel("gradient descent\nlearning rate")
    axes[2, 0].set_ylabel("Adam\nlearning rate")
    for row in axes[:, 1:]:
        for ax in row:
            ax.set_yticklabels([])
    key = [Patch(facecolor=color, edgecolor="0.6", label=name) for color, name in zip(COLORS, NAMES, strict=True)]
    figure.legend(handles=key, loc="outside lower center", ncols=len(key), fontsize=9)
    figure.suptitle("where training ends, mixed by share of seeds; dashed: 2/sharpness of the minimum of that color", fontsize=10)  # fmt: skip
    return figure


def _edges(centers: np.ndarray) -> np.ndarray:
    middles = (centers[1:] + centers[:-1]) / 2
    return np.concatenate([2 * centers[:1] - middles[:1], middles, 2 * centers[-1:] - middles[-1:]])


def figure(options: Options) -> Figure:
    runs = len(SIZES[options.preset]) * 2 * int(np.prod(POINTS[options.preset])) * SEEDS[options.preset]
    return Figure(
        id="minima",
        title=f"which minimum of two layers of GD++ training finds ({runs} runs)",
        collect=collect(options),
        draw=draw,
        claims=CLAIMS,
        setup=f"""task: x ~ N(0, I), w ~ N(0, I), infinitely many prompts; sizes {", ".join(f"d={d} N={n}" for d, n in SIZES[options.preset])}
model: two layers of GD++, scalar weights a_1, a_2, b_1, b_2 from N(0, init²); exact population loss by quadrature
gd: constant learning rate; adam: β = .9, .9, halved every {STEPS // HALVED} of {STEPS} steps
kept: the final loss; a run at rest (the loss of the last tenth of the steps constant to 1 %) is at the minimum whose height is within 4 %; basins: gradient flow from the same weights (Kvaerno's method)""",
        cost={"small": "4 minutes on 2 cores", "medium": "20 minutes on 2 cores", "full": "minutes on an H200"}[options.preset],
        example=example,
        choices=CHOICES,
    )  # fmt: skip
