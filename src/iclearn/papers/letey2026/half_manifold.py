"""Tasks on half of the directions (fig1): the transition sits at κ = rank/d, and unreachable directions leave a floor."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...theory.diversity import structured_errors, task_spectrum
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import MEAN_SEEDS, SHARE_SEEDS, Outcome, judge_each, judge_seeds
from ..lab import Lab
from ..lu2025.setup import Sizes
from ..perturbing import a_nan, counter, plus, times
from .setup import NOISE, dims_of, draws, published, sizes_table, trained_errors
from .size_order import falling_as, judge_approach

DIM, ALPHA, TAU = 80, 80.0, 80.0
KAPPAS = tuple(np.round(np.arange(0.1, 2.2001, 0.05), 3).tolist())
LAWS = ("matched", "isotropic", "power", "reversed", "spike")
TITLES = {
    "matched": "as in training", "isotropic": "isotropic", "power": r"$t_j \propto j^{-1/2}$",
    "reversed": "the same, reversed", "spike": "one direction of training",
}  # fmt: skip
RANKS = (0.25, 0.5, 0.75)
DIMS, JUDGED = (8, 12, 16, 24), (1.0, 2.0)
ORDER = 2.0  # κ
CURVE_DIM = 20
CURVE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0)
PRINTED = {0.4: (0.2200, 0.6249), 0.5: (0.0566, 0.5441), 0.6: (0.0211, 0.5267), 1.0: (0.0168, 0.5246)}
NEAR = 0.1  # of the transition to rank/d, in units of rank/d


def laws(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """(dim) c_j, flat on the first half, and (law, dim) t_j of the five laws of new tasks."""
    train, power = task_spectrum(f"flat:{dim // 2}", dim), task_spectrum("power:0.5", dim)
    return train, np.stack([train, np.ones(dim), power, power[::-1], task_spectrum("spike:1", dim)])


def theory_table() -> xr.Dataset:
    """The five errors against κ, and the matched error for tasks on a quarter, half and three quarters of the directions."""
    train, tests = laws(DIM)
    kappas = np.array(KAPPAS)
    found = structured_errors(train, tests, ALPHA, kappas[:, None], TAU, NOISE).icl
    ranks = np.stack([task_spectrum(f"flat:{round(share * DIM)}", DIM) for share in RANKS])
    matched = structured_errors(ranks, ranks, ALPHA, kappas[:, None], TAU, NOISE)
    return xr.Dataset(
        {"icl": (("kappa", "law"), found), "gap": (("kappa", "rank"), matched.icl - matched.idg)},
        {"kappa": list(KAPPAS), "law": list(LAWS), "rank": list(RANKS)},
    )


def simulate(kappas: tuple[float, ...]):
    def at(dim: int, seed: int) -> np.ndarray:
        train, tests = laws(dim)
        return np.stack([trained_errors(train, tests, Sizes.near(dim, ALPHA, k, TAU), seed)[0] for k in kappas])

    return at


def predict(dim: int) -> np.ndarray:
    train, tests = laws(dim)
    return structured_errors(train, tests, ALPHA, np.array(JUDGED)[:, None], TAU, NOISE).icl


def collect(lab: Lab) -> Data:
    dims, large = dims_of(lab, DIMS), dims_of(lab, (CURVE_DIM,))[-1]
    drawn, curve = (
        draws(lab, name, sizes, simulate(kappas), {"kappa": list(kappas), "law": list(LAWS)}, version=1)
        for name, sizes, kappas in (("half", dims, JUDGED), ("half-curve", (large,), CURVE))
    )
    found: dict[str, Any] = {
        "theory": theory_table(),
        "sizes": sizes_table(drawn, predict),
        "curve": curve[large].assign_coords(dim=large),
    }
    runs = published(lab)
    if runs:
        axes = {"kappa": runs["half_kappa"], "law": list(LAWS)}
        found["published"] = xr.DataArray(runs["half_icl_mean"], axes, tuple(axes))
    return found


def example() -> Data:
    axes = {"kappa": list(CURVE), "law": list(LAWS)}
    limit = np.stack([predict(dim) for dim in DIMS])
    sizes = xr.DataArray(limit, {"dim": list(DIMS), "kappa": list(JUDGED), "law": list(LAWS)}, ("dim", "kappa", "law"))
    train, tests = laws(CURVE_DIM)
    curve = structured_errors(train, tests, ALPHA, np.array(CURVE)[:, None], TAU, NOISE).icl
    drawn = curve * (1 + 0.02 * np.arange(6))[:, None, None]
    return {
        "theory": theory_table(), "sizes": falling_as(sizes, DIMS),
        "curve": xr.Dataset({"error": (("seed", *axes), drawn)}, {"seed": np.arange(6), **axes, "dim": CURVE_DIM}),
    }  # fmt: skip


def kink(kappas: np.ndarray, values: np.ndarray, rank: float) -> float:
    """Where the line through the values below the transition comes down to the value at the largest κ.

    As α, τ → ∞ the matched gap is a straight line in κ down to zero at κ = rank/d and zero beyond; the line is fitted to
    κ ≤ .8 rank/d.
    """
    below = kappas <= 0.8 * rank + 1e-9
    slope, start = np.polyfit(kappas[below], values[below], 1)
    return float((values[-1] - start) / slope)


def draw(data: Data):
    theory, curve = data["theory"], data["curve"]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14.5, 4.4), layout="constrained")
    mean, spread = curve["error"].mean("seed"), curve["error"].std("seed", ddof=1)
    for color, law in enumerate(LAWS, 1):
        left.semilogy(
            theory["kappa"],
            theory["icl"].sel(law=law),
            color=f"C{color}",
            ls="--" if law == "spike" else "-",
            label=TITLES[law],
        )
        left.errorbar(
            curve["kappa"], mean.sel(law=law), spread.sel(law=law), fmt="o", ms=4, color=f"C{color}", mfc="white", capsize=2
        )  # fmt: skip
        if "published" in data:
            left.plot(data["published"]["kappa"], data["published"].sel(law=law), "+", color=f"C{color}", ms=7)
    left.axvline(0.5, color="0.7", lw=1, ls=":")
    beside = "; +: the authors', $d$ = 80" if "published" in data else ""
    dim = int(curve["dim"])
    left.set(xlabel=r"tasks per dimension $\kappa$", ylabel="error on new tasks", xlim=(0, 2.25), ylim=(0.012, 9))
    left.set_title(f"lines: theory; circles: trained, $d$ = {dim}{beside}", fontsize=10)
    left.set_yticks([0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5], ["0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"])
    left.minorticks_off()
    left.legend(fontsize=8.5, loc="upper right", ncols=2, title="new tasks")
    for color, share in enumerate(RANKS, 1):
        gap = theory["gap"].sel(rank=share)
        middle.plot(gap["kappa"], gap, color=f"C{color}", label=f"rank/$d$ = {share:g}")
        middle.axvline(share, color=f"C{color}", lw=1, ls=":")
    middle.set(xlabel=r"tasks per dimension $\kappa$", ylabel=r"$e_{ICL} - e_{IDG}$, new tasks as in training")
    middle.set_title("the transition sits at rank/$d$ (dotted)", fontsize=10)
    middle.set(xlim=(0, 1.25), ylim=(0, None))
    middle.legend(fontsize=9)
    sizes = data["sizes"]
    excess = sizes["mean"] / sizes["theory"] - 1
    for color, law in enumerate(("matched", "isotropic"), 1):
        for kappa, marker in zip(sizes["kappa"].values, "osD", strict=False):
            point = {"law": law, "kappa": kappa}
            error = (sizes["error"] / sizes["theory"]).sel(point)
            right.errorbar(
                1 / sizes["dim"], 100 * excess.sel(point), 100 * error, fmt=f"{marker}-", ms=4, lw=1, capsize=2,
                color=f"C{color}", mfc="white", label=f"{TITLES[law]}, $\\kappa$ = {kappa:g}",
            )  # fmt: skip
    right.axhline(0, color="0.6", lw=1)
    right.set(xlabel="1/$d$", ylabel="excess over theory, %", xlim=(0, None))
    right.set_title("training comes to the theory as $1/d$", fontsize=10)
    right.legend(fontsize=8)
    return figure


def numbers(data: Data) -> Outcome:
    found = {k: data["theory"]["icl"].sel(kappa=k, law=["matched", "isotropic"]).values for k in PRINTED}
    off = {k: float(np.abs(found[k] - PRINTED[k]).max()) for k in PRINTED}
    return judge_each(
        [error <= 5.1e-5 for error in off.values()], {str(k): v.round(4).tolist() for k, v in found.items()}
    )


def transition(data: Data) -> Outcome:
    gap = data["theory"]["gap"]
    at = {float(r): kink(gap["kappa"].values, gap.sel(rank=r).values, r) for r in gap["rank"].values}
    return judge_each(
        [abs(where / r - 1) <= NEAR for r, where in at.items()], {str(r): round(v, 4) for r, v in at.items()}
    )


def trained_transition(data: Data) -> Outcome:
    errors = data["curve"]["error"].sel(law="matched").transpose("seed", "kappa")
    at = [kink(errors["kappa"].values, row, 0.5) for row in errors.values]
    return judge_seeds([abs(where / 0.5 - 1) <= 2 * NEAR for where in at], [round(v, 3) for v in at])


def floor(data: Data) -> Outcome:
    theory = data["theory"]["icl"].sel(kappa=KAPPAS[-1])
    errors = data["curve"]["error"].sel(kappa=CURVE[-1])
    told = {"theory": [float(theory.sel(law=law)) for law in ("isotropic", "matched")], "trained, mean": [float(errors.sel(law=law).mean()) for law in ("isotropic", "matched")]}  # fmt: skip
    if not 0.5 + NOISE <= told["theory"][0] <= 0.55 or told["theory"][1] > 0.03:
        return Outcome(told, "contradicted")
    passed = (errors.sel(law="isotropic") >= 0.5 + NOISE) & (errors.sel(law="matched") <= 0.03)
    return judge_seeds(passed.values.tolist(), told)


def order(data: Data) -> Outcome:
    return judge_approach(data["sizes"], law=["matched", "isotropic", "power", "reversed"], kappa=[ORDER])


def at_one(data: Data) -> Data:
    """Theory whose transition sits at κ = 1 for every rank: gaps stretched over κ."""
    gap = data["theory"]["gap"]
    moved = np.stack([np.interp(gap["kappa"] * r, gap["kappa"], gap.sel(rank=r)) for r in RANKS], 1)
    return {**data, "theory": data["theory"].assign(gap=(gap.dims, moved))}


FIGURE = Figure(
    id="fig1",
    title="tasks on half of the directions: the transition at κ = rank/d",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "numbers", "With tasks on half of the directions the errors on new tasks as in training and on isotropic ones are those of the notes.", "; ".join(f"κ = {k:g}: {a:.4f}, {b:.4f}" for k, (a, b) in PRINTED.items()), "half a unit of the fourth digit", numbers, source="theory",
            reason="printed to four digits",
            counterexamples=(counter("one error 1e-3 higher", "theory/icl", plus(1e-3), kappa=0.6, law="matched"), a_nan("theory/icl", kappa=1.0, law="isotropic")),
        ),
        Claim(
            "transition", "The transition from memorizing to learning in context sits at κ = rank/d, not at 1: for tasks on a quarter, half and three quarters of the directions.", "κ = .25, .5, .75", f"{NEAR:.0%} of rank/d; the line through the gap e_ICL − e_IDG at κ ≤ .8 rank/d comes to its value at κ = 2.2 there", transition, source="second-hand",
            reason="as α, τ → ∞ the gap is a straight line to zero at rank/d; at α = 80 it is rounded over √q ≈ .11",
            counterexamples=(Counterexample("a transition at κ = 1", at_one), counter("a gap that does not depend on κ", "theory/gap", lambda a: a * 0 + 0.3, rank=0.5), a_nan("theory/gap", kappa=0.2, rank=0.75)),
        ),
        Claim(
            "trained_transition", "So it does for trained attention: the error on new tasks as in training has its kink at κ = ½.", "κ = .5", f"{2 * NEAR:.0%} of it, more than half of the draws", trained_transition, source="second-hand",
            reason=f"the line has four pool sizes and d = {CURVE_DIM}: twice the room of the theory",
            counterexamples=(
                counter("pools half as useful", "curve/error", lambda a: a * 0 + (1 - a["kappa"].clip(max=1.0)) + 0.02, law="matched"), counter("no kink", "curve/error", lambda a: a * 0 + 0.5, law="matched", seed=[0, 1, 2, 3, 4, 5, 6]),
                a_nan("curve/error", kappa=0.2, law="matched", seed=[0, 1, 2, 3, 4, 5, 6]),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "floor", "Directions that no task had leave a floor: isotropic new tasks keep the error ρ + ½ however many tasks there were, while tasks as in training are solved.", "≥ .51 and ≤ .03 at κ ≥ 2", "none: at least ρ + ½, at most .55 in theory; more than half of the seeds for trained attention", floor, source="second-hand",
            reason="half of the variance lies where Γ is zero",
            counterexamples=(
                counter("isotropic tasks solved in theory", "theory/icl", times(0.5), law="isotropic"), counter("isotropic tasks solved by trained attention", "curve/error", times(0.9), law="isotropic", seed=[0, 1, 2, 3, 4, 5, 6]),
                a_nan("curve/error", kappa=2.0, law="isotropic", seed=[0, 1, 2, 3, 4, 5, 6]),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "order", f"The exact error of trained attention comes to the theory as 1/d: κ = {ORDER:g}, four laws of new tasks.", "relative excess b/d + c/d², nothing left at d = ∞", "four standard errors, and four standard errors of what is left are at most 15 %", order, source="ours", before=False,
            reason="a limit is judged by its order: at d = 24 the excess itself may be tens of per cent; slope −1 ± .2 in log d was known to fail on the notes' own means, b/d + c/d² to hold. κ below and at ½, and the single direction, whose error does not average itself, are drawn only",
            counterexamples=(
                counter("a limit 20 % above theory", "sizes/mean", times(1.2), kappa=2.0, law="matched"), counter("a limit 20 % below theory", "sizes/mean", times(0.8), kappa=2.0, law="isotropic"),
                counter("means too rough to tell", "sizes/error", times(100.0)), a_nan("sizes/mean", dim=12, law="power"),
            ),
            min_seeds=MEAN_SEEDS,
        ),
    ),
    choices=(
        Choice("numbers", "none other", "the printed numbers were known; theory had been tested against golden files before", "as printed"),
        Choice("κ of the order", "κ = 1 and 2", "inconclusive: at κ = 1, new tasks as in training, .14 ± .11 is left, for some small pools are nearly of low rank and one draw rules a mean; all else within two standard errors", "κ = 2"),
        Choice("sizes, repetitions and κ of the order", "d = 12 … 24 and κ = .25, 1, 2; four draws each were made to see time and spread, not means", "a spread of 17 % at κ = .25, d = 12: hundreds of draws would be needed to tell 15 %", f"κ = {', '.join(f'{k:g}' for k in JUDGED)} and d = {', '.join(map(str, DIMS))}; repetitions ∝ 1/d², so that standard errors are about equal"),
    ),
    setup=f"""theory: d = {DIM} eigenvalues, α = τ = {ALPHA:g}, ρ = {NOISE}, no ridge; C_train = 2 on the first half of the directions, 0 elsewhere; new tasks: the same law, isotropic, c_j ∝ j^−½, the same reversed, one direction of training
trained: Γ* by least squares on n = τd² prompts of ℓ = αd pairs, Gaussian tasks, each prompt's by chance; exact errors at finite d; d = {', '.join(map(str, DIMS))}, theory with the eigenvalues of that d
repetitions: as many as seeds at the largest d, more at smaller d; curves over κ at d = {CURVE_DIM}""",
    cost="1 minute on 2 cores",
)  # fmt: skip
