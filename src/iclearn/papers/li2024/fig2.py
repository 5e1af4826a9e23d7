"""Figure 2: losses of layer and gradient step against the dimension of the embeddings."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ..base import Claim, Data, Figure, Outcome, judge_seeds
from ..lab import Lab
from .setup import CLOSE_COSINE, CLOSE_LOSS, COLORS, MARKS, SETUP, end, measured, recipe, repetitions

DIMS = (5, 10, 20, 40, 60)
WORDS = 50


def collect(lab: Lab) -> Data:
    groups = {str(d): [recipe("A", seed, words=WORDS, dim=d) for seed in repetitions(lab)] for d in DIMS}
    return measured(lab, "fig2", groups)


def draw(data: Data):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9))
    draw_sweep(left, right, data, "embedding dimension d")
    left.set_title(f"n = {WORDS}, s = 0.5")
    return figure


def draw_sweep(left, right, data: Data, label: str) -> None:
    """Losses (left) and Model Cos (right) of layer A against whatever the keys of the data are."""
    x = [float(key) for key in data]
    gd = np.stack([table["gd_loss"].values for table in data.values()])
    layer = np.stack([end(table, "loss") for table in data.values()])
    cosine = np.stack([end(table, "model_cos") for table in data.values()])
    for values, key, name in ((gd, "GD", "one gradient step"), (layer, "A", "layer A")):
        left.errorbar(x, values.mean(1), values.std(1), color=COLORS[key], marker=MARKS[key], capsize=3,
                      ls="--" if key == "GD" else "-", mfc="white", label=name)  # fmt: skip
    right.errorbar(x, cosine.mean(1), cosine.std(1), color=COLORS["A"], marker=MARKS["A"], mfc="white", capsize=3)
    right.axhline(CLOSE_COSINE, color="0.6", lw=1, ls=":")
    right.set(xlabel=label, ylabel="Model Cos after training", ylim=(min(0.9, cosine.mean(1).min() - 0.05), 1.005))
    left.set(xlabel=label, ylabel=r"loss $\frac{n}{2}\|\hat f-b\|^2$", ylim=(0, None))
    left.legend()


def similar_everywhere(data: Data) -> Outcome:
    ratios = {key: end(table, "loss") / table["gd_loss"].values for key, table in data.items()}
    passed = np.abs(np.stack(list(ratios.values())) - 1) <= CLOSE_LOSS
    return judge_seeds(list(np.all(passed, axis=0)), {f"ratio at {key}": float(r.mean()) for key, r in ratios.items()})


def aligned_everywhere(data: Data) -> Outcome:
    cosines = {key: end(table, "model_cos") for key, table in data.items()}
    passed = np.stack(list(cosines.values())) >= CLOSE_COSINE
    return judge_seeds(
        list(np.all(passed, axis=0)), {f"cosine at {key}": float(c.mean()) for key, c in cosines.items()}
    )


def rises_with_dim(data: Data) -> Outcome:
    losses = np.stack([np.stack([end(t, "loss"), t["gd_loss"].values]) for t in data.values()])
    rising = np.all(np.diff(losses, axis=0) > 0, axis=(0, 1))
    return judge_seeds(list(rising), {"layer": losses[:, 0].mean(1), "gradient descent": losses[:, 1].mean(1)})


FIGURE = Figure(
    id="fig2",
    title="losses against the dimension",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "similar_loss_d", "Layer A and one gradient step have similar losses at every d.", "equal losses",
            "10 % at all d, in at least 80 % of repetitions", similar_everywhere,
        ),
        Claim(
            "cosine_d", "Layer A and the gradient step point the same way at every d.", "cosine at least 0.95",
            "at all d, in at least 80 % of repetitions", aligned_everywhere, source="ours",
        ),
        Claim(
            "rises_with_d", "Both losses rise with d: the same n words show less of a longer x.", "rising",
            "each step of d, both models, in at least 80 % of repetitions", rises_with_dim, source="ours",
        ),
    ),
    setup=SETUP + f"\nn = {WORDS}, s = 0.5, d in {DIMS}; layer A in float32",
    cost="2 minutes on 2 cores",
)  # fmt: skip
