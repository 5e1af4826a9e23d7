"""Layer A against one gradient step for n = 25 to 400 words, in float64 and float32: the table of the notes."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ..base import Claim, Data, Figure, Outcome, judge_seeds, judge_true
from ..lab import Lab
from .judges import layer_claims
from .setup import COLORS, MARKS, SETUP, end, mean_std, measured, plain_ticks, recipe, repetitions

WORDS = (25, 50, 100, 200, 400)
TABLE = {  # n: GD loss, layer A's loss and its deviation, Preds Diff, Model Diff, ‖GD‖, Model Cos and its deviation
    25: (0.0682, 0.0670, 0.0005, 0.0109, 0.053, 0.324, 0.9885, 0.0038),
    50: (0.0485, 0.0471, 0.0003, 0.0070, 0.049, 0.392, 0.9940, 0.0010),
    100: (0.0302, 0.0298, 0.0001, 0.0038, 0.037, 0.434, 0.9970, 0.0005),
    200: (0.0172, 0.0174, 0.0001, 0.0023, 0.032, 0.473, 0.9982, 0.0002),
}


def collect(lab: Lab) -> Data:
    kinds = [(n, dtype) for n in WORDS for dtype in ("float64", "float32") if n in TABLE or dtype == "float32"]
    groups = {
        f"{n} {dtype}": [recipe("A", seed, words=n, dtype=dtype) for seed in repetitions(lab)] for n, dtype in kinds
    }
    return measured(lab, "fig_n", groups)


def row(table: xr.Dataset) -> dict[str, np.ndarray]:
    """The numbers of one line of the table, by repetition."""
    names = ("loss", "preds_diff", "model_diff", "model_cos")
    return {"gd_loss": table["gd_loss"].values, "gd_norm": table["gd_norm"].values} | {n: end(table, n) for n in names}


def in_table(n: int, dtype: str):
    """Whether new means over repetitions agree with the notes' row.

    Loss and cosine of the layer must be within the deviations the notes give. The other numbers have none there, and
    all hang on the line-searched η, which moves them together: they must be within three deviations over repetitions.
    Half a unit of the last digit given is rounding.
    """

    def judge(data: Data) -> Outcome:
        gd, loss, loss_spread, preds, model, norm, cosine, cosine_spread = TABLE[n]
        found = row(data[f"{n} {dtype}"])
        spread = {name: float(np.std(values, ddof=1)) for name, values in found.items()}
        wanted = {"loss": (loss, 5e-5 + loss_spread), "model_cos": (cosine, 5e-5 + cosine_spread),
                  "gd_loss": (gd, 5e-5 + 3 * spread["gd_loss"]), "gd_norm": (norm, 5e-4 + 3 * spread["gd_norm"]),
                  "preds_diff": (preds, 5e-5 + 3 * spread["preds_diff"]),
                  "model_diff": (model, 5e-4 + 3 * spread["model_diff"])}  # fmt: skip
        away = {name: abs(float(found[name].mean()) - value) / allowed for name, (value, allowed) in wanted.items()}
        measured = {name: f"{mean_std(found[name])} (notes {value:g})" for name, (value, _) in wanted.items()}
        worst = max(away, key=lambda name: away[name])
        measured |= {"furthest": worst, "share of what is allowed": round(away[worst], 2)}
        count = data[f"{n} {dtype}"].sizes["repetition"]
        if 1 < away[worst] <= 2:
            return Outcome(measured, "inconclusive", count)
        return judge_true(away[worst] <= 1, measured, seeds=count)

    return judge


def same_in_both(data: Data) -> Outcome:
    """The same documents and starts: precision should change the outcome by far less than the seed does."""
    shares = {}
    for n in TABLE:
        single, double = (row(data[f"{n} {dtype}"]) for dtype in ("float32", "float64"))
        shares[n] = max(
            float(np.sqrt(np.mean((single[k] - double[k]) ** 2)) / np.std(double[k], ddof=1)) for k in ("loss", "model_cos")
        )  # fmt: skip
    measured = {"difference between precisions / deviation over seeds, by n": shares}
    return judge_true(max(shares.values()) < 0.5, measured, seeds=data["25 float64"].sizes["repetition"])


def closer_with_n(data: Data) -> Outcome:
    cosines = np.stack([end(data[f"{n} float32"], "model_cos") for n in WORDS])
    passed = np.all(np.diff(cosines, axis=0) > 0, axis=0)
    return judge_seeds(list(passed), {f"n = {n}": float(c.mean()) for n, c in zip(WORDS, cosines, strict=True)})


def draw(data: Data):
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9))
    tables = [data[f"{n} float32"] for n in WORDS]
    rows = [row(table) for table in tables]

    def put(ax, name: str, key: str, label: str, line: str = "-") -> None:
        values = np.stack([r[name] for r in rows])
        ax.errorbar(WORDS, values.mean(1), values.std(1), color=COLORS[key], marker=MARKS[key], ls=line, mfc="white",
                    capsize=3, label=label)  # fmt: skip

    put(axes[0], "gd_loss", "GD", "one gradient step", "--")
    put(axes[0], "loss", "A", "layer A")
    put(axes[1], "model_diff", "A", "Model Diff")
    put(axes[1], "preds_diff", "B", "Preds Diff", ":")
    gap = np.stack([1 - r["model_cos"] for r in rows])
    axes[2].errorbar(
        WORDS, gap.mean(1), gap.std(1), color=COLORS["A"], marker="o", mfc="white", capsize=3, label="float32"
    )
    both = [n for n in WORDS if n in TABLE]
    double = np.stack([1 - end(data[f"{n} float64"], "model_cos") for n in both])
    axes[2].plot(both, double.mean(1), "x", color="black", ms=8, label="float64")
    for ax, label in zip(
        axes, (r"loss $\frac{n}{2}\|\hat f-b\|^2$", "distance to gradient descent", "1 − Model Cos"), strict=True
    ):
        ax.set(xscale="log", yscale="log", xlabel="words n", ylabel=label)
        ax.set_xticks(WORDS, [str(n) for n in WORDS])
        ax.minorticks_off()
        ax.legend()
    plain_ticks(axes[0], (0.01, 0.02, 0.04, 0.07))
    plain_ticks(axes[1], (0.001, 0.002, 0.005, 0.01, 0.02, 0.05))
    plain_ticks(axes[2], (0.001, 0.002, 0.005, 0.01))
    return figure


FIGURE = Figure(
    id="fig_n",
    title="layer A against the number of words, in two precisions",
    collect=collect,
    draw=draw,
    claims=layer_claims("25 float32", "A", "n = 25, s = 0.5")
    + tuple(
        Claim(
            f"table_{n}_{dtype}", f"The notes' measurements at n = {n}, repeated in {dtype}.",
            "the row of the table", "the notes' deviations (loss, cosine); 3 deviations over repetitions (the others)", in_table(n, dtype), source="ours",
        )
        for n in TABLE for dtype in ("float64", "float32")
    )
    + (
        Claim(
            "precision", "float32 and float64 training end at the same layer.", "no difference",
            "half a deviation over seeds", same_in_both, source="ours",
        ),
        Claim(
            "closer_with_n", "The longer the document, the closer layer A is to the gradient step.", "cosine rises with n",
            "each doubling, in at least 80 % of repetitions", closer_with_n, source="ours",
        ),
    ),
    setup=SETUP + f"\nd = 20, s = 0.5, n in {WORDS}; layer A in float32, and in float64 up to n = 200",
    cost="4 minutes on 2 cores",
)  # fmt: skip
