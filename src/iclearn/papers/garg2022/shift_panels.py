"""The shifted evaluations: one panel for each, transformers beside least squares on the same prompts."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from ...core.errors import MissingClosedForm
from ...tasks.prompt_shifts import garg_shifts
from ...theory.functions import least_squares_under, zero_error
from ..base import Choice, Claim, Data, Figure
from ..judging import Outcome, judge_each, judge_true
from ..perturbing import a_nan, counter, plus, times
from .linear_curves import network_curve
from .network_judges import BOUND, ERRORS, SOME, at_places, judge_cells, other_size, rounded, unfinished
from .noted_examples import linear_example
from .noted_numbers import SHIFTED
from .shift_tables import OWN_SHIFTS, linear_data

SHIFTS = {shift.label: shift for shift in (*garg_shifts(), *OWN_SHIFTS)}
TITLES = {
    "half_subspace": "half subspace", "noisyLR": "noise, labels renormalized", "random_quadrants": "context in a random orthant",
    "orthogonal_train_test": "query orthogonal to context", "overlapping_train_test": "query from the context",
    "opposite_quadrants": "query in the opposite orthant", "condition_number=100": "condition number 100",
    "skewed": "skewed covariance",
}  # fmt: skip
NEAR, FAR, SHARE = 1.2, 1.6, 0.9  # factors at ⌊d/2⌋ and from d on, and cells that must be within them


def title_of(label: str) -> str:
    """The label of a shift in words."""
    name, _, amount = label.partition("=")
    words = {"scale_x": "inputs ×", "scale_y": "labels ×", "prior_mean": "prior mean ", "noise": "noise, σ = ", "input_mean": "inputs + "}  # fmt: skip
    return TITLES.get(label) or f"{words.get(name, name)}{amount}"


def draw(data: Data):
    table, dim, positions = data["table"], data["dim"], data["table"]["position"].values
    figure, axes = plt.subplots(4, 5, figsize=(15, 10.5), sharex=True)
    for ax, (label, shift) in zip(axes.ravel(), SHIFTS.items(), strict=True):
        there = positions < dim if label == "orthogonal_train_test" else positions >= 0
        there &= (positions > 0) | (label != "overlapping_train_test")
        found, trivial = table.sel(shift=label), zero_error(shift, dim)
        least = found["base"].sel(reference="least squares").values
        if shift.name in ("noise", "noisyLR"):  # no mean there
            least = np.where(np.abs(positions - dim) <= 1, np.nan, least)
        ax.plot(positions[there], least[there], "--", color="black", lw=1.3, label="least squares")  # fmt: skip
        network_curve(ax, positions[there], found["error"].values[:, there], "transformer")
        ax.axhline(trivial, color="0.6", lw=1, ls=":", label="answering 0")
        cells = SHIFTED.get(data["known"], {}).get(label)
        if cells is not None:
            values = [(p, v) for p, v in zip(data["places"], cells, strict=True) if v is not None]
            ax.plot(*zip(*values, strict=True), "x", color="C2", ms=7, mew=2, label="notes, mean of 3 seeds", zorder=5)
        ax.set(title=title_of(label), ylim=(0, 1.35 * trivial))
        ax.title.set_fontsize(11)
        ax.axvline(dim, color="0.85", lw=0.8, zorder=0)
    for ax in axes[-1]:
        ax.set_xlabel("pairs in the context, $i$")
    for ax in axes[:, 0]:
        ax.set_ylabel("squared error / d")
    handles, labels = axes.ravel()[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncol=4, fontsize=12)
    return figure


def cells_at(data: Data, label: str, places: Sequence[int], variable: str = "error"):
    """(seed, place) numbers of one shift, and their standard errors."""
    part = data["table"].sel(shift=label, position=list(places))
    return part[variable].values, part["spread"].values


def orthogonal(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    part = data["table"].sel(
        shift="orthogonal_train_test", reference="least squares", position=slice(1, data["dim"] - 1)
    )
    gap, error = part["gap"].values, part["gap_spread"].values
    cells = {"above": (gap, error, -0.05), "below": (-gap, error, -0.05)}
    return judge_cells(cells, len(gap), {"largest distance": rounded(np.abs(gap).max(1))})


def at_most(data: Data, label: str, line: float, places: Sequence[int]) -> Outcome:
    """Whether the error under a shift is at most a line at some of ⌊d/2⌋, d and 2d pairs."""
    if early := unfinished(data):
        return early
    values, error = cells_at(data, label, [data["places"][p] for p in places])
    return judge_cells({label: (line - values, error, 0.0)}, len(values), rounded(values))


def inputs_hurt_more(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    cells, told = {}, {}
    for amount in ("2", "3"):
        x, x_error = cells_at(data, f"scale_x={amount}", data["places"][1:])
        y, y_error = cells_at(data, f"scale_y={amount}", data["places"][1:])
        cells[amount] = (x - y, np.hypot(x_error, y_error), 0.0)
        told[f"× {amount}: inputs, labels"] = [rounded(x.mean(0)), rounded(y.mean(0))]
    return judge_cells(cells, data["table"].sizes["seed"], told)


def scales_fail(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    if not data["known"]:
        return other_size("small, full or medium")
    cells, told = {}, {}
    for label in ("scale_x=3", "scale_y=3"):
        values, error = cells_at(data, label, data["places"][2:])
        cells[label] = (values, error, 0.9)
        told[label] = rounded(values[:, 0])
    return judge_cells(cells, data["table"].sizes["seed"], told)


def skewed_stays(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    if data["dim"] < 8:
        return other_size("medium or original")
    values, error = cells_at(data, "skewed", data["places"][2:])
    return judge_cells({"skewed": (values, error, 0.05)}, len(values), rounded(values[:, 0]))


def noted_table(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    if data["known"] not in SHIFTED:
        return other_size("small, full or medium")
    passed, far = [], {}
    for label, cells in SHIFTED[data["known"]].items():
        trivial = zero_error(SHIFTS.get(label), data["dim"])
        for place, known, factor in zip(data["places"], cells, (NEAR, FAR, FAR), strict=True):
            if known is None:
                continue
            value = float(data["table"]["error"].sel(shift=label, position=place).mean(skipna=False))
            if not np.isfinite(value):
                return Outcome(f"NaN at {label}", "failed")
            near = abs(value - known) <= 0.02 * trivial or abs(np.log(max(value, 1e-12) / known)) <= np.log(factor)
            passed.append(near)
            if not near:
                far[f"{label}, i = {place}"] = f"{value:.3g}, notes {known:g}"
    seeds = data["table"].sizes["seed"]
    told = {"cells within": f"{sum(passed)} of {len(passed)}", **far}
    return judge_true(sum(passed) >= SHARE * len(passed), told, seeds=seeds)


def formulas(data: Data) -> Outcome:
    """Least squares under every shift whose error has a closed form and a mean."""
    passed, largest, noisy = [], {}, False
    for label, shift in SHIFTS.items():
        if shift.name in ("noise", "noisyLR"):  # no mean near d
            continue
        part = data["table"].sel(shift=label, reference="least squares")
        positions = part["position"].values
        try:
            expected = least_squares_under(shift, positions, data["dim"])
        except MissingClosedForm:
            continue
        where = positions < data["dim"] if label == "orthogonal_train_test" else positions > 0
        values, error = part["base"].values[where], np.maximum(part["base_spread"].values[where], 1e-9)
        if not np.isfinite(values).all():
            return Outcome(f"NaN at {label}", "failed")
        noisy |= bool((error > 0.1 * zero_error(shift, data["dim"])).any())
        away = np.abs(values - expected[where]) / error
        largest[label] = round(float(away.max()), 2)
        passed += (away <= ERRORS).tolist()
    told = {"most, in standard errors": largest}
    return Outcome(told, "inconclusive") if noisy else judge_each(passed, told)


def moved(title: str, label: str, change, **where):
    """A counter-example that changes the errors under one shift."""
    return counter(title, "table/error", change, shift=label, **where)


FIGURE = Figure(
    id="fig_ood",
    title="the 14 shifted evaluations of the paper, and six more",
    collect=linear_data,
    draw=draw,
    example=functools.partial(linear_example, "medium"),
    claims=(
        Claim(
            "orthogonal", "On a query orthogonal to the context networks know that they know nothing: they answer 0, as least squares does.", "error 1, that of least squares on the same prompts, for 0 < i < d", f".05; {BOUND}", orthogonal, source="second-hand", before=False,
            reason="the bound of the notes, whose three seeds had .995 (d = 5, i = 2) and .985 (d = 8, i = 4)",
            counterexamples=(at_places("guesses are a fifth too large", "gap", plus(0.2), shift="orthogonal_train_test", reference="least squares"), counter("one seed sees the labels", "table/gap", plus(-0.1), shift="orthogonal_train_test", reference="least squares", seed=[0]), a_nan("table/gap", shift="orthogonal_train_test", position=2, seed=0)),
        ),
        Claim(
            "half_subspace", "On inputs of half the dimensions networks need half the pairs: they adapt to the subspace.", "error at most .1 at ⌊d/2⌋ pairs (without the subspace: .5 to .6)", BOUND, functools.partial(at_most, label="half_subspace", line=0.1, places=(0,)), source="second-hand", before=False,
            reason="the paper's notebook has .03 at d = 20; three seeds of the notes .064 (d = 5) and .066 (d = 8)",
            counterexamples=(moved("as without the subspace", "half_subspace", lambda a: a * 0 + 0.5), moved("two seeds do not adapt", "half_subspace", times(4.0), seed=SOME), a_nan("table/error", shift="half_subspace", seed=0)),
        ),
        Claim(
            "overlapping", "A query that was in the context is answered by its label.", "error at most .01 at ⌊d/2⌋, d and 2d pairs", BOUND, functools.partial(at_most, label="overlapping_train_test", line=0.01, places=(0, 1, 2)), source="ours", before=False,
            reason="three seeds of the notes: .002 to .007",
            counterexamples=(moved("it is not found", "overlapping_train_test", plus(0.05)), moved("two seeds do not find it", "overlapping_train_test", times(8.0), seed=SOME), a_nan("table/error", shift="overlapping_train_test", position=8, seed=0)),
        ),
        Claim(
            "inputs_hurt_more", "Larger inputs hurt more than larger labels.", "at 2 and 3 times, at d and 2d pairs, the error with larger inputs is above that with larger labels; least squares has the same", BOUND, inputs_hurt_more, source="second-hand", before=False,
            reason="the paper's notebook (d = 20): .71 and .11 at twice, 6.9 and .74 at three times, at d; three seeds of the notes have the same order",
            counterexamples=(moved("labels hurt as much", "scale_y=2", times(3.0)), moved("inputs do not hurt in one seed", "scale_x=3", times(0.05), seed=[0]), a_nan("table/error", shift="scale_y=3", position=8, seed=0)),
        ),
        Claim(
            "three_times_fails", "Small networks fail at three times the inputs and at three times the labels.", "error at 2d above a tenth of that of answering 0, .9", BOUND, scales_fail, source="ours", before=False,
            reason="three seeds of the notes: 2.2 and 1.1 (d = 5), 1.8 and 1.1 (d = 8); the paper's larger network has 5.3 and .21 (d = 20), so for labels this is about small networks",
            counterexamples=(moved("labels do no harm", "scale_y=3", times(0.1)), moved("one seed is robust", "scale_x=3", times(0.1), seed=[0]), a_nan("table/error", shift="scale_x=3", seed=0)),
        ),
        Claim(
            "skewed_stays", "With a skewed covariance of 8 and more dimensions the error does not go to 0.", "error at 2d above .05", BOUND, skewed_stays, source="second-hand", before=False,
            reason="the paper's notebook (d = 20) has .13 at 2d; three seeds of the notes .20 (d = 8), and .023 for d = 5, where this is not claimed",
            counterexamples=(moved("it goes to 0", "skewed", times(0.05)), moved("it does in two seeds", "skewed", times(0.05), seed=SOME), a_nan("table/error", shift="skewed", seed=0)),
        ),
        Claim(
            "noted_table", "Errors under all shifts are those of the notes.", "the crosses of the figure: 58 cells", f"nine cells in ten within a factor of {NEAR:g} at ⌊d/2⌋ and {FAR:g} at d and 2d, or within .02 of the error of answering 0; mean over seeds", noted_table, source="ours", before=False,
            reason="other seeds and other prompts; the notes find 5–30 % between seeds beyond d; nine in ten, because the rotation of four of the sets is drawn once",
            counterexamples=(counter("all errors twice as large", "table/error", times(2.0)), counter("all as without a shift", "table/error", lambda a: a * 0 + 0.1), counter("half as large at 2d and d", "table/error", times(0.4), position=[8, 16]), a_nan("table/error", shift="skewed", position=8, seed=0)),
        ),
        Claim(
            "formulas", "Least squares has under every shift the error of its formula.", "s²(1 − i/d)₊ for scaled inputs and labels, (1 − i/⌊d/2⌋)₊ in the subspace, 1 orthogonal, 0 overlapping, (1 − i/d)₊ for quadrants, (1 + m²)(1 − i/d)₊ for a prior mean m", f"{ERRORS:g} standard errors over prompts, which are at most a tenth of the error of answering 0", formulas, source="theory",
            reason="closed forms; noise is left out, where the mean does not exist near d",
            counterexamples=(counter("s instead of s²", "table/base", times(0.5), shift="scale_x=2", reference="least squares"), counter("no subspace", "table/base", plus(0.3), shift="half_subspace", reference="least squares"), counter("too few prompts to tell", "table/base_spread", times(500.0)), a_nan("table/base", shift="scale_y=3", position=2)),
        ),
    ),
    choices=(
        Choice("bounds", "those of the notes", "three seeds of the notes and the paper's notebook figures had been seen, none of ours", "the notes' bounds; 'both scales fail at 3' of the notes is kept for small networks only: the paper's own figure has .21 of 9 for labels"),
        Choice("the peak of noisy labels at i = d", "nothing", "the notes see it in the paper's network and hardly in small ones", "drawn and not judged"),
    ),
    setup="""the networks of fig_linear (trained without noise), 1280 prompts of every shift, all from the same draws, the same for every network and for least squares
half_subspace, skewed and condition_number: one random rotation for the whole set; noisyLR: noise of variance 1, labels scaled to variance d, 64 prompts together
errors against labels as shown; with noise the error of least squares has no mean from d − 1 to d + 1 pairs and is left out there; 2 programs for all networks and shifts, one for the algorithms""",
    cost="a minute on 2 cores after fig_linear",
)  # fmt: skip
