"""Figure 11: with rank R a drop is a new pair in a grown head or a new head; which one decides how long it waits."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...core.recipe import Record
from ...probes.alignment import assign_heads, contributions, learned_strengths
from ...probes.reading import separate_weights
from ...theory.zhang2025 import conspicuous_plateaus
from ..base import Claim, Data, Figure, Outcome, judge_true
from ..lab import Lab
from .fig4 import match, rank_of
from .setup import CONTEXT, GAIN, eigenvalues, levels, public_task, separate_recipe

RANKS = (2, 4)
STEPS = 60001


def collect(lab: Lab) -> Data:
    exact = public_task(8, None)
    record = Record(weights=600, candidates=4000)
    keys = [(rank, seed) for rank in RANKS for seed in lab.seeds]
    traces = lab.run(
        [separate_recipe(s, exact, heads=9, rank=r, init=5e-3, steps=STEPS, record=record) for r, s in keys]
    )
    count = lab.num_seeds
    return {f"R={rank}": traces[i * count : (i + 1) * count] for i, rank in enumerate(RANKS)}


def assignment(trace):
    return assign_heads(trace, learned_strengths(eigenvalues(8), CONTEXT, gain=GAIN))


def draw(data: Data):
    figure, axes = plt.subplots(3, 2, figsize=(10.5, 7.6), sharex=True, sharey="row")
    colors = ("#000000", "#0072B2", "#D55E00", "#009E73")
    styles = ("-", "--", "-.", ":")
    for column, (name, traces) in enumerate(data.items()):
        trace = traces[0]
        weights, steps = separate_weights(trace), trace.data["record"].values + 1
        found = assignment(trace)
        heads = list(dict.fromkeys(int(h) for h in found.heads))
        top, middle, bottom = axes[:, column]
        for m, height in enumerate(levels(8)):
            top.axhline(height, color="0.4" if m in conspicuous_plateaus(8, rank_of(name), 9) else "0.85", ls=":", lw=1)
        top.semilogx(trace.data["step"] + 1, trace.loss, color="black")
        parts = contributions(trace) / learned_strengths(eigenvalues(8), CONTEXT, gain=GAIN)
        for i, head in enumerate(heads):
            look = {"color": colors[i % 4], "ls": styles[i % 4]}
            middle.semilogx(steps, np.abs(weights.value[:, head]), label=f"head {head}", **look)
            for d in range(8):
                if parts[-1, head, d] > 0.5:
                    bottom.semilogx(steps, parts[:, head, d], lw=1.3, **look)
        top.set(title=f"rank {rank_of(name)}, seed 0", ylim=(0.15, 1.05))
        middle.legend(loc="upper left", fontsize=9)
        bottom.set(xlabel="step (logarithmic)", xlim=(1000, STEPS), ylim=(-0.05, 1.1))
    for ax, label in zip(axes[:, 0], ("loss", "value weight $|v|$", "eigenvector learned by head"), strict=True):
        ax.set_ylabel(label)
    return figure


def table_of(data: Data) -> dict[str, list[float]]:
    """Own-time stays before each drop, by what made the drop."""
    stays: dict[str, list[float]] = {"new head": [], "new pair": []}
    for traces in data.values():
        for trace in traces:
            matched, found = match(trace), assignment(trace)
            if not found.in_order:
                continue
            for m, growth in enumerate(found.growths):
                stays[growth.kind].append(matched.stays[m].own)
    return stays


def kinds(data: Data) -> Outcome:
    """At multiples of R a new head, elsewhere a new pair."""
    right = total = 0
    for name, traces in data.items():
        expected = conspicuous_plateaus(8, rank_of(name), 9)
        for trace in traces:
            for m, growth in enumerate(assignment(trace).growths):
                total += 1
                right += (growth.kind == "new head") == (m in expected)
    share = right / total
    word = "reproduced" if share >= 0.9 else "inconclusive" if share >= 0.6 else "contradicted"
    return Outcome({"drops that agree": f"{right} of {total}"}, word, len(next(iter(data.values()))))


def durations(data: Data) -> Outcome:
    stays = table_of(data)
    medians = {kind: float(np.median(values)) for kind, values in stays.items()}
    measured = {"median stay in own time": medians, "drops": {kind: len(v) for kind, v in stays.items()}}
    return judge_true(medians["new head"] > 10 * medians["new pair"], measured, seeds=len(next(iter(data.values()))))


FIGURE = Figure(
    id="fig11",
    title="a new pair in a grown head, or a new head",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "kinds", "After m drops the next one is a new head exactly if m is a multiple of R; else a new key-query pair in a head that has grown.",
            "new head at multiples of R only", "90 % of all drops", kinds,
        ),
        Claim(
            "durations", "Plateaus ended by a new head are long, those ended by a new pair brief.",
            "medians more than a factor 10 apart", "in each plateau's own time scale, over all seeds", durations,
        ),
    ),
    setup="D=8, N=31, λ ∝ d, P=∞, separate attention H=9, R = 2 and 4, init 5e-3, lr 0.02, 60001 steps; which head learned which eigenvector and when: from v k qᵀ in the eigenbasis at 600 recorded steps",
    cost="15 s on 2 cores",
)  # fmt: skip
