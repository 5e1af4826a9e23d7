"""Noise on the labels: the formulas hold, and a little of the gap is mended by the labels' own energy."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...models.lsa import LSA
from ...theory.xie2025 import Law, bayes_loss, best_loss, gd_step, minimal_heads, optimum
from ..base import Choice, Claim, Counterexample, Data, Figure, Outcome
from ..judging import SHARE_SEEDS
from ..lab import Lab
from .examples import a_nan, changed, counter, exact_example, plus, times
from .judges import judge_cells, judge_optima, judge_together
from .setup import COLORS, CONTEXT, DIM, YQ, exact_losses, paper_task

NORM = 3.0
NOISES = (0.0, 0.25, 1.0, 4.0, 10.0)
STRONG, LARGE = 10.0, (10.0, 18.0)  # a noise, and norms of w* below and above where d heads stop sufficing (12.1)
CLOSE = 1e-3
MODELS, MODEL_NAMES = (YQ, LSA(DIM), LSA(DIM + 1)), ("yq", "d", "d+1")


def collect(lab: Lab) -> Data:
    weak = exact_losses(lab, "noise", "noise", {noise: paper_task(NORM, noise=noise) for noise in NOISES}, MODELS)
    strong = exact_losses(lab, "strong_noise", "norm", {m: paper_task(m, noise=STRONG) for m in LARGE}, MODELS[1:])
    return {
        "loss": weak.assign_coords(member=list(MODEL_NAMES)),
        "strong": strong.assign_coords(member=list(MODEL_NAMES[1:])),
    }


def example() -> Data:
    weak = {noise: printed(noise)[[0, 1, 1]] for noise in NOISES}
    strong = {m: np.array([best_loss(law(STRONG, m), h).loss for h in (DIM, DIM + 1)]) for m in LARGE}
    return {"loss": exact_example("noise", weak, MODEL_NAMES), "strong": exact_example("norm", strong, MODEL_NAMES[1:])}


def law(noise: float, norm: float = NORM) -> Law:
    return Law.isotropic(DIM, CONTEXT, norm, noise)


def printed(noise: float) -> np.ndarray:
    """Losses of yq-LSA and of many heads, the formulas written out here once more, without `theory`'s code."""
    step = DIM * (DIM + 1 + noise) / (CONTEXT + DIM + 1 + noise)
    c = np.array([DIM, DIM + noise])
    first = DIM**2 + 2 * DIM / CONTEXT
    gamma = np.array(
        [[first, first + noise * DIM], [first + noise * DIM, ((DIM + noise) ** 2 + 2 * DIM) * (1 + 2 / CONTEXT)]]
    )
    return np.array([step, step + NORM**2 * (1 - c @ np.linalg.solve(gamma, c))])


def draw(data: Data):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.1))
    yq, d_heads, more = data["loss"].isel(seed=0).transpose("member", "noise").values
    fine = np.linspace(0, 10.5, 50)
    best = [optimum(law(float(v))) for v in fine]
    left.plot(
        fine, [gd_step(law(float(v))).loss for v in fine], color=COLORS["zero"], ls="--", label="gradient step from 0"
    )
    left.plot(fine, [b.loss for b in best], color=COLORS["heads"], label="LSA, $H > d$ heads")
    left.plot(fine, [b.step_loss for b in best], color=COLORS["yq"], label="yq-LSA = gradient step from $w^*$")
    left.plot(
        fine[1:], [bayes_loss(law(float(v))).loss for v in fine[1:]], color=COLORS["bayes"], ls="-.", label="Bayes"
    )
    left.plot(NOISES, more, "s", color=COLORS["heads"], mfc="white", ms=7)
    left.plot(NOISES, yq, "o", color=COLORS["yq"], mfc="white", ms=7, label="exact training")
    left.set(xlabel=r"noise variance $\sigma^2$", ylabel="loss", ylim=(0, None))
    left.legend(fontsize=9)
    right.plot(fine, [b.gap for b in best], color=COLORS["heads"], label="formula")
    right.plot(
        NOISES,
        more - yq,
        "s",
        color=COLORS["heads"],
        mfc="white",
        ms=7,
        label="exact training, $d+1$ heads",
    )
    right.plot(NOISES, d_heads - yq, "+", color="black", ms=9, label="exact training, $d$ heads")
    right.set(xlabel=r"noise variance $\sigma^2$", ylabel="gap of multi-head LSA to yq-LSA")
    right.legend(fontsize=9)
    return figure


def formulas(data: Data) -> Outcome:
    table = np.stack([printed(noise) for noise in NOISES])
    best = xr.DataArray(table, dims=("noise", "member"), coords={"noise": list(NOISES), "member": ["yq", "d+1"]})
    return judge_optima(data["loss"].sel(member=["yq", "d+1"]), best, 1e-4)


