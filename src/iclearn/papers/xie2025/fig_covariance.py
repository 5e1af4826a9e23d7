"""Anisotropic inputs and priors: the general formula, and when yq-LSA is more than plain gradient descent."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from scipy.optimize import brentq

from ...models.lsa import LSA
from ...tasks import Covariance, LinearRegression
from ...theory.xie2025 import gd_step, one_direction_loss, optimum
from ..base import Choice, Claim, Counterexample, Data, Figure, Outcome, judge_seeds
from ..judging import SHARE_SEEDS
from ..lab import Lab
from .examples import SEEDS, a_nan, changed, counter, exact_example, plus, times
from .judges import judge_cells, judge_near_one, judge_optima
from .setup import COLORS, CONTEXT, DIM, STAGES, YQ, exact_losses, law_of, paper_task, train_exactly

NORM = 3.0


def spectrum(fold: float) -> tuple[float, ...]:
    """Geometric, mean 1, the largest `fold` times the smallest."""
    values = np.geomspace(1 / np.sqrt(fold), np.sqrt(fold), DIM)
    return tuple(values / values.mean())


def matched_prior(inputs: tuple[float, ...]) -> tuple[float, ...]:
    """The Σ for which plain gradient descent is optimal though Λ is not white: Σ ∝ (I − η(1+1/C)Λ)⁻¹.

    F = ηI asks σ = η t/(C (1 − η(1+1/C)λ)) with t = Σ λσ, which fixes η; the scale of Σ is free.
    """
    values = np.array(inputs)
    slope = 1 + 1 / CONTEXT

    def self_consistent(step: float) -> float:
        return step / CONTEXT * float(np.sum(values / (1 - step * slope * values))) - 1

    step = brentq(self_consistent, 1e-9, (1 - 1e-9) / (slope * values.max()))
    prior = 1 / (1 - step * slope * values)  # type: ignore[operator]
    return tuple(prior / prior.mean())


WIDE, MILD = spectrum(16.0), spectrum(4.0)
CASES = {
    "Λ = Σ = I": (None, None),
    "Λ spread": (WIDE, None),
    "Σ spread": (None, WIDE),
    "Σ = Λ": (WIDE, WIDE),
    "Σ ∝ Λ⁻¹": (WIDE, tuple(1 / np.array(WIDE))),
    "Σ matched": (MILD, matched_prior(MILD)),
}
EVEN = ("Λ = Σ = I", "Σ matched")  # where the best step is a plain one
SECOND = (WIDE, matched_prior(WIDE))  # one direction holds 62 % of tr ΛΣ: a second minimum


def task_of(inputs: tuple[float, ...] | None, prior: tuple[float, ...] | None) -> LinearRegression:
    """The paper's task with these spectra, one eigenbasis, which a random rotation of w* makes generic."""
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))[0]

    def covariance(values: tuple[float, ...] | None) -> Covariance:
        spectrum = np.ones(DIM) if values is None else np.array(values)
        matrix = (rotation * spectrum) @ rotation.T
        return Covariance.matrix((matrix + matrix.T) / 2)

    return paper_task(NORM).replace(covariance=covariance(inputs), prior_covariance=covariance(prior))


def case_task(name: str) -> LinearRegression:
    return task_of(*CASES[name])


def collect(lab: Lab) -> Data:
    loss = exact_losses(lab, "covariance", "case", {name: case_task(name) for name in CASES}, (YQ, LSA(DIM)))

    def compute() -> xr.Dataset:
        losses, models = train_exactly(task_of(*SECOND), YQ, lab.seeds)
        p = np.asarray(models.p)[:, 0, 0]
        return xr.Dataset(
            {"loss": ("seed", losses), "label_share": ("seed", np.abs(p[:, -1]) / np.linalg.norm(p, axis=1))}
        )

    parameters = {"task": task_of(*SECOND).to_dict(), "stages": STAGES, "seeds": lab.num_seeds}
    return {
        "loss": loss.assign_coords(member=["yq", "d"]),
        "second": lab.dataset("second_minimum", parameters, compute),
    }


