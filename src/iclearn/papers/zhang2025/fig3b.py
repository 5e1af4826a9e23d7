"""Figure 3b: the value weights of the heads, and the scalar equation (21)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...core.trace import Trace
from ...theory.zhang2025 import saddle_weights
from ..base import Choice, Claim, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, Word, judge_seeds, worst
from ..lab import Lab
from .drops import learned_times, predicted_drops
from .examples import (
    NAN_WEIGHTS,
    RANDOM_WEIGHTS,
    ZERO_WEIGHTS,
    changed_weights,
    scaled_time,
    separate_run,
    spoiled,
)
from .fig3a import PLANNED, recipes, theory_of
from .setup import CONTEXT, GAIN, eigenvalues, run_groups

LONG = 40_001  # steps until the last head of the smaller weights has grown


def collect(lab: Lab) -> Data:
    plans = {
        "finite": recipes(lab, "entries"),
        "population": recipes(lab, "entries", None),
        "per_head": recipes(lab, "per_head", None, LONG),
    }
    return run_groups(lab, plans)


def values_of(trace: Trace) -> np.ndarray:
    """|v_h| over records."""
    return np.abs(trace.data["weight_value"].values[:, :, 0, -1])


def draw(data: Data):
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), sharey=True)
    final = saddle_weights(eigenvalues(4), CONTEXT, gain=GAIN)
    titles = ("80000 prompts", "infinitely many", "infinitely many, README's init")
    for ax, name, title in zip(axes, ("finite", "population", "per_head"), titles, strict=True):
        trace = data[name][0]
        theory = theory_of(trace)
        predicted = np.abs(theory["weight_value"].values[:, :, 0, 0])
        looks = (
            (trace.data["record"], values_of(trace), {"color": "0.55", "lw": 2.8, "label": "head (training)"}),
            (theory["record"], predicted, {"color": "black", "ls": "--", "lw": 1.2, "label": "equation (21)"}),
        )
        for steps, values, look in looks:
            for h in range(5):
                ax.semilogx(steps + 1, values[:, h], **{**look, "label": look["label"] if h == 0 else None})
        for i, level in enumerate(final):
            ax.axhline(level, color="0.5", ls=":", lw=1, zorder=0)
            ax.annotate(rf"$v_{i + 1}$", (1.01, level), xycoords=("axes fraction", "data"), va="center", fontsize=9)
        ax.set(xlabel="step (logarithmic)", title=f"{title}, seed 0", xlim=(30, len(trace.loss)), ylim=(0, 0.7))
    axes[0].set_ylabel("value weight $|v|$ of each head")
    axes[0].legend(loc="center left")
    return figure


def heights(data: Data) -> Outcome:
    expected = np.sort(saddle_weights(eigenvalues(4), CONTEXT, gain=GAIN))
    gaps = [float(np.max(np.abs(np.sort(values_of(t)[-1])[-4:] / expected - 1))) for t in data["per_head"]]
    return judge_seeds([gap < 0.02 for gap in gaps], {"largest relative difference": gaps})


def drop_ratios(trace: Trace) -> list[float]:
    """Measured over predicted time of each drop; infinite for one that should have come and did not.

    A drop that is predicted for after the end of the run says nothing and is left out.
    """
    times, end = learned_times(trace), float(trace.data["time"][-1])
    drops = [drop for drop in predicted_drops(trace) if np.isfinite(times[drop.component]) or drop.time < end]
    return [float(np.nan_to_num(times[drop.component], nan=np.inf) / drop.time) for drop in drops]


def drop_times(*names: str):
    """Of the errors of each group of runs the median is within 5 % and the 80 % quantile within 20 %."""

    def judge(data: Data) -> Outcome:
        rows, words = {}, []
        for name in names:
            ratios = [drop_ratios(trace) for trace in data[name]]
            errors = np.abs(np.array([r for row in ratios for r in row]) - 1)
            median, most = np.quantile(errors, [0.5, 0.8], method="higher") if len(errors) else (np.nan, np.nan)
            rows[name] = {"median error": median, "80 % within": most, "measured / predicted, by seed": ratios}
            word: Word = "contradicted" if median > 0.15 else "inconclusive"
            if len(errors) < 3 * len(ratios):  # most runs must show at least three drops
                word = "unfinished"
            elif median <= 0.05 and most <= 0.2:
                word = "reproduced"
            words.append(word)
        return Outcome(rows, worst(*words), len(data[names[0]]))

    return judge


def example() -> Data:
    runs = [separate_run(seed) for seed in range(6)]
    return {"finite": runs, "population": runs, "per_head": runs}


def wrong_times(*names: str):
    """Counter-examples to predicted drop times."""
    return (
        *(spoiled(f"drops a fifth later ({name})", scaled_time(1.2), name) for name in names),
        spoiled("one head in four learns half as fast", changed_weights(lambda n, w: _delayed(w)), names[0]),
        NAN_WEIGHTS,
        ZERO_WEIGHTS,
    )


def _delayed(array: np.ndarray) -> np.ndarray:
    """The weights of head 1 as they were at half the record."""
    late = array.copy()
    late[1:, 1] = array[(np.arange(1, len(array)) + 1) // 2, 1]
    return late


FIGURE = Figure(
    id="fig3b",
    title="value weights grow one after the other, as the scalar equation says",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "heights", "Each grown head ends at v_i = [g λ_i (1 + (1 + tr Λ/λ_i)/N)]^(-1/3) (20), g the factor of the sum over tokens.",
            ", ".join(f"{v:.4f}" for v in saddle_weights(eigenvalues(4), CONTEXT, gain=GAIN)),
            "2 % for all four heads of a run (per_head, init 1e-2, trained to the end), more than half of the seeds", heights, source="theory",
            reason="v² − ‖k‖² is conserved: of order init² = 1e-4 against v² = 0.17 and more; two heads that share an eigenvector are the exception",
            counterexamples=(
                spoiled("values 3 % larger", changed_weights(lambda n, w: 1.03 * w if n == "value" else w), "per_head"),
                spoiled("a head missing in half of the runs", changed_weights(lambda n, w: w * np.append(np.ones(w.shape[1] - 3), [0, 1, 1]).reshape(-1, *[1] * (w.ndim - 2))), "per_head", half=True),
                ZERO_WEIGHTS, RANDOM_WEIGHTS, NAN_WEIGHTS,
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "drop_times", "The drops come when (21) says, started from v_0 derived from each head's initial weights.",
            "measured / predicted = 1", "median error 5 %, 80 % of drops within 20 %, for entries and per_head (P = ∞)",
            drop_times("population", "per_head"), source="theory",
            reason="leading order in init 1e-2: the first drop to a per cent, later ones by what the heads do to each other",
            counterexamples=wrong_times("population", "per_head"),
        ),
        Claim(
            "drop_times_finite", "The same with 80000 prompts instead of infinitely many.",
            "measured / predicted = 1", "median error 5 %, 80 % of drops within 20 % (entries)", drop_times("finite"), source="theory",
            reason="as with infinitely many: sampling moves the force on an eigenvector by a per cent or so",
            counterexamples=wrong_times("finite"),
        ),
    ),
    choices=(
        Choice(
            "which drops are judged", "drops of the loss curve, per_head, six seeds; a run without exactly four was left out; reproduced or contradicted, nothing between",
            "median error 1.2 % (P = ∞) and 2.2 % (80000), seed 2 left out of the second; with seeds 0 to 2 alone the verdict was contradicted",
            "times at which the weights reach half of a drop, no run left out; entries and per_head; three steps; tolerances as they were",
        ),
        Choice("seeds of heights", "6", "5 of 6 within 2 % (seed 2: 2.4 %)", "24, as in all of figure 3; the tolerance as it was (11 of 12 with the first twelve)"),
    ),
    planned=PLANNED,
    setup="the runs of fig3a with entries, the same with P=∞, and per_head with P=∞ over 40001 steps; theory: drop_sequence from the initial weights, (21) for each new head",
    cost="5 s on 2 cores beyond fig3a",
    seeds=24,
)  # fmt: skip