def heads_needed(data: Data) -> Outcome:
    """d heads at the optimum where theory says that they suffice, above it by the predicted excess where not."""
    cases = [(law(noise), data["loss"].sel(noise=noise)) for noise in NOISES]
    cases += [(law(STRONG, m), data["strong"].sel(norm=m)) for m in LARGE]
    parts, told = [], {}
    for case, loss in cases:
        best, needed = optimum(case).loss, minimal_heads(case)
        excess, more = loss.sel(member="d") - best, loss.sel(member="d+1") - best
        predicted = max(best_loss(case, DIM).loss - best, 1e-12)
        name = f"m = {np.linalg.norm(case.mean):.3g}, σ² = {case.noise:g}"
        told[name] = (
            f"{needed} heads by theory; {DIM} leave {float(excess.min()):.2g} … {float(excess.max()):.2g}, predicted {predicted:.2g}"
        )
        short = (np.abs(excess / predicted - 1) < 0.1) & (more < 0.1 * predicted)
        passed = excess < CLOSE if needed <= DIM else short
        parts.append(judge_cells(passed, told, finite=excess + more))
    return judge_together(told, parts)


def _gd_noise(data: Data) -> Data:
    """The formulas with σ² where they have 2σ² would move yq-LSA by this much."""
    off = {noise: printed(2 * noise)[0] / printed(noise)[0] for noise in NOISES}
    return changed(
        data,
        "loss",
        lambda a: a * xr.DataArray(list(off.values()), dims="noise", coords={"noise": list(NOISES)}),
        member="yq",
    )


FIGURE = Figure(
    id="fig_noise",
    title="noise on the labels",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "formulas", "With label noise yq-LSA reaches d(d+1+σ²)/(C+d+1+σ²), many heads that and m²(1 − cᵀΓ⁻¹c).", "the formulas", "relative 1e-4 above in every seed, never below", formulas, source="theory", before=False,
            reason="what noise mends of the gap is 5e-4 of the loss at σ² = 10; a loss below would refute a formula",
            counterexamples=(
                Counterexample("σ² twice as large in the formula", _gd_noise), counter("d+1 heads keep the noiseless gap at σ² = 10", "loss", plus(0.17647 - optimum(law(10.0)).gap), member="d+1", noise=10.0),
                counter("one seed below", "loss", times(0.999), member="d+1", noise=1.0, seed=5), a_nan("loss", member="yq", noise=0.25, seed=0),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "heads_needed", "d heads still reach the optimum while 4κ(F⁻¹Δ)ᵀX(F⁻¹Δ) ≤ 1; with σ² = 10 and ‖w*‖ = 18 they do not, and d+1 do.",
            "excess of d heads 0 where theory says d, 0.0263 at σ² = 10, ‖w*‖ = 18", "1e-3 for the zeros; 10 % of the excess, in every seed; d+1 heads below a tenth of it", heads_needed, source="ours", before=False,
            reason="1e-3 is 4 % of the excess; training with large weights may stop 6 % short",
            counterexamples=(
                counter("d heads suffice at ‖w*‖ = 18", "strong", lambda a: a * 0 + optimum(law(STRONG, 18.0)).loss, member="d", norm=18.0),
                counter("excess of rounding size", "strong", lambda a: a * 0 + optimum(law(STRONG, 18.0)).loss + 1e-12, member="d", norm=18.0),
                counter("d+1 heads do not suffice either", "strong", plus(0.02), member="d+1", norm=18.0), counter("d heads do not suffice at σ² = 4", "loss", plus(2e-3), member="d", noise=4.0),
                a_nan("strong", member="d", norm=18.0, seed=0),
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice("formulas", "1e-3; 1e-4", "8e-12 to 3e-7 seen; 1e-3 cannot tell the gap with noise from the one without", "1e-4"),
        Choice(
            "heads_needed", "five noises at ‖w*‖ = 3, where theory says d heads everywhere, and 'excess above 0' otherwise; ‖w*‖ = 10, 18 (and 24) at σ² = 10 added",
            "reproduced without ever meeting a case that needs d+1; in a pilot on seeds 100 to 105 d heads stay 0.0263 to 0.0278 above at ‖w*‖ = 18 (predicted 0.0263), d+1 heads below 0.0008; at 24 training does not finish", "‖w*‖ = 10 and 18, with the excess itself judged",
        ),
        Choice("seeds of exact training", "seed 0; the seeds of the figure", "the same verdicts for seed 0", "all seeds"),
    ),
    setup="d = C = 10, ‖w*‖ = 3, σ² = 0 … 10; yq-LSA, d and d+1 heads trained on the exact loss, every seed; again d and d+1 heads at σ² = 10, ‖w*‖ = 10 and 18",
    cost="30 s on 2 cores",
)  # fmt: skip
