"""Figure 1: losses, differences and cosine over training at n = 200, d = 20."""

from __future__ import annotations

import matplotlib.pyplot as plt

from ..base import Choice, Data, Figure
from ..lab import Lab
from .examples import made_up
from .judges import CHOICES, layer_claims
from .setup import COLORS, FEW, LAYERS, NAMES, SETUP, band, measured, plain_ticks, recipe

DTYPES = {"A": "float64", "C": "float32"}
DOCUMENTS_B = 200


def collect(lab: Lab) -> Data:
    groups = {layer: [recipe(layer, seed, dtype=dtype) for seed in lab.seeds] for layer, dtype in DTYPES.items()}
    costly = {"B": [recipe("B", seed) for seed in lab.seeds_or(FEW)]}
    found = measured(lab, "fig1", groups, every=2) | measured(lab, "fig1", costly, every=10, documents=DOCUMENTS_B)
    return {layer: found[layer] for layer in LAYERS}


def draw(data: Data):
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9))
    first = next(iter(data.values()))
    gd = first["gd_loss"].values
    axes[0].axhline(gd.mean(), color=COLORS["GD"], ls="--", label="one gradient step")
    axes[0].axhspan(gd.mean() - gd.std(), gd.mean() + gd.std(), color="0.5", alpha=0.3, lw=0)
    for layer, table in data.items():
        steps, color = table["step"].values, COLORS[layer]
        band(axes[0], steps, table["loss"].values, color, NAMES[layer])
        band(axes[1], steps, table["model_diff"].values, color, f"Model Diff, {layer}")
        band(axes[1], steps, table["preds_diff"].values, color, f"Preds Diff, {layer}", ls=":")
        band(axes[2], steps, table["model_cos"].values, color, NAMES[layer])
    axes[0].set(
        xlabel="step", ylabel=r"loss $\frac{n}{2}\|\hat f-b\|^2$", yscale="log", title="n = 200, d = 20, s = 0.5"
    )
    axes[1].set(xlabel="step", ylabel="distance to gradient descent", yscale="log")
    axes[2].set(xlabel="step", ylabel="Model Cos", ylim=(-0.05, 1.05))
    axes[2].axhline(1, color="0.6", lw=1, ls=":")
    axes[0].legend()
    axes[1].set_ylim(3e-4, None)
    axes[1].legend(fontsize=9, ncols=3, loc="lower left")
    plain_ticks(axes[0], (0.02, 0.03, 0.05, 0.1))
    axes[2].legend(loc="lower right")
    return figure


FIGURE = Figure(
    id="fig1",
    title="a trained layer and one gradient step, n = 200",
    collect=collect,
    draw=draw,
    claims=layer_claims("A", "A", "n = 200, s = 0.5", holds=True) + layer_claims("B", "B", "n = 200, s = 0.5") + layer_claims("C", "C", "n = 200, s = 0.5"),
    setup=SETUP + f"\nn = 200, d = 20, s = 0.5; A in float64, B and C in float32\nlayer B has n² scores a document: {FEW} repetitions, {DOCUMENTS_B} documents for the line search and for evaluation",
    cost="4 minutes on 2 cores, half of them layer B",
    example=lambda: {layer: made_up() for layer in LAYERS},
    choices=(
        *CHOICES,
        Choice(
            "layer B at n = 200", "left out, for its n² scores a document", "no verdict on layer B at the paper's size",
            f"{FEW} repetitions instead of 10 and {DOCUMENTS_B} documents instead of 1000; its claims are about our design",
        ),
    ),
)  # fmt: skip
