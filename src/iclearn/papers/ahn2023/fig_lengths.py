"""Loss of three layers against the context length: preconditioned gradient descent, GD++, and trained transformers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...theory.depth import gdpp_minima, gdpp_residual, krylov, tied_descent
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_each, judge_groups
from ..lab import Lab
from ..perturbing import scaled
from .setup import (
    DIM,
    FRESH,
    PUBLIC,
    SHORT,
    STOPPED,
    WHITENED,
    Protocol,
    fast_context,
    fresh_losses,
    fresh_spectra,
    preset_of,
    recipe_of,
    stopped,
)  # fmt: skip

LAYERS, RESTARTS = 3, 30
CONTEXTS = tuple(range(2, 21, 2))
PRINTED = {
    "tied": (3.3832, 2.3098, 1.6209, 1.1719, 0.87078, 0.66296, 0.51553, 0.40834, 0.32869, 0.26834),
    "untied": (3.2535, 2.0402, 1.2955, 0.85032, 0.57937, 0.40894, 0.29785, 0.22293, 0.17084, 0.13361),
    "gdpp": (3.029, 1.334, 0.427, 0.121, 0.0393, 0.0210, 0.0078, 0.0042, 0.0020, 0.00096),
}
SEEDS = 6  # of the example


def protocol_of(preset: str, context: int) -> Protocol:
    return fast_context(context) if preset == "fast" else PUBLIC["short contexts" if context < 5 else "contexts"]


def collect(lab: Lab) -> Data:
    lines = lab.dataset("lengths-lines", {"restarts": RESTARTS, "fresh": FRESH}, lambda: lines_of(RESTARTS))
    preset = preset_of(lab)
    inputs = "rotated" if preset == "public" else "white"
    traces = lab.run(
        [recipe_of(inputs, protocol_of(preset, n), seed, context=n) for n in CONTEXTS for seed in lab.seeds]
    )

    def table() -> xr.Dataset:
        fresh = np.array([fresh_losses(trace) for trace in traces])
        shape = (len(CONTEXTS), lab.num_seeds)
        return dataset(*(part.reshape(shape) for part in (fresh.mean(-1), np.median(fresh, -1), stopped(traces))))

    ids = {"runs": [trace.run_id for trace in traces], "fresh": FRESH}
    return {"lines": lines, "trained": lab.dataset("lengths-trained", ids, table)}


def dataset(mean: np.ndarray, median: np.ndarray, stops: np.ndarray) -> xr.Dataset:
    axes = ("context", "seed")
    return xr.Dataset(
        {"mean": (axes, mean), "median": (axes, median), "stopped": (axes, stops)},
        {"context": list(CONTEXTS), "seed": np.arange(mean.shape[1])},
    )


def lines_of(restarts: int) -> xr.Dataset:
    """Population losses, and the medians of the same filters over fresh spectra."""
    found: dict[str, list[float]] = {f"{kind}{name}": [] for kind in PRINTED for name in ("", "_median")}
    for n in CONTEXTS:
        spectra = fresh_spectra(n)
        best = {"tied": tied_descent(DIM, n, LAYERS), "untied": krylov(DIM, n, LAYERS), "gdpp": gdpp_minima(DIM, n, LAYERS, restarts=restarts)[0]}  # fmt: skip
        for kind, minimum in best.items():
            left = gdpp_residual(spectra, minimum.steps, minimum.curvature if kind == "gdpp" else ())
            found[kind].append(minimum.loss)
            found[f"{kind}_median"].append(float(np.median(np.sum(left**2, -1))))
    return xr.Dataset({name: ("context", np.array(v)) for name, v in found.items()}, {"context": list(CONTEXTS)})


def example() -> Data:
    lines = {name: ("context", np.array(values)) for name, values in PRINTED.items()}
    lines |= {f"{name}_median": ("context", 0.7 * np.array(values)) for name, values in PRINTED.items()}
    one = np.array(PRINTED["gdpp"])[:, None] * np.ones(SEEDS)
    return {
        "lines": xr.Dataset(lines, {"context": list(CONTEXTS)}),
        "trained": dataset(1.1 * one, 0.7 * one, one > 1e9),
    }


def draw(data: Data):
    lines, trained = data["lines"], data["trained"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.6, 4.8), sharey=True, layout="constrained")
    labels = {"tied": "preconditioned descent, one step size", "untied": "preconditioned descent, own steps", "gdpp": "best GD++"}  # fmt: skip
    for ax, kind, title in ((left, "", "mean"), (right, "_median", "median")):
        for index, (name, label) in enumerate(labels.items()):
            ax.semilogy(CONTEXTS, lines[f"{name}{kind}"], "o-", color=f"C{index}", mfc="white", label=label)
        found = trained[title]
        for column in found.transpose("seed", "context").values:
            ax.semilogy(CONTEXTS, column, "s", color="C4", mfc="none", ms=4)
        ax.semilogy(CONTEXTS, found.median("seed"), "s--", color="C4", label=f"transformer, {FRESH} fresh spectra")
        ax.set(xlabel="context length $N$", title=f"{title} over spectra")
        ax.set_xticks(list(CONTEXTS))
    left.set(ylabel="loss, three layers", ylim=(1e-4, 30))
    left.text(0.02, 0.02, "lines: population losses; means of the transformer\nbeyond the frame are single spectra", transform=left.transAxes, fontsize=8, color="0.35")  # fmt: skip
    right.legend(fontsize=8, loc="lower left")
    return figure


def printed(data: Data) -> Outcome:
    off = {n: float(np.abs(data["lines"][n].values / np.array(PRINTED[n]) - 1).max()) for n in ("tied", "untied")}
    return judge_each([error <= 1e-4 for error in off.values()], off)


def gdpp_printed(data: Data) -> Outcome:
    ratio = data["lines"]["gdpp"].values / np.array(PRINTED["gdpp"])
    return judge_each([0.5 <= r <= 1.02 for r in ratio], ratio.round(4).tolist())


def below(data: Data) -> Outcome:
    lines, found = data["lines"]["untied_median"], data["trained"]["median"]
    ratio = found / lines
    groups = {int(n): (ratio.sel(context=n).values < 1).tolist() for n in CONTEXTS}
    told = {"median over seeds, by N": ratio.median("seed").values.round(4).tolist(), "largest": float(ratio.max(skipna=False)),
        "runs that one batch stopped": int(data["trained"]["stopped"].sum())}  # fmt: skip
    return judge_groups(groups, told)


def near_gdpp(data: Data) -> Outcome:
    ratio = (data["trained"]["median"] / data["lines"]["gdpp_median"]).median("seed", skipna=False).values
    return judge_each([bool(1 / 3 <= r <= 3) for r in ratio], ratio.round(3).tolist())


def changed(title: str, which: str, name: str, factor: float, **where: object) -> Counterexample:
    return scaled(title, f"{which}/{name}", factor, **where)


NAN = float("nan")
FIGURE = Figure(
    id="fig_N",
    title="loss of three layers against the context length",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "lines", "Three steps of preconditioned gradient descent, with one step size and with own ones, have the losses of the notes.", "N = 2, 4, …, 20 as printed there", "1e-4, relative",
            printed, reason="exact losses, five printed digits", source="theory",
            counterexamples=(changed("N = 10 a part in 1000 higher", "lines", "untied", 1.001, context=10), changed("NaN", "lines", "tied", NAN, context=2)),
        ),
        Claim(
            "gdpp_line", f"The best GD++ of {RESTARTS} random starts has the losses of the notes, or lower ones.", "N = 2, 4, …, 20 as printed there (12 starts)", "not more than 2 % above, not below half",
            gdpp_printed, reason="more starts may find lower minima; two to four digits are printed", source="ours",
            counterexamples=(changed("N = 8 five per cent higher", "lines", "gdpp", 1.05, context=8), changed("NaN", "lines", "gdpp", NAN, context=4)),
        ),
        Claim(
            "below_descent", "The trained transformer is below preconditioned gradient descent with as many steps, own step sizes included, at every context length.", "ratio of medians below 1", f"medians over {FRESH} fresh spectra, more than half of the seeds at each N",
            below, source="second-hand", before=False, reason="means are ruled by single spectra",
            counterexamples=(changed("N = 2 as gradient descent", "trained", "median", 1.3, context=2), changed("N = 20 as gradient descent", "trained", "median", 150.0, context=20), changed("NaN", "trained", "median", NAN, context=6)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "near_gdpp", "Its median loss is that of the best GD++, up to a factor of three.", "1", "between 1/3 and 3, median of the seeds, at each N", near_gdpp,
            reason="the best mean and the best median are of different weights", source="ours", before=False, holds=False,
            counterexamples=(changed("four times higher at N = 14", "trained", "median", 4.0, context=14), changed("NaN", "trained", "median", NAN, context=18)),
        ),
    ),
    setup=f"""d = {DIM}, three layers, N = 2, 4, …, 20; lines: population losses, exact; best GD++ of {RESTARTS} random starts
fast: transformers on white inputs, 2000 steps of 200 spectra (N = 2: 2500 of 400); public: rotated inputs, 8000 steps of 40,000 spectra, Adam (.99, .99) .01 (.001 for N < 5), halved every 2000, each matrix clipped to .001
judged on {FRESH} fresh spectra by medians, the means shown beside them""",
    cost="5 minutes on 2 cores; preset public for a GPU",
    choices=(
        WHITENED, SHORT, STOPPED,
        Choice(
            "mean or median", "means of 20,000 fresh spectra, one seed at N = 2, 4, 10", "3.02 at N = 2; 1.5 ± .2 at N = 4; 3600 ± 3000 at N = 10, where the median is .004: one spectrum in 20,000 rules the mean", "medians",
        ),
        Choice(
            "near_gdpp", "a factor of three, set before the first run and kept", "contradicted twice: 3.2 at N = 8 in the first run (rates too low there), .49 at N = 8 and .28 at N = 10 in the second",
            "the claim as it was, contradicted: batches of 200 spectra lead to weights with smaller medians and far heavier tails than those of the best mean",
        ),
    ),
)  # fmt: skip