def example() -> Data:
    loss = exact_example("case", dict(zip(CASES, theory()[:, :2], strict=True)), ("yq", "d"))
    law, caught = law_of(task_of(*SECOND)), np.arange(SEEDS) % 2 == 0
    losses = np.where(caught, one_direction_loss(law), optimum(law).step_loss) * (1 + 1e-8)
    return {
        "loss": loss,
        "second": xr.Dataset({"loss": ("seed", losses), "label_share": ("seed", np.where(caught, 1e-6, 0.4))}),
    }


def theory() -> np.ndarray:
    """(case, [step_loss, optimum, plain gradient step from w*])"""
    rows = []
    for name in CASES:
        law = law_of(case_task(name))
        best = optimum(law)
        rows.append([best.step_loss, best.loss, gd_step(law, law.mean).loss])
    return np.array(rows)


def by_case(values: np.ndarray) -> xr.DataArray:
    return xr.DataArray(values, dims="case", coords={"case": list(CASES)})


def draw(data: Data):
    figure, ax = plt.subplots(figsize=(9, 4.3))
    expected, loss = theory(), data["loss"].isel(seed=0).values
    x = np.arange(len(CASES))
    for i, (level, label, color) in enumerate((
        (expected[:, 2], "plain gradient step from $w^*$", "black"), (expected[:, 0], "formula, yq-LSA", COLORS["yq"]),
        (expected[:, 1], "formula, $d$ heads", COLORS["heads"]),
    )):  # fmt: skip
        ax.hlines(level, x - 0.32, x + 0.32, color=color, ls=("-", "--", ":")[i], label=label)
    ax.plot(x - 0.1, loss[:, 0], "o", color=COLORS["yq"], mfc="white", ms=8, label="yq-LSA, exact training")
    ax.plot(x + 0.1, loss[:, 1], "s", color=COLORS["heads"], mfc="white", ms=8, label="$d$ heads, exact training")
    ax.set_xticks(x, list(CASES))
    ax.set(ylabel="loss", ylim=(4, 7.6))
    ax.legend(fontsize=9, ncols=2, loc="upper left")
    return figure


def formula(data: Data) -> Outcome:
    best = xr.DataArray(theory()[:, :2], dims=("case", "member"), coords={"case": list(CASES), "member": ["yq", "d"]})
    return judge_optima(data["loss"], best, 1e-3)


def gaps() -> xr.DataArray:
    """2w*ᵀΛw*/(Cd+2) of every case."""
    laws = [law_of(case_task(name)) for name in CASES]
    return by_case(np.array([2 * law.mean @ law.inputs @ law.mean / (CONTEXT * DIM + 2) for law in laws]))


def same_gap(data: Data) -> Outcome:
    loss = data["loss"]
    return judge_near_one((loss.sel(member="d") - loss.sel(member="yq")) / gaps(), 0.03, "gap over 2w*ᵀΛw*/(Cd+2)")


def beats_descent(data: Data) -> Outcome:
    gains = 1 - data["loss"].sel(member="yq") / by_case(theory()[:, 2])
    even = by_case(np.array([name in EVEN for name in CASES]))
    told = {"share of the plain step's loss saved": dict(zip(CASES, gains.mean("seed").values, strict=True))}
    return judge_cells(xr.where(even, np.abs(gains) < 1e-4, gains > 0.005), told, finite=gains)


def _plain(data: Data) -> Data:
    """As if yq-LSA were the plain gradient step in every case."""
    return changed(data, "loss", lambda a: a * 0 + by_case(theory()[:, 2]), member="yq")


def caught(data: Data) -> Outcome:
    """Every seed ends at the formula, or at the second minimum with p_y = 0; and there are seeds of both kinds."""
    law, second = law_of(task_of(*SECOND)), data["second"]
    losses, share = second["loss"].values, second["label_share"].values
    best, other = optimum(law).step_loss, one_direction_loss(law)
    there = (np.abs(losses / other - 1) < 1e-4) & (share < 1e-3)
    free = (losses / best - 1 < 1e-4) & (losses / best - 1 > -1e-9)
    told = {
        "caught": f"{there.sum()} of {len(there)} seeds",
        "losses": losses,
        "formula": best,
        "second minimum": other,
    }
    outcome = judge_seeds(list(there | free), told)
    if outcome.verdict == "reproduced" and not (there.any() and free.any()):
        return Outcome(told, "inconclusive", outcome.seeds)
    return outcome


