"""Where closeness ends: layers and gradient step against the logit scale s = ‖x‖."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ..base import Claim, Data, Figure, Outcome, judge_seeds, judge_true
from ..lab import Lab
from .setup import CLOSE_COSINE, CLOSE_LOSS, COLORS, MARKS, NAMES, SETUP, end, measured, recipe, repetitions

WORDS = 50
SCALES = {"A": (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0), "B": (0.1, 0.5, 1.0, 2.0), "C": (0.1, 0.5, 1.0, 2.0)}


def collect(lab: Lab) -> Data:
    groups = {
        f"{layer} {s:g}": [recipe(layer, seed, words=WORDS, scale=s) for seed in repetitions(lab)]
        for layer, scales in SCALES.items()
        for s in scales
    }
    return measured(lab, "fig_scale", groups)


def ratios(data: Data, layer: str) -> np.ndarray:
    """Loss of the layer over that of the gradient step, (scale, repetition)."""
    tables = [data[f"{layer} {s:g}"] for s in SCALES[layer]]
    return np.stack([end(table, "loss") / table["gd_loss"].values for table in tables])


def cosines(data: Data, layer: str) -> np.ndarray:
    return np.stack([end(data[f"{layer} {s:g}"], "model_cos") for s in SCALES[layer]])


def draw(data: Data):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4))
    for layer, scales in SCALES.items():
        for ax, values in ((left, ratios(data, layer)), (right, cosines(data, layer))):
            ax.errorbar(scales, values.mean(1), values.std(1), color=COLORS[layer], marker=MARKS[layer], mfc="white",
                        capsize=3, label=NAMES[layer])  # fmt: skip
    left.axhline(1, color="black", ls="--", lw=1.2)
    left.axhspan(1 - CLOSE_LOSS, 1 + CLOSE_LOSS, color="0.85", zorder=0)
    left.annotate(
        "within 10 %", (0.98, 1 - CLOSE_LOSS), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=9
    )
    right.axhspan(CLOSE_COSINE, 1, color="0.85", zorder=0)
    left.set(
        xlabel="logit scale s", ylabel="loss / loss of the gradient step", ylim=(0.6, 1.8), title=f"n = {WORDS}, d = 20"
    )
    right.set(xlabel="logit scale s", ylabel="Model Cos after training", ylim=(0.76, 1.01))
    left.legend(fontsize=9, loc="lower left")
    return figure


def close_at(layer: str, *, below: float = np.inf, above: float = 0.0):
    """Losses within 10 % and cosine at least 0.95 at every scale of a regime."""

    def judge(data: Data) -> Outcome:
        inside = [i for i, s in enumerate(SCALES[layer]) if above < s <= below]
        ratio, cosine = ratios(data, layer)[inside], cosines(data, layer)[inside]
        passed = (np.abs(ratio - 1) <= CLOSE_LOSS) & (cosine >= CLOSE_COSINE)
        found = {f"s = {SCALES[layer][i]:g}": [round(float(r.mean()), 3), round(float(c.mean()), 3)]
                 for i, r, c in zip(inside, ratio, cosine, strict=True)}  # fmt: skip
        return judge_seeds(list(np.all(passed, axis=0)), {"[loss ratio, cosine]": found})

    return judge


def beats_descent(data: Data) -> Outcome:
    """Layer A contains the gradient step, so where they part it should be because the layer is better."""
    values = ratios(data, "A")[[s >= 1 for s in SCALES["A"]]]
    return judge_seeds(list(np.all(values < 1, axis=0)), {"ratio at s ≥ 1": values.mean(1)})


def ends_at(data: Data) -> Outcome:
    """The scale, interpolated, at which the mean losses differ by 10 % for the first time."""
    scales, gaps = np.array(SCALES["A"]), np.abs(ratios(data, "A").mean(1) - 1)
    over = np.flatnonzero(gaps > CLOSE_LOSS)
    count = ratios(data, "A").shape[1]
    if not len(over) or over[0] == 0:
        return judge_true(False, {"gaps": gaps}, seeds=count)
    i = int(over[0])
    share = (CLOSE_LOSS - gaps[i - 1]) / (gaps[i] - gaps[i - 1])
    where = float(scales[i - 1] + share * (scales[i] - scales[i - 1]))
    return judge_true(0.5 < where <= 1.0, {"closeness of losses ends at s": where}, seeds=count)


FIGURE = Figure(
    id="fig_scale",
    title="where closeness ends: the logit scale",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "close_A_small", "Layer A is close to the gradient step (losses and cosine) for s ≤ 0.5.", "close",
            "10 % and cosine 0.95 at every s, in at least 80 % of repetitions", close_at("A", below=0.5),
        ),
        Claim(
            "close_A_large", "Layer A is close to the gradient step for s ≥ 1.", "close",
            "10 % and cosine 0.95 at every s, in at least 80 % of repetitions", close_at("A", above=0.9), holds=False,
        ),
        Claim(
            "close_B", "Layer B is close to the gradient step at every s.", "close",
            "10 % and cosine 0.95 at every s, in at least 80 % of repetitions", close_at("B"), holds=False,
        ),
        Claim(
            "close_C", "Layer C is close to the gradient step at every s.", "close",
            "10 % and cosine 0.95 at every s, in at least 80 % of repetitions", close_at("C"), holds=False,
        ),
        Claim(
            "A_beats_GD", "At large s layer A, which contains the gradient step, is better than it.", "loss below the gradient step's",
            "at every s ≥ 1, in at least 80 % of repetitions", beats_descent, source="ours",
        ),
        Claim(
            "ends_at", "Closeness of the losses of layer A ends between s = 0.5 and s = 1.", "0.5 < s ≤ 1",
            "first 10 % difference of the mean losses, interpolated", ends_at, source="ours",
        ),
    ),
    setup=SETUP + f"\nn = {WORDS}, d = 20; s in {SCALES['A']} (A), {SCALES['B']} (B and C); float32",
    cost="3 minutes on 2 cores",
)  # fmt: skip
