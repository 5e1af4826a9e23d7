"""Figure 7: with too few heads training stops on a saddle of the larger model, L(M_HR)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_groups
from ..lab import Lab
from .examples import NAN_LOSS, changed_loss, curve, scaled_loss, spoiled, stairs
from .setup import draw_levels, levels, public_task, run_groups, separate_recipe

SIZES = ((1, 1), (2, 1), (3, 1), (1, 2), (1, 3), (2, 2))  # (heads, rank); the last holds all D = 4


def name_of(heads: int, rank: int) -> str:
    return f"H={heads}, R={rank}"


def collect(lab: Lab) -> Data:
    exact = public_task(prompts=None)
    plans = {
        name_of(heads, rank): [
            separate_recipe(seed, exact, heads=heads, rank=rank, init=2e-2, steps=40_001) for seed in lab.seeds
        ]
        for heads, rank in SIZES
    }
    return run_groups(lab, plans)


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
    passed, measured = {}, {}
    for heads, rank in SIZES:
        name, expected = name_of(heads, rank), levels(4)[min(heads * rank, 4)]
        finals = [trace.final_loss for trace in data[name]]
        passed[name] = [abs(final / expected - 1) < 1e-3 for final in finals]
        measured[name] = {"final losses": finals, "theory": float(expected)}
    return judge_groups(passed, measured)


def example() -> Data:
    return {name_of(h, r): [curve(stairs(*levels(4)[: min(h * r, 4) + 1]))] * 6 for h, r in SIZES}


def _one_more(data: Data) -> Data:
    """H heads end where H + 1 should."""
    return {**data, name_of(1, 1): data[name_of(2, 1)]}


FIGURE = Figure(
    id="fig7",
    title="too few heads: training stops at L(M_HR) (our content: that of the paper's Figure 7 is not known to us)",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "final_loss", "With HR < D the model learns the HR leading eigenvectors and stops at L(M_HR).",
            "final loss = L(M_HR)", "0.1 %, more than half of the seeds for every (H, R)", stops, source="theory",
            reason="infinitely many prompts and long training: what is left decays exponentially; neighboring levels are 35 % and more apart",
            counterexamples=(
                spoiled("all runs of one (H, R) end at 0.9", changed_loss(lambda loss: np.full_like(loss, 0.9)), name_of(3, 1)),
                Counterexample("one head learns two eigenvectors", _one_more),
                spoiled("losses 0.3 % too high", scaled_loss(1.003)),
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice(
            "pooling", "80 % of all 36 runs together", "all six runs of any one (H, R) ending at 0.9 still read reproduced", "every (H, R) by itself",
        ),
    ),
    setup="D=4, N=31, λ ∝ d, P=∞ (population), separate attention with (H, R) = (1,1) (2,1) (3,1) (1,2) (1,3) (2,2), init 2e-2, lr 0.02, 40001 steps",
    cost="20 s on 2 cores",
)  # fmt: skip
