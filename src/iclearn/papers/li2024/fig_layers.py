"""Layers A, B and C side by side: closeness depends on how attention is parametrized."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ..base import Claim, Counterexample, Data, Figure, Outcome, judge_seeds
from ..judging import SHARE_SEEDS
from ..lab import Lab
from .examples import ending, lost, made_up
from .judges import CHOICES, MOST, layer_claims
from .setup import COLORS, LAYERS, NAMES, SETUP, STEPS, band, end, measured, plain_ticks, recipe

WORDS = 50
SCALES = (0.5, 1.0)


def collect(lab: Lab) -> Data:
    groups = {
        f"{layer} {s:g}": [recipe(layer, seed, words=WORDS, scale=s) for seed in lab.seeds]
        for s in SCALES
        for layer in LAYERS
    }
    return measured(lab, "fig_layers", groups, every=2)


def draw(data: Data):
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 6.6), sharex=True)
    for (top, bottom), s in zip(axes.T, SCALES, strict=True):
        gd = data[f"A {s:g}"]["gd_loss"].values
        top.axhline(gd.mean(), color=COLORS["GD"], ls="--", label="one gradient step")
        for layer in LAYERS:
            table = data[f"{layer} {s:g}"]
            band(top, table["step"].values, table["loss"].values, COLORS[layer], NAMES[layer])
            band(bottom, table["step"].values, table["model_cos"].values, COLORS[layer], NAMES[layer])
        top.set(title=f"n = {WORDS}, d = 20, s = {s:g}", yscale="log")
        bottom.set(xlabel="step", ylim=(-0.1, 1.05))
        bottom.axhline(1, color="0.6", lw=1, ls=":")
    plain_ticks(axes[0, 0], (0.05, 0.07, 0.1, 0.14))
    plain_ticks(axes[0, 1], (0.3, 0.5, 1, 2, 3))
    axes[0, 0].set_ylabel(r"loss $\frac{n}{2}\|\hat f-b\|^2$")
    axes[1, 0].set_ylabel("Model Cos")
    axes[0, 0].legend(fontsize=9)
    return figure


def order(s: float):
    """A is nearer to the gradient step than B and C are, in loss and in direction."""

    def judge(data: Data) -> Outcome:
        a, b, c = (data[f"{layer} {s:g}"] for layer in LAYERS)
        gap = [np.abs(end(t, "loss") - t["gd_loss"].values) for t in (a, b, c)]
        cos = [end(t, "model_cos") for t in (a, b, c)]
        passed = (gap[0] < gap[1]) & (gap[0] < gap[2]) & (cos[0] > cos[1]) & (cos[0] > cos[2])
        measured = {layer: {"loss gap": float(g.mean()), "cosine": float(k.mean())}
                    for layer, g, k in zip(LAYERS, gap, cos, strict=True)}  # fmt: skip
        return judge_seeds(list(passed), measured)

    return judge


def order_claim(s: float) -> Claim:
    a, b = f"A {s:g}", f"B {s:g}"
    return Claim(
        f"order_{s:g}", f"After {STEPS} steps layer A is nearer to the gradient step than B and C, in loss and in direction (n = {WORDS}, s = {s:g}).",
        "A nearest", MOST, order(s), "an order has no tolerance", "ours", before=False,
        counterexamples=(
            Counterexample("layer B has the gradient step's loss", ending(b, "loss", lambda t: t["gd_loss"].values)),
            Counterexample("A's cosine as C's in 3 repetitions", lambda data: ending(a, "model_cos", lambda _: end(data[f"C {s:g}"], "model_cos"), 3)(data)),
            lost(a, "loss"),
        ),
        min_seeds=SHARE_SEEDS,
    )  # fmt: skip


def example() -> Data:
    """A layer A 1 % from the gradient step, B and C 6 %."""
    tables = {"A": made_up(0.0505, cosine=(0.02, 0.995)), "B": made_up(0.053, cosine=(0.7, 0.96))}
    return {f"{layer} {s:g}": tables.get(layer, tables["B"]) for layer in LAYERS for s in SCALES}


FIGURE = Figure(
    id="fig_layers",
    title="three layers, two logit scales",
    collect=collect,
    draw=draw,
    claims=tuple(
        claim for s in SCALES for layer in LAYERS for claim in layer_claims(f"{layer} {s:g}", layer, f"n = {WORDS}, s = {s:g}")
    )
    + tuple(order_claim(s) for s in SCALES),
    setup=SETUP + f"\nn = {WORDS}, d = 20, s in {SCALES}; float32",
    cost="under a minute on 2 cores after fig_scale, which shares its runs",
    example=example,
    choices=CHOICES,
)  # fmt: skip
