"""Where closeness ends: layers and gradient step against the logit scale s = ‖x‖."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ..base import Choice, Claim, Counterexample, Data, Figure, Outcome, judge_seeds
from ..judging import SHARE_SEEDS, judge_groups, worst
from ..lab import Lab
from .examples import ending, lost, made_up
from .judges import CHOICES, MOST, SIMILAR, STILL, or_unfinished
from .setup import CLOSE_COSINE, CLOSE_LOSS, COLORS, MARKS, NAMES, SETUP, STEPS, end, measured, recipe

WORDS = 50
SCALES = {"A": (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0), "B": (0.1, 0.5, 1.0, 2.0), "C": (0.1, 0.5, 1.0, 2.0)}


def collect(lab: Lab) -> Data:
    groups = {
        f"{layer} {s:g}": [recipe(layer, seed, words=WORDS, scale=s) for seed in lab.seeds]
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
    """Losses within 10 % and cosine at least 0.95, judged at every scale of a regime; the worst of them."""

    def judge(data: Data) -> Outcome:
        outcomes, found = [], {}
        for s in (s for s in SCALES[layer] if above < s <= below):
            table = data[f"{layer} {s:g}"]
            ratio, cosine = end(table, "loss") / table["gd_loss"].values, end(table, "model_cos")
            told = {"loss ratio": round(float(ratio.mean()), 3), "cosine": round(float(cosine.mean()), 3)}
            outcome = judge_seeds(list((np.abs(ratio - 1) <= CLOSE_LOSS) & (cosine >= CLOSE_COSINE)), told)
            outcome = or_unfinished(outcome, [table]) if np.median(ratio) > 1 else outcome
            outcomes.append(outcome)
            found[f"s = {s:g}"] = {**outcome.measured, "verdict": outcome.verdict}
        return Outcome(found, worst(*(o.verdict for o in outcomes)), sum(o.seeds for o in outcomes))

    return judge


def beats_descent(data: Data) -> Outcome:
    """Layer A contains the gradient step, so where they part it should be because the layer is better."""
    found = {s: ratio for s, ratio in zip(SCALES["A"], ratios(data, "A"), strict=True) if s >= 1}
    return judge_groups({s: list(r < 1) for s, r in found.items()}, {f"ratio at s = {s:g}": r.mean() for s, r in found.items()})  # fmt: skip


def close_claim(name: str, layer: str, where: str, at: float, **regime: float) -> Claim:
    key = f"{layer} {at:g}"
    return Claim(
        name, f"Layer {layer} is close to the gradient step {where}, after {STEPS} steps.", "similar losses, same direction",
        f"{CLOSE_LOSS:.0%} and cosine {CLOSE_COSINE}, each s by itself, {MOST}; {STILL}", close_at(layer, **regime), SIMILAR, "design", before=False,
        counterexamples=(
            Counterexample(f"loss 12 % above at s = {at:g}", ending(key, "loss", lambda t: 1.12 * t["gd_loss"].values)),
            Counterexample(f"loss 12 % below at s = {at:g}", ending(key, "loss", lambda t: 0.88 * t["gd_loss"].values)),
            Counterexample(f"cosine 0.94 in 3 repetitions at s = {at:g}", ending(key, "model_cos", lambda t: 0.94, 3)),
            lost(key, "loss"),
        ),
        holds=False,
        min_seeds=SHARE_SEEDS,
    )  # fmt: skip


FIGURE = Figure(
    id="fig_scale",
    title="where closeness ends: the logit scale",
    collect=collect,
    draw=draw,
    claims=(
        close_claim("close_A_small", "A", "for s ≤ 0.5", 0.25, below=0.5),
        close_claim("close_A_large", "A", "for s ≥ 1", 1.5, above=0.9),
        close_claim("close_B", "B", "at every s", 0.5),
        close_claim("close_C", "C", "at every s", 2.0),
        Claim(
            "A_beats_GD", "At large s layer A, which contains the gradient step, is better than it.", "loss below the gradient step's",
            f"at each s ≥ 1, {MOST}", beats_descent, "an order has no tolerance", "ours", before=False,
            counterexamples=(
                Counterexample("loss 1 % above the gradient step's at s = 2", ending("A 2", "loss", lambda t: 1.01 * t["gd_loss"].values)),
                lost("A 1", "loss"),
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    setup=SETUP + f"\nn = {WORDS}, d = 20; s in {SCALES['A']} (A), {SCALES['B']} (B and C); float32",
    cost="3 minutes on 2 cores",
    example=lambda: {f"{layer} {s:g}": made_up(0.0475, 0.05) for layer, scales in SCALES.items() for s in scales},
    choices=(
        *CHOICES,
        Choice(
            "where closeness of the losses of layer A ends", "a claim that it is between s = 0.5 and 1, with the interval known from an earlier measurement",
            "reproduced, at s = 0.79: it could not have been otherwise, as A was close for s ≤ 0.5 and not for s ≥ 1",
            "removed; how the two part with s is a claim of fig_limits",
        ),
    ),
)  # fmt: skip
