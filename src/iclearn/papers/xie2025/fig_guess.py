"""A fixed guess w_0 = w* + δ: what matters is δ alone, and many heads mend all but 2δ²/(Cd+2) of it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.recipe import Init, Optimizer, Recipe, Record
from ...engines.simulate import simulate
from ...models.lsa import LSA
from ...tasks.gram_moments import gram_form
from ...theory.xie2025 import best_loss, gd_step
from ..base import Claim, Data, Figure, Outcome, judge_true
from ..lab import Lab
from .setup import COLORS, CONTEXT, DIM, STAGES, gap_law, law_of, paper_task, prior_mean

NORM = 3.0
OFFSETS = (0.0, 1.0, 2.0, 3.0)
HEAD_COUNTS = (1, DIM)


def guess_at(offset: float) -> np.ndarray:
    """w* + δ with δ of this norm, at right angles to w* in part, so that w_0 is no multiple of w*."""
    direction = np.random.default_rng(0).normal(size=DIM)
    return np.array(prior_mean(NORM)) + offset * direction / np.linalg.norm(direction)


def trained(offset: float, heads: int) -> float:
    """Loss after exact training with the guess fixed."""
    spec = LSA(heads, "given", tuple(guess_at(offset)))
    weights = None
    for lr, steps in STAGES:
        init = Init(0.1) if weights is None else Init.given(weights)
        recipe = Recipe(
            task=paper_task(NORM), model=spec, init=init, optimizer=Optimizer("adam", lr), steps=steps, seed=0,
            record=Record(weights=2, candidates=2),
        )  # fmt: skip
        weights = simulate(recipe, weights=weights).weights()
    model = spec.rebuild(DIM, weights or {})
    return float(gram_form(paper_task(NORM), 0, "float64")(model.coefficients()))


def descent(offset: float) -> float:
    """The gradient step from w_0 written as attention, evaluated by the engine: no formula of the theory but η*."""
    start = guess_at(offset)
    step = gd_step(law_of(paper_task(NORM)), start).step
    q = np.zeros((1, DIM + 1, DIM + 1))
    q[0, :DIM, :DIM] = step * np.eye(DIM)
    model = LSA(1, "given", tuple(start)).rebuild(DIM, {"p": np.append(-start, 1.0)[None], "q": q})
    return float(gram_form(paper_task(NORM), 0, "float64")(model.coefficients()))


def collect(lab: Lab) -> Data:
    def compute() -> xr.Dataset:
        table = [[trained(offset, heads) for heads in HEAD_COUNTS] for offset in OFFSETS]
        return xr.Dataset(
            {"loss": (("offset", "num_heads"), np.array(table)), "descent": ("offset", [descent(o) for o in OFFSETS])},
            {"offset": list(OFFSETS), "num_heads": list(HEAD_COUNTS)},
        )

    parameters = {"offsets": OFFSETS, "heads": HEAD_COUNTS, "norm": NORM, "stages": STAGES}
    return {"table": lab.dataset("guess", parameters, compute)}


def theory(offset: float, heads: int | None) -> float:
    law, guess = law_of(paper_task(NORM)), guess_at(offset)
    return gd_step(law, guess).loss if heads is None else best_loss(law, heads, guess).loss


def draw(data: Data):
    figure, ax = plt.subplots(figsize=(6.8, 4.4))
    table = data["table"]
    fine = np.linspace(0, 3.3, 40)
    for heads, color, mark, label in (
        (None, "black", "o", "gradient step from $w_0$"), (1, "#D55E00", "^", "LSA given $w_0$, 1 head"),
        (DIM, COLORS["heads"], "s", "LSA given $w_0$, $d$ heads"),
    ):  # fmt: skip
        ax.plot(fine, [theory(o, heads) for o in fine], color=color)
        values = table["descent"] if heads is None else table["loss"].sel(num_heads=heads)
        ax.plot(OFFSETS, values, mark, color=color, mfc="white", ms=7, label=label)
    ax.plot([], [], color="0.4", label="theory")
    ax.set(xlabel=r"error of the guess $\|w_0 - w^*\|$", ylabel="loss", title=r"$\|w^*\|$ = 3, guess fixed")
    ax.legend(fontsize=10)
    return figure


def parabola(data: Data) -> Outcome:
    offsets = np.array(OFFSETS)
    expected = (DIM + offsets**2) * (DIM + 1) / (CONTEXT + DIM + 1)
    off = float(np.abs(data["table"]["descent"].values / expected - 1).max())
    return judge_true(off < 1e-12, {"largest relative difference": off})


def one_head(data: Data) -> Outcome:
    losses = data["table"]["loss"].sel(num_heads=1).values
    expected = np.array([theory(o, 1) for o in OFFSETS])
    excess = losses - losses[0]
    ratios = excess[2:] / (excess[1] * (np.array(OFFSETS[2:]) / OFFSETS[1]) ** 2)
    off = float(np.abs(losses / expected - 1).max())
    measured = {"relative difference to the optimum": off, "excess over the parabola through 0 and 1": ratios}
    return judge_true(off < 1e-4 and bool((np.abs(ratios - 1) < 0.05).all()), measured)


def many_heads(data: Data) -> Outcome:
    losses = data["table"]["loss"].sel(num_heads=DIM).values
    ratios = (losses[1:] - losses[0]) / gap_law(np.array(OFFSETS[1:]))
    return judge_true(bool((np.abs(ratios - 1) < 0.01).all()), {"excess over 2δ²/(Cd+2)": ratios})


FIGURE = Figure(
    id="fig_guess",
    title="a fixed guess away from the prior mean",
    collect=collect,
    draw=draw,
    claims=(
        Claim("descent", "One gradient step from w_0 loses (d + ‖δ‖²)(d+1)/(C+d+1).", "the parabola", "relative 1e-12", parabola, source="theory"),
        Claim("one_head", "One head given the guess w_0 loses a parabola in ‖δ‖ too, below the gradient step's.", "the exact optimum; close to quadratic", "1e-4 to the optimum; 5 % to a parabola", one_head, source="ours"),
        Claim("many_heads", "With d heads the excess is 2‖δ‖²/(Cd+2): heads mend a wrong guess almost wholly, never wholly.", "ratio 1", "1 %", many_heads, source="ours"),
    ),
    setup="task as fig_heads, ‖w*‖ = 3; guess w_0 = w* + δ in a random direction, fixed; 1 and d heads trained on the exact loss",
    cost="1 minute on 2 cores",
)  # fmt: skip
