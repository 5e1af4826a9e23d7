"""How far is linear self-attention from one gradient step, over the prior's mean, the context and the heads (xie2025)?

Exact training on infinitely many prompts at every point, against the exact optimum: what a wrong guess costs, and how
many heads it takes not to pay more. Theory puts the boundary at H = d, whatever the mean (≠ 0) and the context.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.recipe import Init, Optimizer, Recipe
from ...models.lsa import LSA
from ...sweeps.api import make_plan
from ...sweeps.plan import Plan
from ...tasks import Covariance, LinearRegression
from ...theory.xie2025 import Law, best_loss, gd_step, minimal_heads, optimum
from ..base import Choice, Claim, Data, Figure, Outcome, judge_true
from ..lab import Lab
from .examples import as_with, losses, optimal_losses
from .setup import Options, swept

TITLE = "Sweep: the gap between linear self-attention and one gradient step"
CITATION = (
    "Theory: xie2025 (initial guesses and one gradient step of linear self-attention), with iclearn's own optimum."
)
DIM = 4
HEADS = (1, 2, 3, 4, 5, 6)
NORMS = {
    "small": (0.0, 0.5, 1.0, 2.0),
    "medium": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
    "full": (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0),
}
CONTEXTS = {"small": (4, 16), "medium": (4, 8, 16, 32), "full": (2, 4, 8, 16, 32, 64)}
SEEDS = {"small": 4, "medium": 6, "full": 32}
STEPS = {"small": 6000, "medium": 8000, "full": 12_000}
LR = 5e-3
CLOSE = 2e-4  # of 1 + m²: what training leaves of the distance to an optimum


def plan(options: Options) -> Plan:
    norms = NORMS[options.preset]
    base = Recipe(
        task=LinearRegression(
            dim=DIM,
            context_len=CONTEXTS[options.preset][0],
            covariance=Covariance.white(trace=None),
            prior_mean=mean_of(norms[0]),
            num_prompts=None,
        ),
        model=LSA(1),
        init=Init(0.1),
        optimizer=Optimizer("adam", LR),
        steps=STEPS[options.preset],
        engine="population",
    )
    axes = {
        "task.context_len": list(CONTEXTS[options.preset]),
        "model.num_heads": list(HEADS),
        "norm": {"field": "task.prior_mean", "values": [mean_of(m) for m in norms], "coords": list(norms)},
    }
    return make_plan(
        base,
        axes,
        SEEDS[options.preset],
        reduce={"samples": 64},
        name="prior-gap",
        chunk=options.chunk,
        path=options.path,
    )


def mean_of(norm: float) -> tuple[float, ...]:
    """w* = m·𝟏/√d."""
    return tuple(np.full(DIM, norm / np.sqrt(DIM)).tolist())


def collect(options: Options):
    def from_lab(lab: Lab) -> Data:
        return {"loss": swept(lab, plan(options), options)["final_loss"]}

    return from_lab


def table(data: Data) -> xr.Dataset:
    """What half of the seeds reach, theory's optimum, the many-head optimum and the gradient step: (context_len, num_heads, norm).

    A seed that diverged reached nothing.
    """
    loss = data["loss"].fillna(np.inf)
    trained = loss.median("seed")
    shape = trained.shape
    best, enough, step, needed = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape, int)
    for i, context in enumerate(trained["context_len"].values):
        for k, norm in enumerate(trained["norm"].values):
            law = Law.isotropic(DIM, int(context), float(norm))
            enough[i, :, k], step[i, :, k] = optimum(law).loss, gd_step(law, law.mean).loss
            needed[i, :, k] = minimal_heads(law)
            best[i, :, k] = [best_loss(law, int(h)).loss for h in trained["num_heads"].values]
    names = ("best", "enough", "step", "needed")
    found = {name: (trained.dims, values) for name, values in zip(names, (best, enough, step, needed), strict=True)}
    return xr.Dataset({"trained": trained, "lowest": loss.min("seed"), **found}, trained.coords)


def room(found: xr.Dataset) -> xr.DataArray:
    """What training leaves of the distance to an optimum."""
    return CLOSE * (1 + found["norm"] ** 2)


def by_heads(passed: xr.DataArray, told: dict, data: Data) -> Outcome:
    """Whether 95 % of the cells of each number of heads pass (NaN: a cell that does not count)."""
    shares = passed.mean(("context_len", "norm"))
    known = shares.notnull()
    told |= {
        f"{int(h)} heads: cells that pass": round(float(shares.sel(num_heads=h)), 3)
        for h in shares["num_heads"][known].values
    }
    if not known.any():
        return Outcome(told, "failed")
    return judge_true(bool((shares.where(known, 1.0) >= 0.95).all()), told, seeds=data["loss"].sizes["seed"])


def draw(data: Data):
    from matplotlib.colors import LogNorm

    found = table(data)
    contexts = found["context_len"].values
    figure, axes = plt.subplots(
        2, len(contexts), figsize=(2.2 + 2.4 * len(contexts), 6.6), sharex=True, sharey=True, squeeze=False
    )
    rows = {"trained": found["trained"] - found["step"], "theory": found["best"] - found["step"]}
    positive = np.concatenate([np.maximum(r.values.ravel(), 1e-5) for r in rows.values()])
    norm = LogNorm(1e-3, max(positive.max(), 1e-2))
    image = None
    for row, (name, gap) in zip(axes, rows.items(), strict=True):
        for ax, context in zip(row, contexts, strict=True):
            values = np.maximum(gap.sel(context_len=context).transpose("norm", "num_heads").values, 1e-3)
            image = ax.pcolormesh(range(len(HEADS)), range(len(gap["norm"])), values, norm=norm, cmap="viridis")
            ax.axvline(HEADS.index(DIM) - 0.5, color="#D55E00", lw=2)
            ax.set_xticks(range(len(HEADS)), [str(h) for h in HEADS])
            ax.set_yticks(range(len(gap["norm"])), [f"{m:g}" for m in gap["norm"].values])
        row[0].set_ylabel(f"{name}\n" + r"norm of the prior mean $\|w^*\|$")
    for ax, context in zip(axes[0], contexts, strict=True):
        ax.set_title(f"context {context}")
    for ax in axes[1]:
        ax.set_xlabel("number of heads")
    axes[0, 0].annotate("$H = d$", (HEADS.index(DIM) - 0.45, 0), color="#D55E00", fontsize=10)
    assert image is not None
    figure.colorbar(image, ax=axes, label="loss above one gradient step from $w^*$ (at least 0.001)", extend="min")
    return figure


def reaches(data: Data) -> Outcome:
    """What half of the seeds reach over the theory's optimum of as many heads, in units of 1 + m²."""
    found = table(data)
    scale = 1 + found["norm"] ** 2
    off, lowest = (found["trained"] - found["best"]) / scale, float(((found["lowest"] - found["best"]) / scale).min())
    told = {"lowest of all runs": lowest, "median": float(off.median()), "highest": float(off.max())}
    told["share of all runs that arrive"] = float((data["loss"] - found["best"] < room(found)).mean())
    return by_heads((off < CLOSE) & (lowest > -1e-6), told, data)


