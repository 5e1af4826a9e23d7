"""Figure 4: keys and queries of rank R: long plateaus at every R-th saddle (R = 1, 2, 4, 8)."""

from __future__ import annotations

import matplotlib.pyplot as plt

from ..base import Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_groups
from ..lab import Lab
from .examples import NAN_LOSS, cut, spoiled
from .ranks import CHOICES, SETUP, collect_ranks, example_ranks, expected_long, match, rank_claims, shared_claims
from .setup import levels

RANKS = (1, 2, 4, 8)


def collect(lab: Lab) -> Data:
    return collect_ranks(lab, RANKS, ("entries", "per_head"))


def draw(data: Data):
    figure, axes = plt.subplots(2, 2, figsize=(10.5, 6.6), sharex=True, sharey=True)
    for ax, (name, traces) in zip(axes.ravel(), data["entries"].items(), strict=True):
        for m, height in enumerate(levels(8)):
            here = m in expected_long(traces[0])
            ax.axhline(
                height, color="0.35" if here else "0.8", ls="--" if here else ":", lw=1.3 if here else 1, zorder=0
            )
            if here:
                ax.annotate(rf"$m={m}$", (1.01, height), xycoords=("axes fraction", "data"), va="center", fontsize=9)
        for i, trace in enumerate(traces):
            look = {"color": "black", "zorder": 3} if i == 0 else {"color": "0.6", "zorder": 2}
            ax.semilogx(trace.data["step"] + 1, trace.loss, lw=1.4, **look)
        for trace in data.get("per_head", {}).get(name, [])[:1]:
            ax.semilogx(trace.data["step"] + 1, trace.loss, color="#D55E00", ls="-.", lw=1.2)
        ax.set(title=name.replace("R=", "rank "), xlim=(100, len(traces[0].loss)), ylim=(0.15, 1.05))
    axes[0, 0].plot([], [], color="black", label="training, seed 0")
    axes[0, 0].plot([], [], color="0.6", label="other seeds")
    if "per_head" in data:
        axes[0, 0].plot([], [], color="#D55E00", ls="-.", label="seed 0, README's init")
    axes[0, 0].plot([], [], color="0.35", ls="--", label="$L(M_m)$, long plateau expected")
    axes[0, 0].plot([], [], color="0.8", ls=":", label="other $L(M_m)$")
    figure.legend(loc="outside upper center", ncols=5, fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("step (logarithmic)")
    for ax in axes[:, 0]:
        ax.set_ylabel("training loss")
    return figure


def finished(data: Data) -> Outcome:
    ends = {name: [match(t).finished for t in traces] for name, traces in data["entries"].items()}
    groups: dict[str, list[bool]] = {name: ends[name] for name in ("R=4", "R=8")}
    groups["R=1"] = [not end for end in ends["R=1"]]
    return judge_groups(groups, {"finished": {name: f"{sum(e)} of {len(e)}" for name, e in ends.items()}})


def slower(data: Data) -> Outcome:
    ends = {name: [match(t).finished for t in traces] for name, traces in data["per_head"].items()}
    groups = {name: [not end for end in ends[name]] for name in ("R=1", "R=2")}
    return judge_groups(groups, {"finished": {name: f"{sum(e)} of {len(e)}" for name, e in ends.items()}})


def example() -> Data:
    runs = example_ranks(RANKS)
    return {"entries": runs, "per_head": {name: [cut(0.6)(t) for t in traces] for name, traces in runs.items()}}


FIGURE = Figure(
    id="fig4",
    title="rank R: a long plateau for every new head, none for a new pair",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        *rank_claims(RANKS),
        *shared_claims(),
        Claim(
            "finished", "In the paper's 20001 steps runs of rank 4 and 8 reach the last level; rank-one runs end on a plateau before it and are unfinished, not converged.",
            "R = 4, 8 finished, R = 1 not", "more than half of the seeds of each rank", finished, source="ours", before=False,
            reason="a count",
            counterexamples=(
                spoiled("half of the runs of rank 4 cut", cut(0.5), "entries", "R=4", half=True),
                Counterexample("rank one as rank 8", lambda data: {**data, "entries": {**data["entries"], "R=1": data["entries"]["R=8"]}}),
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "per_head_slower", "With the README's later initialization 20001 steps leave ranks 1 and 2 unfinished.",
            "no run of ranks 1, 2 finished", "more than half of the seeds of each rank", slower, source="ours", before=False,
            reason="waits go as 1/init, and keys and queries are smaller by √(9R)",
            counterexamples=(
                Counterexample("runs of rank 2 as runs of rank 8", lambda data: {**data, "per_head": {**data["per_head"], "R=2": data["entries"]["R=8"]}}),
                NAN_LOSS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=CHOICES,
    setup=SETUP,
    cost="50 s on 2 cores",
)  # fmt: skip
