"""Errors of trained networks at every position, beside least squares, averaging and nearest neighbors."""

from __future__ import annotations

import functools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ...theory.functions import averaging_error, least_squares_error
from ..base import Choice, Claim, Data, Figure
from ..judging import Outcome, judge_each
from ..perturbing import a_nan, counter, plus, times
from .network_judges import (
    BOUND,
    ERRORS,
    RANGE_RULE,
    SOME,
    at_places,
    judge_cells,
    judge_ranges,
    last,
    middle,
    other_size,
    rounded,
    unfinished,
)  # fmt: skip
from .noted_examples import linear_example
from .noted_numbers import STANDARD
from .shift_tables import REFERENCES, linear_data

COLORS = {"least squares": "black", "averaging": "C3", "3-NN": "C5"}
BELOW, AT_DIM, AT_TWICE = 0.06, 0.16, 0.03  # by how much a network may be above least squares


def standard(data: Data):
    """The table without a shift."""
    return data["table"].sel(shift="standard")


def network_curve(ax: Axes, positions: np.ndarray, rows: np.ndarray, label: str, color: str = "C1") -> None:
    """Every network as a thin line, and the median over them."""
    if len(rows) > 1:
        ax.plot(positions, rows.T, color=color, alpha=0.5, lw=0.8)
    ax.plot(positions, np.median(rows, 0), "o-", color=color, ms=4, lw=1.6, label=label)


