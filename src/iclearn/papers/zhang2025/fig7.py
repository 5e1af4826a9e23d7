"""Figure 7: with too few heads training stops on a saddle of the larger model, L(M_HR)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ..base import Claim, Data, Figure, Outcome, judge_seeds
from ..lab import Lab
from .setup import draw_levels, levels, public_task, separate_recipe

SIZES = ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2))  # (heads, rank); the last holds all D = 4


def collect(lab: Lab) -> Data:
    exact = public_task(prompts=None)
    recipes = [
        separate_recipe(seed, exact, heads=heads, rank=rank, init=2e-2, steps=40_001)
        for heads, rank in SIZES
        for seed in lab.seeds
    ]
    traces = lab.run(recipes)
    count = lab.num_seeds
    return {f"H={h}, R={r}": traces[i * count : (i + 1) * count] for i, (h, r) in enumerate(SIZES)}


def draw(data: Data):
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 5.6), sharex=True, sharey=True)
    for ax, (name, traces), (heads, rank) in zip(axes.ravel(), data.items(), SIZES, strict=True):
        draw_levels(ax, levels(4), names=False)
        last = min(heads * rank, 4)
        ax.axhline(levels(4)[last], color="#D55E00", ls="--", lw=1.6, label=rf"$L(M_{last})$")
        for trace in traces:
            ax.semilogx(trace.data["step"] + 1, trace.loss, color="black", lw=1, alpha=0.8)
        ax.set(title=name, xlim=(30, 40_000), ylim=(0, 1.05))
        ax.legend(loc="upper right")
    for ax in axes[-1]:
        ax.set_xlabel("step (logarithmic)")
    for ax in axes[:, 0]:
        ax.set_ylabel("loss")
    return figure


def stops(data: Data) -> Outcome:
    passed, measured = [], {}
    for (name, traces), (heads, rank) in zip(data.items(), SIZES, strict=True):
        expected = levels(4)[min(heads * rank, 4)]
        finals = [trace.final_loss for trace in traces]
        passed += [abs(final / expected - 1) < 1e-3 for final in finals]
        measured[name] = {"median final loss": float(np.median(finals)), "theory": float(expected)}
    return judge_seeds(passed, measured)


FIGURE = Figure(
    id="fig7",
    title="too few heads: training stops at L(M_HR)",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "final_loss", "With HR < D the model learns the HR leading eigenvectors and stops at L(M_HR).",
            "final loss = L(M_HR)", "0.1 %, at least 80 % of all runs", stops, source="theory",
        ),
    ),
    setup="D=4, N=31, λ ∝ d, P=∞ (population), separate attention with (H, R) = (1,1) (2,1) (3,1) (1,2) (1,3) (2,2), init 2e-2, lr 0.02, 40001 steps",
    cost="5 s on 2 cores",
)  # fmt: skip