def boundary(data: Data) -> Outcome:
    """Cells in which training says on which side of the boundary they are, and theory agrees."""
    found = table(data)
    free = found["trained"] - found["enough"] < room(found)
    predicted = found["num_heads"] >= found["needed"]
    visible = predicted | (found["best"] - found["enough"] > 2 * room(found))
    told = {"cells that tell": int(visible.sum()), "of": int(visible.size)}
    return by_heads((free == predicted).where(visible), told, data)


def gap_law(data: Data) -> Outcome:
    """The gap of d or more heads beside 2m²/(Cd+2)."""
    found = table(data)
    enough = found.where((found["num_heads"] >= DIM) & (found["norm"] > 0), drop=True)
    law = 2 * enough["norm"] ** 2 / (enough["context_len"] * DIM + 2)
    gap = enough["trained"] - enough["step"]
    told = {
        "median ratio": float((gap / law).median()),
        "lowest": float((gap / law).min()),
        "highest": float((gap / law).max()),
    }
    return by_heads(abs(gap - law) <= 0.01 * law + room(enough), told, data)


LOST = losses("losses lost", lambda loss: loss * np.nan)
HALF = losses(
    "three fifths of the seeds stop 1 % short",
    lambda loss: loss * xr.where(loss["seed"] < np.ceil(0.6 * loss.sizes["seed"]), 1.01, 1.0),
)
CLAIMS = (
    Claim(
        "boundary", "d heads do what any number can, fewer do not, whatever the prior mean (≠ 0) and the context; with mean 0 one head does.",
        "H = d = 4 (1 at m = 0)", f"95 % of the cells of each number of heads in which the two sides differ by more than twice what training leaves, {CLOSE:g}·(1+m²); median of the seeds", boundary,
        "what Adam at a fixed rate leaves was measured once, on other runs; a cell in twenty may have most seeds in a local minimum", "ours", before=False,
        counterexamples=(losses("three heads do what four can", as_with(3, 4)), losses("four heads do what three can", as_with(4, 3)), HALF, LOST),
    ),
    Claim(
        "gap_law", "With d or more heads what is left above one gradient step from w* is 2m²/(Cd+2).",
        "2m²/(Cd+2)", f"1 % and what training leaves, {CLOSE:g}·(1+m²), in 95 % of the cells of each number of heads; median of the seeds", gap_law,
        "a formula; only training is inexact", "theory", before=False,
        counterexamples=(
            losses("gap 5 % larger", lambda loss: loss + 0.1 * loss["norm"] ** 2 / (loss["context_len"] * DIM + 2)),
            losses("gap ∝ m", lambda loss: loss + 2 * (loss["norm"] - loss["norm"] ** 2) / (loss["context_len"] * DIM + 2)), HALF, LOST,
        ),
    ),
    Claim(
        "reaches", "Training on the exact loss reaches the optimum of its number of heads in at least half of the seeds, and is never below it.",
        "0", f"95 % of the cells of each number of heads within {CLOSE:g}·(1+m²), no run below by more than 1e-6·(1+m²); median of the seeds", reaches,
        "the median is what a seed typically reaches: the best of the seeds gets better with their number, and would hide a minimum that most of them miss", "theory", before=False,
        counterexamples=(
            HALF, losses("five heads stop 0.1 % short", lambda loss: loss * xr.where(loss["num_heads"] == 5, 1.001, 1.0)),
            losses("one seed 1e-4 below the optimum", lambda loss: loss - xr.where(loss["seed"] == loss["seed"][0], 1e-4, 0.0)), LOST,
        ),
    ),
)  # fmt: skip
CHOICES = (
    Choice(
        "which seed stands for a cell", "the best of the seeds (4 to 32)", "all three claims reproduced: what the best of 32 seeds reaches",
        "the median of the seeds; the share of all runs that arrive is reported",
    ),
    Choice(
        "gap_law", "median ratio over cells within 2 %, never more than 1 % below", "reproduced; half of the cells could have had any gap above the law",
        "each cell within 1 % and what training leaves, each number of heads by itself",
    ),
)  # fmt: skip


def figure(options: Options) -> Figure:
    runs = len(CONTEXTS[options.preset]) * len(HEADS) * len(NORMS[options.preset]) * SEEDS[options.preset]
    return Figure(
        id="prior-gap",
        title=f"loss above one gradient step, over prior mean, context and heads ({runs} runs)",
        collect=collect(options),
        draw=draw,
        claims=CLAIMS,
        setup=f"""task: d={DIM}, x ~ N(0, I), w ~ N(w*, I), w* = m·1/√d, infinitely many prompts in closed form
model: linear self-attention without a guess, H heads, weights from N(0, 0.1²); Adam, lr {LR:g}, {STEPS[options.preset]} steps, float64
kept: final loss, the median of {SEEDS[options.preset]} seeds; theory: best_loss (H ≥ d: closed form; H < d: one-dimensional search)""",
        cost={"small": "a minute on 2 cores", "medium": "10 minutes on 2 cores", "full": "minutes on an H200"}[options.preset],
        example=optimal_losses,
        choices=CHOICES,
    )  # fmt: skip
