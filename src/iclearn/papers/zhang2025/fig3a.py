"""Figure 3a: separate rank-one attention goes from saddle to saddle, one eigenvector a drop."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...core.recipe import Init, Recipe, Record
from ...core.trace import Trace
from ...probes.saddle_stays import match_plateaus
from ...theory.zhang2025 import predict
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, binomial_bounds, judge_seeds, least_for_mean
from ..lab import Lab
from .examples import NAN_LOSS, changed_loss, cut, scaled_loss, separate_run, spoiled, stairs
from .judges import drops_of, heights_by_level, judge_heights
from .setup import (
    CONTEXT,
    GAIN,
    basis,
    draw_levels,
    eigenvalues,
    levels,
    public_task,
    run_groups,
    separate_recipe,
    time_scales,
)

STEPS = 10001  # the paper's
RECORD = Record(weights=600, candidates=4000)  # fine enough to draw the weights through a drop
PLANNED = (6, 12)  # seeds: the number of every figure, then twice as many; 24 after the runs of both had been seen
SCHEMES = ("entries", "per_head")  # of the published figure, and of the README's commands


def recipes(lab: Lab, scheme: str, prompts: int | None = 80_000, steps: int = STEPS) -> list[Recipe]:
    """attnS as in Figure 3; the figure has many seeds, because one start in four is not typical."""
    task, init = public_task(prompts=prompts), Init(1e-2, scheme)  # type: ignore[arg-type]
    return [
        separate_recipe(s, task, heads=5, init=1e-2, steps=steps, record=RECORD).replace(init=init) for s in lab.seeds
    ]


def collect(lab: Lab) -> Data:
    return run_groups(lab, {scheme: recipes(lab, scheme) for scheme in SCHEMES})


def theory_of(trace: Trace):
    """What the theory expects of this very run, from its initial weights."""
    return predict(
        "separate", eigenvalues(4), CONTEXT, steps=len(trace.loss), lr=float(trace.data["time"][1]) / 2, num_heads=5,
        weights=trace.weights(0), basis=basis(trace), gain=GAIN, records=4000,
    )  # fmt: skip


def draw(data: Data):
    figure, axes = plt.subplots(1, 2, figsize=(11, 3.9), sharey=True)
    titles = ("every entry of size init, as published", "each head of size init, the README's")
    for ax, scheme, title in zip(axes, SCHEMES, titles, strict=True):
        traces = data[scheme]
        draw_levels(ax, levels(4), names=ax is axes[1])
        for i, trace in enumerate(traces):
            ax.plot(trace.loss, lw=1.5, color="black" if i == 0 else "0.6", zorder=3 if i == 0 else 2)
        ax.plot(theory_of(traces[0])["loss"], color="#D55E00", ls="--", lw=1.5, zorder=4, label="theory for seed 0")
        ax.plot([], [], color="black", label="seed 0")
        ax.plot([], [], color="0.6", label="other seeds")
        ax.set(xlabel="step", xlim=(0, len(traces[0].loss)), ylim=(0, 1.08), title=title)
    axes[0].set_ylabel("training loss")
    axes[0].legend(loc="upper right", bbox_to_anchor=(1, 0.9))
    return figure


def finished(trace: Trace) -> bool:
    """Whether the run ends near the last level."""
    return match_plateaus(trace, levels(4), time_scales(4)).finished


def number_of_drops(data: Data) -> Outcome:
    """Drops of the runs that reached the last level; the others are unfinished. All runs are told beside, not judged."""
    runs = data["entries"]
    done = [trace for trace in runs if finished(trace)]
    counts = [len(drops_of(trace)) for trace in done]
    four = [len(drops_of(trace)) == 4 for trace in runs]
    whole = f"bound {binomial_bounds(sum(four), len(four))[0]:.3f}: {judge_seeds(four, '').verdict}"
    measured = {
        "drops of finished runs": counts,
        "finished": f"{len(done)} of {len(runs)}",
        "four drops, no run left out": f"{sum(four)} of {len(runs)} ({whole})",
    }
    if 2 * len(done) < len(runs):
        return Outcome(measured, "unfinished", len(runs))
    return judge_seeds([count == 4 for count in counts], measured)


def in_time(data: Data) -> Outcome:
    done = [finished(trace) for trace in data["entries"]]
    return judge_seeds(done, f"{sum(done)} of {len(done)}")


def heights(data: Data) -> Outcome:
    return judge_heights(heights_by_level([[trace] for trace in data["entries"]], levels(4)), levels(4))


def order(data: Data) -> Outcome:
    """Sizes of the drops against λ_d/a_d, decreasing as the eigenvalues are; runs that end with four drops."""
    gains = -np.diff(levels(4))
    sizes = [np.array([drop.size for drop in drops_of(trace)]) for trace in data["entries"] if finished(trace)]
    four = [size for size in sizes if len(size) == 4]
    passed = [bool(np.all(np.abs(size / gains - 1) < 0.1)) for size in four]
    if not four:
        return Outcome({"runs that end with four drops": 0}, "inconclusive", len(data["entries"]))
    return judge_seeds(passed, {"sizes of the drops": four, "theory": gains})


def slower(data: Data) -> Outcome:
    counts = {scheme: [len(drops_of(trace)) for trace in data[scheme]] for scheme in SCHEMES}
    return judge_seeds([0 < count < 4 for count in counts["per_head"]], counts)


def example() -> Data:
    """All drops in one scheme; the other so much slower that the last one is missing."""
    whole = [separate_run(seed, noise=2e-3) for seed in range(6)]
    return {"entries": whole, "per_head": [cut(0.55)(trace) for trace in whole]}


MERGED = spoiled("two drops at once in half of the runs", changed_loss(lambda loss: np.resize(stairs(*levels(4)[[0, 2, 3, 4]], width=len(loss) // 4 + 1), len(loss))), "entries", half=True)  # fmt: skip

FIGURE = Figure(
    id="fig3a",
    title="separate rank-one attention: one drop per eigenvector",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "drops", "Training makes D = 4 drops.", "4", "runs that reach the last level in the paper's 10001 steps (at least half of all); more than half of them, at 95 % confidence",
            number_of_drops, before=False,
            reason="two heads that start alike can make one drop of two, so not every run has to show four; drops of 2 % of the fall and more, a quarter of the smallest",
            counterexamples=(MERGED, spoiled("runs cut before the last drop", cut(0.55), "entries"), NAN_LOSS),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "in_time", "With the published initialization the paper's 10001 steps are enough for all four.", "the last level reached",
            "more than half of the seeds, at 95 % confidence", in_time, source="ours", before=False,
            reason="how long the last head lets wait depends on the random start",
            counterexamples=(spoiled("half of the runs cut before the last drop", cut(0.55), "entries", half=True), NAN_LOSS),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "heights", "The plateaus are at the saddle losses L(M_m) of (19).",
            ", ".join(f"{level:.4f}" for level in levels(4)[:-1]),
            "4 standard errors of the mean over seeds (P = 80000), which must be below a tenth of the gap to the next level",
            heights, source="theory",
            reason="sampling moves a level by some 0.3 %; a context of 30 instead of 31 pairs moves it by several standard errors",
            counterexamples=(
                spoiled("losses 2 % too high", scaled_loss(1.02), "entries"),
                Counterexample("noise of 20 %", lambda data: {**data, "entries": [scaled_loss(1 + 0.2 * (-1) ** i)(t) for i, t in enumerate(data["entries"])]}),
                NAN_LOSS,
            ),
            min_seeds=least_for_mean(4),
        ),
        Claim(
            "order", "Eigenvectors are learned in the order of their eigenvalues.",
            "sizes of the drops L(M_m) − L(M_m+1) in this order", "10 % each, more than half of the runs that end with four drops", order, before=False,
            reason="neighboring drops differ in size by a quarter and more",
            counterexamples=(
                spoiled("the order of the drops reversed", changed_loss(lambda loss: loss[0] + loss[-1] - loss[::-1]), "entries"),
                spoiled("all drops of one size", changed_loss(lambda loss: np.resize(stairs(*np.linspace(1, levels(4)[-1], 5), width=len(loss) // 5 + 1), len(loss))), "entries"),
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "per_head_slower", "With the README's later initialization (keys and queries smaller by √5) 10001 steps do not show the fourth drop: such runs are unfinished.",
            "1 to 3 drops", "more than half of the seeds", slower, source="ours", before=False,
            reason="waits go as 1/init, and the geometric mean of |v|, ‖k‖, ‖q‖ is smaller by 5^⅓ = 1.7",
            counterexamples=(
                Counterexample("the published initialization in its place", lambda data: {**data, "per_head": data["entries"]}),
                spoiled("no drop at all", changed_loss(np.ones_like), "per_head"),
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice(
            "initialization and steps", "per_head (k, q ~ N(0, init²/5)) at the paper's 10001 steps, then at 40001",
            "3 drops in each of six runs in 10001 steps, 4 in five of six in 40001; a claim paper_steps (\"3 or 4\") made the first read reproduced, "
            "and a note said that the paper's steps do not show all drops. The published file is older than per_head: with entries 10 of 12 runs make four drops in 10001 steps",
            "entries at 10001 steps, per_head beside it; paper_steps and the note are withdrawn",
        ),
        Choice(
            "heights", "4 standard errors without a cap", "0.95 to 2.5 away (per_head, six seeds); 20 % of noise in the heights passed in 14 of 20 trials",
            "capped at a tenth of the gap; fixed before the runs with entries were made",
        ),
        Choice(
            "drops, order and the number of seeds", "6 seeds (per_head): 5 with four drops. 12 seeds (entries), exactly four drops in 10001 steps, of any size",
            "8 of 12, one of these with a last drop of 1e-5 of the loss, another in the middle of it: inconclusive; 9 of 12 reach the last level, 2 make two drops at once",
            "24 seeds for all of figure 3; unfinished runs apart from those with fewer drops (drops, in_time); drops of 2 % and more, as in fig5",
        ),
    ),
    planned=PLANNED,
    setup="""task: D=4, N=31, λ ∝ d (trace 1, rotated), P=80000 prompts, x centered, w whitened
model: separate attention H=5, R=1, full; init 1e-2; entries: k, q, v ~ N(0, init²); per_head: k, q ~ N(0, init²/5), v ~ N(0, init²)
for step in 10001: W ← W − 0.02 · ∂loss/∂W; four times as many seeds as elsewhere
theory for a run: blow-up time of each head from its initial weights, then (21) for each drop""",
    cost="10 s on 2 cores",
    seeds=24,
)  # fmt: skip