FIGURE = Figure(
    id="fig_covariance",
    title="anisotropic inputs and priors",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "formula", "Exact training ends at the general formula for any Λ and Σ.", "tr ΛΣ − tr(ΛFΛΣ) + 2w*ᵀΛw*/(Cd+2)", "relative 1e-3 above in every seed, never below", formula, source="theory",
            before=False, reason="a loss below would refute the formula; above, training may stop short; the plain gradient step is 2 % and more above",
            counterexamples=(Counterexample("yq-LSA is the plain gradient step", _plain), counter("one seed below, one case", "loss", times(0.999), case="Σ = Λ", member="d", seed=1), a_nan("loss", case="Σ spread", member="yq", seed=0)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "gap", "The gap of d heads to yq-LSA is 2w*ᵀΛw*/(Cd+2): it does not depend on Σ.", "ratio 1", "3 % in every seed", same_gap, source="ours", before=False, reason="the gap is 0.18 in a loss of 5, and training leaves 1e-4 of the loss where Λ is spread",
            counterexamples=(
                Counterexample("w*ᵀw* instead of w*ᵀΛw*", lambda data: changed(data, "loss", lambda a: a + 2 * NORM**2 / (CONTEXT * DIM + 2) - gaps(), member="d")),
                counter("gap 5 % larger where Σ is spread", "loss", lambda a: a + 0.05 * gaps().sel(case="Σ spread"), case="Σ spread", member="d"), a_nan("loss", case="Σ = Λ", member="d", seed=0),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "beats_descent", "yq-LSA is a gradient step preconditioned by F = ΣΛR⁻¹ and beats the best plain step from w*, except where F ∝ I: at Λ, Σ ∝ I, and for the one Σ ∝ (I − η(1+1/C)Λ)⁻¹ that fits Λ.",
            "gain 0 there, above 0.5 % in the other cases", "1e-4 for the zeros, in every seed", beats_descent, source="ours", before=False, reason="the smallest other gain is 2 %",
            counterexamples=(Counterexample("yq-LSA is the plain gradient step", _plain), counter("a gain of 0.1 % with the matched prior", "loss", times(0.999), case="Σ matched", member="yq"), a_nan("loss", case="Σ spread", member="yq", seed=0)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "caught", "Where one direction holds more than half of tr ΛΣ, training of yq-LSA has a second minimum: the head reads that direction of the inputs only (p_y = 0), 45 % above the formula.", "every seed at the formula or there, some at each", "1e-4 of either loss; |p_y| below 1e-3 of ‖p‖", caught, source="ours", before=False,
            reason="both losses are exact; at that point the Hessian has no negative eigenvalue, while in the other cases, where no direction holds half, it has",
            counterexamples=(
                counter("a second level 1 % higher", "second/loss", times(1.01), seed=[0, 2, 4]), counter("no seed caught", "second/loss", lambda a: a * 0 + optimum(law_of(task_of(*SECOND))).step_loss),
                counter("caught heads read the labels", "second/label_share", plus(0.1)), a_nan("second/loss", seed=0),
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice(
            "the matched prior", "Λ spread 16-fold, seed 0; six seeds; Λ spread 4-fold", "reproduced; four of six seeds of yq-LSA caught in another minimum, formula, gap and beats_descent inconclusive; by its Hessian that minimum is a saddle for spreads up to 8-fold",
            "4-fold for the matched prior, where no second minimum is; the 16-fold one judged for what it is (caught)",
        ),
        Choice("seeds of exact training", "seed 0; the seeds of the figure", "the same verdicts for seed 0, except with the matched prior", "all seeds"),
    ),
    setup="d = C = 10, ‖w*‖ = 3, one random eigenbasis; spectrum spread: geometric, mean 1, 16-fold (4-fold with the matched prior); yq-LSA and d heads trained on the exact loss, every seed; yq-LSA again with the matched prior of a 16-fold spread",
    cost="20 s on 2 cores",
)  # fmt: skip
