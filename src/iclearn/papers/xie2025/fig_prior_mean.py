"""Loss against the size of the prior mean: the gap grows as 2m²/(Cd+2), and yq-LSA has none."""

from __future__ import annotations

import functools

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...models.lsa import LSA
from ...theory.xie2025 import Law, best_loss, gd_step
from ..base import Choice, Claim, Counterexample, Data, Figure, Outcome, Word, judge_seeds
from ..judging import MEAN_SEEDS, SHARE_SEEDS, standard_error, worst
from ..lab import Lab
from .examples import a_nan, changed, counter, exact_example, measured_example, optima, plus
from .judges import judge_near_one, judge_optima, unless_moving, word_below
from .setup import (
    COLORS,
    CONTEXT,
    DIM,
    NORMS,
    STEP_LOSS,
    YQ,
    exact_losses,
    gap_law,
    measured_rest,
    online_runs,
    paper_task,
)

GRID = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
MODELS = (YQ, LSA(1), LSA(DIM))
MODEL_NAMES = ("yq", "1", "d")
ROOM = 0.005  # a quarter of the smallest gap that is judged, 2/(Cd+2) = 0.0196


def collect(lab: Lab) -> Data:
    exact = exact_losses(lab, "prior_mean", "norm", {m: paper_task(m) for m in GRID}, MODELS)
    return {"exact": exact.assign_coords(member=list(MODEL_NAMES)), "measured": measured_rest(lab, online_runs(lab))}


def example() -> Data:
    best = {m: optima(Law.isotropic(DIM, CONTEXT, m), MODELS) for m in GRID}
    return {"exact": exact_example("norm", best, MODEL_NAMES), "measured": measured_example()}


def draw(data: Data):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.3))
    fine = np.linspace(0, 10.5, 60)
    laws = [Law.isotropic(DIM, CONTEXT, float(m)) for m in fine]
    left.plot(fine, [gd_step(law).loss for law in laws], color=COLORS["zero"], ls="--", label="gradient step from 0")
    left.plot(fine, [best_loss(law, 1).loss for law in laws], color="#56B4E9", label="LSA, 1 head")
    left.plot(fine, [best_loss(law, DIM).loss for law in laws], color=COLORS["heads"], label=r"LSA, $H \geq d$ heads")
    left.plot(fine, [gd_step(law, law.mean).loss for law in laws], color="black", label="gradient step from $w^*$")
    measured = data["measured"]["loss"]
    for name, color, mark, label in (
        ("1", "#56B4E9", "^", None), ("11", COLORS["heads"], "s", None), ("yq", COLORS["yq"], "o", "yq-LSA, trained as in the paper"),
    ):  # fmt: skip
        rows = measured.sel(member=name).values
        left.errorbar(
            NORMS,
            rows.mean(1),
            3 * np.apply_along_axis(standard_error, 1, rows),
            fmt=mark,
            color=color,
            mfc="white",
            ms=7,
            capsize=2,
            label=label,
        )
    left.annotate("yq-LSA at $m$ = 10:\nAdam has not arrived\n(see fig_training)", (10, float(measured.sel(norm=10, member="yq").mean())), xytext=(0.2, 14.5), fontsize=9, arrowprops={"arrowstyle": "-", "color": "0.5"})  # fmt: skip
    left.set(xlabel=r"norm of the prior mean $m = \|w^*\|$", ylabel="loss", ylim=(4, 27))
    left.legend(fontsize=9, loc="upper left")
    exact = data["exact"].isel(seed=0)
    fine = np.geomspace(0.4, 12, 30)
    right.loglog(fine, gap_law(fine), color=COLORS["heads"], label="$2m^2/(Cd+2)$")
    right.loglog(
        GRID[1:],
        exact.sel(member="d").values[1:] - STEP_LOSS,
        "s",
        color=COLORS["heads"],
        mfc="white",
        label="$d$ heads, exact training",
    )
    left_over = np.maximum(np.abs(exact.sel(member="yq").values[1:] - STEP_LOSS), 1e-16)
    right.loglog(GRID[1:], left_over, "o", color=COLORS["yq"], mfc="white", label="yq-LSA, exact training")
    right.set(xlabel="$m$", ylabel="loss above the gradient step from $w^*$")
    right.legend(fontsize=9)
    return figure


def gaps(data: Data) -> xr.DataArray:
    """Loss of d heads above the gradient step from w*, for every m > 0: (norm, seed)."""
    return data["exact"].sel(member="d", norm=list(GRID[1:])) - STEP_LOSS


def slope(data: Data) -> Outcome:
    table = gaps(data).transpose("norm", "seed").values
    if not (table > 0).all():
        return Outcome({"least gap": float(table.min())}, "failed", table.shape[1])
    fitted = np.polyfit(np.log(GRID[1:]), np.log(table), 1)[0]
    return judge_seeds(list(np.abs(fitted - 2) < 0.01), {"exponent by seed": fitted})


def size(data: Data) -> Outcome:
    found = gaps(data)
    return judge_near_one(found / gap_law(found["norm"]), 0.01, "gap over 2m²/(Cd+2)")


def yq_exact(data: Data) -> Outcome:
    return judge_optima(data["exact"].sel(member="yq"), STEP_LOSS, 1e-4 / STEP_LOSS)