def plain_ticks(axis: Axis, *, fine: bool = False) -> None:
    """Plain numbers on a logarithmic axis, those of 1, 2 and 5 where it is short."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if fine else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def draw(data: Data):
    table, positions = standard(data), data["table"]["position"].values
    figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.4))
    count = table.sizes["seed"]
    for ax, floor in zip(axes, (0.0, 1e-3), strict=True):
        network_curve(ax, positions, table["error"].values, f"transformer ({count} seed{'s' * (count > 1)})")
        for name, color in COLORS.items():
            ax.plot(
                positions, np.maximum(table["base"].sel(reference=name), floor), "--", color=color, lw=1.4, label=name
            )
        known = STANDARD.get(data["known"], {})
        if known:
            low, high = ([getattr(r, name) for r in known.values()] for name in ("low", "high"))
            center = np.add(low, high) / 2
            ax.errorbar(list(known), center, [center - low, np.subtract(high, center)], fmt="_", ms=9, mew=2, color="C2", elinewidth=4, alpha=0.7, label="range of the notes", zorder=1)  # fmt: skip
        ax.axvline(data["dim"], color="0.7", lw=0.8, zorder=0)
        ax.set(xlabel="pairs in the context, $i$", xlim=(-0.3, positions[-1] + 0.3))
    axes[0].set(ylabel="squared error / d", ylim=(0, 2.2), title=f"linear functions, d = {data['dim']}, {data['steps']:,} steps")  # fmt: skip
    axes[1].set_yscale("log")
    plain_ticks(axes[1].yaxis)
    axes[1].set(ylim=(1e-3, 8), title="the same on a logarithmic axis")
    axes[1].text(data["dim"] + 0.1, 5, "$i = d$", fontsize=9, color="0.4")
    axes[1].legend(fontsize=9, loc="lower left")
    return figure


def comparable(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    table, dim = standard(data), data["dim"]
    gap = table["gap"].sel(reference="least squares")
    error = table["gap_spread"].sel(reference="least squares")
    parts = {"below d": (slice(0, dim - 1), BELOW), "at d": (slice(dim, dim), AT_DIM), "at 2d": (slice(2 * dim, 2 * dim), AT_TWICE)}  # fmt: skip
    cells, told = {}, {}
    for name, (where, room) in parts.items():
        values, own = (part.sel(position=where).values for part in (gap, error))
        told[f"{name}, at most {room:g}"] = rounded(values.max(1))
        cells[name] = (room - values, own, 0.0)
        if name == "below d":
            cells["from the other side"] = (values, own, -BELOW)
    return judge_cells(cells, gap.sizes["seed"], told)


def better(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    table = standard(data).sel(position=slice(1, None))
    cells, told = {}, {}
    for name in REFERENCES[1:]:
        values, error = (table[part].sel(reference=name).values for part in ("gap", "gap_spread"))
        cells[name] = (-values, error, 0.0)
        told[f"least distance to {name}"] = rounded((-values).min(1))
    return judge_cells(cells, table.sizes["seed"], told)


def in_ranges(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    if data["known"] not in STANDARD:
        return other_size("small, full or medium")
    table = standard(data)
    return judge_ranges(
        table["error"].values, table["spread"].values, table["position"].values, STANDARD[data["known"]], data["dim"]
    )


def closed_form(data: Data, name: str) -> Outcome:
    """Whether an algorithm has the error of its formula at every position with a pair."""
    table = standard(data).sel(position=slice(1, None), reference=name)
    formula = {"least squares": least_squares_error, "averaging": averaging_error}[name]
    expected = formula(table["position"].values, data["dim"])
    values, error = table["base"].values, np.maximum(table["base_spread"].values, 1e-9)
    away = np.abs(values - expected) / error
    told = {"most, in standard errors": float(away.max()), "largest standard error": float(error.max())}
    if not np.isfinite(away).all():
        return Outcome(told, "failed")
    if (error > 0.1 * np.maximum(expected, 0.5)).any():
        return Outcome(told, "inconclusive")
    return judge_each((away <= ERRORS).tolist(), told)


def not_below(data: Data) -> Outcome:
    table = standard(data)
    gap, error = (table[part].sel(reference="least squares").values for part in ("gap", "gap_spread"))
    away = gap / np.maximum(error, 1e-9)
    told = {"lowest, in standard errors": float(away.min()), "largest standard error": float(error.max())}
    if not np.isfinite(away).all():
        return Outcome(told, "failed")
    if data["judged"] and error.max() > 0.05:
        return Outcome(told, "inconclusive")
    return judge_each((away >= -ERRORS).ravel().tolist(), told)


FIGURE = Figure(
    id="fig_linear",
    title="linear functions: transformers at every position beside least squares, averaging and 3-NN",
    collect=linear_data,
    draw=draw,
    example=functools.partial(linear_example, "small"),
    claims=(
        Claim(
            "least_squares", "Transformers trained on linear functions are comparable to least squares, the best predictor, at every length of the context.", "error above that of least squares on the same prompts by at most .06 for i < d (and below it by at most that), .16 at d, .03 at 2d", BOUND, comparable, source="second-hand", before=False,
            reason="the statement is the paper's; these bounds are those of our notes for four layers of width 64, d = 5 and 8, whose three seeds had been seen: .05, .12 and .017 (d = 5), .04, .093 and .007 (d = 8)",
            counterexamples=(
                at_places("a network of two layers: .33 at d, .17 at 2d", "gap", plus(0.16), reference="least squares", position=last), at_places("flat after d", "gap", plus(0.1), reference="least squares", position=middle),
                counter("zero is answered while i < d", "table/gap", lambda a: a * 0 + 0.4, shift="standard", reference="least squares", position=3), counter("two seeds fail at d", "table/gap", times(2.0), shift="standard", reference="least squares", seed=SOME),
                a_nan("table/gap", shift="standard", position=2, seed=0),
            ),
        ),
        Claim(
            "beats_simple", "They are better than averaging and 3-NN with every number of pairs.", "paired difference below 0 for i ≥ 1", BOUND, better, source="ours",
            reason="the difference is taken prompt by prompt; nothing of it had been seen but the curves of the notes",
            counterexamples=(
                counter("as bad as 3-NN with 3 pairs", "table/gap", times(0.0), shift="standard", reference="3-NN", position=3), counter("worse than averaging at the end", "table/gap", times(-1.0), shift="standard", reference="averaging", position=10),
                counter("one seed is worse than 3-NN", "table/gap", times(-1.0), shift="standard", reference="3-NN", seed=[0]), a_nan("table/gap", shift="standard", reference="3-NN", position=2, seed=0),
            ),
        ),
        Claim(
            "ranges", "Errors are those of the notes' three seeds at every position.", "d = 5, i = 0 … 10: .983, .797–.799, .624–.625, .399–.401, .243–.251, .112–.120, .046–.056, .024–.029, .013–.017, .010–.015, .009–.017; d = 8: .884 (1), .521 (4), .161 (7), .090–.093 (8), .010 (12), .0027–.0069 (16)", RANGE_RULE, in_ranges, source="ours", before=False,
            reason="networks of the same set-up from other seeds on other prompts; the notes find 5–30 % between seeds beyond d, and their own two prompt sets differ by .012–.02 at d",
            counterexamples=(
                counter("half as long training: .2 at d", "table/error", lambda a: a * 0 + 0.2, shift="standard", position=5), counter("one seed twice as bad at 2d", "table/error", times(2.5), shift="standard", position=10, seed=[0]),
                counter("better than Bayes with 3 pairs", "table/error", times(0.8), shift="standard", position=3), a_nan("table/error", shift="standard", position=2, seed=0),
            ),
        ),
        Claim(
            "least_squares_formula", "Least squares has the error (1 − i/d)₊ without noise.", "1 − i/d, then 0", f"{ERRORS:g} standard errors over prompts", functools.partial(closed_form, name="least squares"), source="theory",
            reason="it projects w on the span of the context",
            counterexamples=(counter("an error 5 % larger", "table/base", plus(0.02), shift="standard", reference="least squares"), counter("noise at the end", "table/base", plus(0.01), shift="standard", reference="least squares", position=10), a_nan("table/base", shift="standard", position=2)),
        ),
        Claim(
            "averaging_formula", "Averaging has the error (d + 1)/i.", "(d + 1)/i", f"{ERRORS:g} standard errors over prompts, which are at most a tenth", functools.partial(closed_form, name="averaging"), source="theory",
            reason="the fourth moments of Gaussian inputs",
            counterexamples=(counter("d/i", "table/base", times(5 / 6), shift="standard", reference="averaging"), counter("too few prompts to tell", "table/base_spread", times(500.0), shift="standard", reference="averaging"), a_nan("table/base", shift="standard", position=2)),
        ),
        Claim(
            "not_below_bayes", "No network is better than least squares, the Bayes predictor of this law.", "paired difference at least 0", f"−{ERRORS:g} standard errors over prompts, which are at most .05", not_below, source="theory",
            reason="Bayes has the least error there is",
            counterexamples=(
                counter("better than Bayes", "table/gap", lambda a: a * 0 - 0.02, shift="standard", reference="least squares", position=2), counter("one seed better", "table/gap", lambda a: a * 0 - 0.02, shift="standard", reference="least squares", position=2, seed=[0]),
                counter("too few prompts to tell", "table/gap_spread", times(500.0), shift="standard", reference="least squares"), a_nan("table/gap", shift="standard", position=2, seed=0),
            ),
        ),
    ),
    choices=(
        Choice("bounds of least_squares and ranges", "those of the notes", "three seeds of the notes had been seen, none of ours", "the notes' bounds; ranges with the room between their seeds and between their two sets of prompts"),
        Choice("how one seed can decide", "Student's bound over seeds", "one seed is always inconclusive by it", "a bound over prompts for every network by itself: a statement on the networks that were trained; the number of seeds stands beside it"),
    ),
    setup="""x, w ~ N(0, I), y = w·x, no noise; error: (ŷ − y)²/d at every position i (i pairs seen), prompts that are the same for all networks and algorithms
GPT-2 as in the public code: tokens x and (y, 0, …, 0), learned positions, final norm; 4 layers, 4 heads, width 64; Adam, 1e-3 after a warm-up of 500 steps, then a cosine to 0; no curriculum; float32
--preset small and full: d = 5, 11 points, batch 64, 10,000 steps; medium: d = 8, 17 points, batch 256, 20,000 steps; 7680 prompts
--preset original: the paper's d = 20, 41 points, 12 layers, 8 heads, width 256, batch 64, Adam 1e-4 constant, 500,001 steps with its curriculum""",
    cost="--preset small: minutes on 2 cores; --preset medium, full: for a GPU; --preset original: hours on a GPU",
)  # fmt: skip
