"""Figure 3b: the value weights of the heads, and the scalar equation (21)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...probes.plateaus import find_plateaus
from ...theory.zhang2025 import saddle_weights
from ..base import Claim, Data, Figure, Outcome, judge_seeds, judge_true
from ..lab import Lab
from .fig3a import PAPER_STEPS, RECORD, STEPS, theory_of
from .fig3a import recipes as finite_recipes
from .setup import CONTEXT, GAIN, eigenvalues, public_task, separate_recipe


def collect(lab: Lab) -> Data:
    exact = public_task(prompts=None)
    return {
        "finite": lab.run(finite_recipes(lab)),
        "population": lab.run(
            [separate_recipe(seed, exact, heads=5, init=1e-2, steps=STEPS, record=RECORD) for seed in lab.seeds]
        ),
    }


def values_of(trace) -> np.ndarray:
    """|v_h| over records."""
    return np.abs(trace.data["weight_value"].values[:, :, 0, -1])


def draw(data: Data):
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.9), sharey=True)
    final = saddle_weights(eigenvalues(4), CONTEXT, gain=GAIN)
    for ax, name, title in zip(
        axes, ("finite", "population"), ("80000 prompts", "infinitely many prompts"), strict=True
    ):
        trace = data[name][0]
        theory = theory_of(trace)
        predicted = np.abs(theory["weight_value"].values[:, :, 0, 0])
        for h in range(5):
            ax.semilogx(
                trace.data["record"] + 1,
                values_of(trace)[:, h],
                color="0.55",
                lw=2.8,
                label="head (training)" if h == 0 else None,
            )
            ax.semilogx(
                theory["record"] + 1,
                predicted[:, h],
                color="black",
                ls="--",
                lw=1.2,
                label="equation (21)" if h == 0 else None,
            )
        for i, level in enumerate(final):
            ax.axhline(level, color="0.5", ls=":", lw=1, zorder=0)
            ax.annotate(rf"$v_{i + 1}$", (1.01, level), xycoords=("axes fraction", "data"), va="center", fontsize=9)
        ax.axvline(PAPER_STEPS, color="0.3", lw=0.8)
        ax.set(xlabel="step (logarithmic)", title=f"{title}, seed 0", xlim=(30, STEPS), ylim=(0, 0.7))
    axes[0].set_ylabel("value weight $|v|$ of each head")
    axes[0].legend(loc="center left")
    return figure


def heights(data: Data) -> Outcome:
    expected = np.sort(saddle_weights(eigenvalues(4), CONTEXT, gain=GAIN))
    gaps = [float(np.max(np.abs(np.sort(values_of(t)[-1])[-4:] / expected - 1))) for t in data["population"]]
    return judge_seeds([gap < 0.02 for gap in gaps], {"largest relative difference": gaps})


def drop_ratios(traces) -> np.ndarray:
    """Measured over predicted time of each drop, by seed; NaN where a drop is missing."""
    rows = []
    for trace in traces:
        measured = find_plateaus(trace).drop_times
        predicted = theory_of(trace)["drop_time"].values
        rows.append(measured / predicted if len(measured) == len(predicted) else np.full(4, np.nan))
    return np.array(rows)


def drop_times(name: str):
    """Half of all drops within 5 % of their predicted time, and four fifths within 20 %."""

    def judge(data: Data) -> Outcome:
        ratios = drop_ratios(data[name])
        errors = np.abs(ratios[np.isfinite(ratios)] - 1)
        if errors.size < ratios.size / 2:
            return Outcome({"drops matched": int(errors.size)}, "inconclusive", len(ratios))
        median, most = float(np.median(errors)), float(np.quantile(errors, 0.8))
        measured = {"median error": median, "80 % within": most, "measured / predicted, by seed": ratios.round(3)}
        return judge_true(median <= 0.05 and most <= 0.2, measured, seeds=len(ratios))

    return judge


FIGURE = Figure(
    id="fig3b",
    title="value weights grow one after the other, as the scalar equation says",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "heights", "Each grown head ends at v_i = [g λ_i (1 + (1 + tr Λ/λ_i)/N)]^(-1/3) (20), g the factor of the sum over tokens.",
            ", ".join(f"{v:.4f}" for v in saddle_weights(eigenvalues(4), CONTEXT, gain=GAIN)),
            "2 % from init 1e-2 (what conservation of v² − ‖k‖² leaves)", heights, source="theory",
        ),
        Claim(
            "drop_times", "The drops come when (21) says, started from v_0 derived from each head's initial weights.",
            "measured / predicted = 1", "median error 5 %, 80 % of drops within 20 %: leading order in init 1e-2", drop_times("population"), source="theory",
        ),
        Claim(
            "drop_times_finite", "The same with 80000 prompts instead of infinitely many.",
            "measured / predicted = 1", "as with infinitely many: sampling moves the force on an eigenvector by a per cent or so",
            drop_times("finite"), source="theory",
        ),
    ),
    setup="the runs of fig3a, and the same with P=∞; theory: drop_sequence from the initial weights, (21) for each new head",
    cost="10 s on 2 cores",
)  # fmt: skip