def yq_sampled(data: Data, norms: tuple[float, ...]) -> Outcome:
    """Sampled yq-LSA at rest, its noise floor taken off, is at the gradient step from w*."""
    rest = data["measured"].sel(member="yq")
    words: list[Word] = []
    told = {}
    for norm in norms:
        late, earlier, floor = (rest[name].sel(norm=norm).values for name in ("late", "earlier", "floor"))
        off, error = late - floor - STEP_LOSS, standard_error(late - floor)
        word = word_below(off * np.sign(off.mean()), ROOM, errors=2)
        word = unless_moving(word, abs(off.mean()) > min(ROOM, 2 * error), earlier - STEP_LOSS, late - STEP_LOSS)
        words.append(word)
        told[f"m = {norm:g}"] = f"{late.mean():.4f}, less its floor {off.mean() + STEP_LOSS:.4f} ± {error:.4f} ({word})"
    return Outcome(told, worst(*words), rest.sizes["seed"])


def _bent(data: Data) -> Data:
    """Gaps as m^1.9, unchanged at m = 1."""
    return changed(
        data, "exact", lambda a: STEP_LOSS + (a - STEP_LOSS) * a["norm"].where(a["norm"] > 0, 1.0) ** -0.1, member="d"
    )


FIGURE = Figure(
    id="fig_prior_mean",
    title="loss against the norm of the prior mean",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "slope", "The gap to the gradient step from w* grows as the square of ‖w*‖.", "2", "0.01 in every seed (fit over m = 0.5 … 10, exact training)", slope, source="ours",
            reason="exact training ends within 1e-4 of the gaps 0.005 … 1.96",
            counterexamples=(Counterexample("exponent 1.9", _bent), counter("a constant 1e-3 added", "exact", plus(1e-3), member="d"), a_nan("exact", member="d", norm=1.0, seed=0)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "size", "The gap is exactly 2m²/(Cd+2).", "ratio 1", "1 % at each m, in every seed (exact training)", size, source="ours", reason="a seventh of what 2/(Cd+2) would change with d ± 1",
            counterexamples=(
                Counterexample("2m²/(Cd) instead", lambda data: changed(data, "exact", lambda a: STEP_LOSS + (a - STEP_LOSS) * (CONTEXT * DIM + 2) / (CONTEXT * DIM), member="d")),
                counter("one norm 3 % off", "exact", lambda a: STEP_LOSS + (a - STEP_LOSS) * 1.03, member="d", norm=5.0),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "yq_is_gd", "yq-LSA reaches one gradient step from w*, whatever w*.", f"{STEP_LOSS:.6f}", "1e-4 above in every seed, never below (exact training, m = 0 … 10)", yq_exact,
            reason="a two-hundredth of the gap that multi-head LSA keeps at m = 1",
            counterexamples=(
                counter("a hundredth of the multi-head gap left", "exact", lambda a: a + 0.01 * gap_law(a["norm"]), member="yq"),
                counter("one seed below the optimum", "exact", plus(-1e-4), member="yq", norm=3.0, seed=2), a_nan("exact", member="yq", norm=10.0, seed=1),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "yq_trained", "It does so under the paper's training, up to Adam's noise floor (m = 0, 1).", f"{STEP_LOSS:.4f} once the predicted floor is taken off", "0.005, two standard errors included, at each m; unfinished as yq_trained_3",
            functools.partial(yq_sampled, norms=(0.0, 1.0)), reason="a quarter of the gap that multi-head LSA keeps at m = 1", before=False,
            counterexamples=(
                counter("the multi-head gap at m = 1 left", "measured/late", plus(0.0196), member="yq", norm=1.0),
                counter("losses that scatter by 0.02", "measured/late", lambda a: a + 0.02 * np.random.default_rng(0).normal(size=a.shape), member="yq"), a_nan("measured/late", member="yq", norm=0.0, seed=0),
            ),
            min_seeds=MEAN_SEEDS,
        ),
        Claim(
            "yq_trained_3", "It does so at m = 3.", f"{STEP_LOSS:.4f} once the predicted floor is taken off", "0.005, two standard errors included; unfinished where the mean is off by that or by two standard errors and the excess fell by 10 % since the third fifth of the steps (fig_training has 10000 steps)",
            functools.partial(yq_sampled, norms=(3.0,)), reason="as yq_trained", before=False,
            counterexamples=(counter("0.0196 too high, at rest", "measured/late", plus(0.0196), member="yq", norm=3.0),),
            min_seeds=MEAN_SEEDS,
        ),
    ),
    choices=(
        Choice(
            "yq_trained", "within 1 % above the gradient step, in every seed, m ≤ 3; less its noise floor, within 0.005",
            "reproduced with 1 %, which is 0.052 while the gap at m = 1 is 0.0196; the mean at m = 3 was 5.2517 ± 0.0052, two of six seeds still learning", "the predicted floor taken off; m = 3 judged apart, as 5000 steps are too few for some seeds",
        ),
        Choice(
            "when sampled training is unfinished", "the mean off by the whole tolerance and still falling; off by the tolerance or two standard errors and still falling",
            "with the first, m = 0 (0.0042 ± 0.0010 above its goal, still falling) would read inconclusive", "the second, chosen after these data: the verdict is not better, its word says why",
        ),
        Choice("seeds of exact training", "seed 0; the seeds of the figure", "the same verdicts for seed 0", "all seeds"),
    ),
    setup="as fig_heads; exact training also at m = 0.5, 2, 5, for yq-LSA, one head and d heads, every seed",
    cost="1 minute on 2 cores (sampled runs shared with fig_heads)",
)  # fmt: skip
