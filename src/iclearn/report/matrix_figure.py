"""Figures of an out-of-distribution matrix: a heat map, curves of every shift, and continuous shifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..evaluation.stored_matrix import Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GRAY = "#777777"
# What curves are drawn of, beside the runs, and how.
STYLES: dict[str, dict[str, Any]] = {
    "least_squares": {"color": "#D55E00", "ls": "--"},
    "bayes_shifted": {"color": "#009E73", "ls": "-."},
    "bayes_training": {"color": "#CC79A7", "ls": ":"},
    "neighbors=3": {"color": "#E69F00", "ls": "-", "lw": 1.1},
    "zero": {"color": GRAY, "ls": "-", "lw": 0.8},
}
WORDS = {
    "least_squares": "least squares", "bayes_shifted": "Bayes, knows the shift", "zero": "answering 0",
    "bayes_training": "Bayes of the training law", "neighbors=3": "3 nearest neighbors",
}  # fmt: skip
RUN_COLORS = ("#000000", "#0072B2", "#56B4E9", "#8A0050")
LINE = ("error", "error_low", "error_high", "is_mean")  # what a line is drawn from
LEAST = 1e-4  # errors below are drawn there


def words_of(name: str) -> str:
    """How a predictor or a shift is written in a figure.

    >>> words_of("least_squares"), words_of("scale_x=2")
    ('least squares', 'scale x = 2')
    """
    return WORDS.get(name, name.replace("_", " ").replace("=", " = "))


def heat_map(matrix: Matrix) -> Figure:
    """Errors of every predictor under every named shift at the positions of tables, colored by how much better than 0.

    Args:
        matrix: the evaluation.

    Returns:
        The figure: a panel for the least and the largest of these positions, numbers in the cells.
    """
    import matplotlib.pyplot as plt

    told = matrix.told_positions()
    panels = (told[0], told[-1]) if len(told) > 1 else told
    rows = _named_shifts(matrix)
    names = [n for n in matrix.predictors if n != "zero"]
    data = matrix.data.sel(shift=rows, predictor=names)
    trivial = _trivial(matrix, rows)
    size = (3.4 + 0.5 * len(names), 2.3 + 0.29 * len(rows) * len(panels))
    figure, axes = plt.subplots(len(panels), 1, figsize=size, sharex=True, squeeze=False)
    picture = None
    for place, position in zip(axes[:, 0], panels, strict=True):
        errors = data["error"].sel(position=position).values
        share = np.log10(np.clip(errors, LEAST, None) / trivial.sel(position=position).values[:, None])
        picture = place.imshow(share, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
        place.set_facecolor("#eeeeee")
        means = data["is_mean"].sel(position=position).values
        for i, j in np.ndindex(errors.shape):
            if np.isfinite(errors[i, j]):
                dark = abs(np.clip(share[i, j], -2, 2)) > 1.2
                text = short_number(float(errors[i, j])) + ("" if means[i, j] else "*")
                color = "white" if dark else "black"
                place.text(j, i, text, ha="center", va="center", fontsize=7.5, color=color)
        place.set_xticks(range(len(names)), [words_of(n) for n in names], rotation=55, ha="right", fontsize=9)
        place.set_yticks(range(len(rows)), [words_of(r) for r in rows], fontsize=9)
        place.tick_params(length=0)
        place.spines[:].set_visible(False)
        place.set_title(f"after {position} pairs", loc="left")
    if picture is not None:
        bar = figure.colorbar(picture, ax=list(axes[:, 0]), shrink=0.5, pad=0.01)
        bar.set_ticks([-2, -1, 0, 1, 2], labels=["1/100", "1/10", "1", "10", "100"])
        bar.set_label("error / error of answering 0")
    figure.suptitle(f"Errors under shifts{_unit(matrix)}; * median", x=0.01, ha="left", fontsize=12)
    return figure


def shift_curves(matrix: Matrix) -> Figure | None:
    """Error against the number of pairs, a panel for each named shift.

    Args:
        matrix: the evaluation.

    Returns:
        The figure; bands of the runs are shaded, medians have open markers. None where one position was asked.
    """
    import matplotlib.pyplot as plt

    if np.isfinite(matrix.data["error"].values).any((0, 1)).sum() < 2:
        return None
    rows, last = _named_shifts(matrix), matrix.facts["points"]
    columns = min(4, len(rows))
    height = -(-len(rows) // columns)
    figure, axes = plt.subplots(
        height, columns, figsize=(3.1 * columns, 2.35 * height + 0.7), squeeze=False, sharex=True
    )
    drawn = _drawn(matrix)
    for place, row in zip(axes.flat, rows, strict=False):
        for name, style in drawn.items():
            _curve(place, matrix, row, name, style, last)
        place.set_title(words_of(row), fontsize=10.5, loc="left")
        _log_axis(place)
    for place in axes.flat[len(rows) :]:
        place.set_axis_off()
    for place in axes[-1]:
        place.set_xlabel("pairs seen")
    for place in axes.flat[max(0, len(rows) - columns) : len(rows)]:
        place.tick_params(labelbottom=True)
        place.set_xlabel("pairs seen")
    for place in axes[:, 0]:
        place.set_ylabel("error")
    _legend(figure, axes.flat[0], matrix)
    return figure


def sweep_curves(matrix: Matrix) -> Figure | None:
    """Error after the most pairs of training against the amount of each continuous shift.

    Args:
        matrix: the evaluation.

    Returns:
        The figure; None where no shift has three amounts or more.
    """
    import matplotlib.pyplot as plt

    names, amounts = matrix.data["shift_name"].values, matrix.data["amount"].values
    groups = {str(n): np.flatnonzero((names == n) & np.isfinite(amounts)) for n in dict.fromkeys(names)}
    groups = {n: rows[np.argsort(amounts[rows])] for n, rows in groups.items() if len(rows) > 2}
    if not groups:
        return None
    columns = min(3, len(groups))
    height = -(-len(groups) // columns)
    figure, axes = plt.subplots(height, columns, figsize=(4 * columns, 2.7 * height + 0.7), squeeze=False)
    drawn = _drawn(matrix)
    usual = matrix.facts["points"] - 1
    for place, (shift, rows) in zip(axes.flat, groups.items(), strict=False):
        at = np.round((usual + 1) * amounts[rows]).astype(int) - 1 if shift == "length" else np.full(len(rows), usual)
        for name, style in drawn.items():
            here = matrix.data.sel(predictor=name)
            _line(place, amounts[rows], [here[part].values[rows, at] for part in LINE], style)
        place.set_title(words_of(shift), fontsize=11, loc="left")
        if (amounts[rows] > 0).all() and amounts[rows].max() / amounts[rows].min() > 4:
            place.set_xscale("log")
        place.set_xticks(amounts[rows], _apart(amounts[rows], place.get_xscale() == "log"))
        place.minorticks_off()
        _log_axis(place)
        place.set_xlabel("amount")
    for place in axes.flat[len(groups) :]:
        place.set_axis_off()
    for place in axes[:, 0]:
        place.set_ylabel("error at the last query")
    _legend(figure, axes.flat[0], matrix)
    return figure


def short_number(value: float) -> str:
    """A number in four characters or so.

    >>> [short_number(v) for v in (0.0123, 0.5, 3.14159, 123.4, 123456.0, 1e-9)]
    ['.012', '.50', '3.1', '123', '1e5', '0']
    """
    if value < 5e-4:
        return "0"
    if value < 0.0995:
        return f"{value:.3f}"[1:]
    if value < 0.995:
        return f"{value:.2f}"[1:]
    if value < 9.95:
        return f"{value:.1f}"
    return f"{value:.0f}" if value < 9999.5 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def _apart(amounts: np.ndarray, log: bool) -> list[str]:
    """Labels of ticks, but for those that would run into the one before them.

    >>> _apart(np.array([0.25, 0.333, 0.5, 1.0, 4.0]), True)
    ['0.25', '', '0.5', '1', '4']
    """
    place = np.log(amounts) if log else amounts
    labels, last = [], -np.inf
    for value, where in zip(amounts, place, strict=True):
        free = where - last > 0.12 * (place[-1] - place[0])
        labels.append(f"{value:g}" if free else "")
        last = where if free else last
    return labels


def _unit(matrix: Matrix) -> str:
    if matrix.facts["metric"] == "misclassified":
        return " (share of wrong signs)"
    return f", divided by {matrix.facts['normalizer']:g}" if matrix.facts["normalizer"] != 1 else ""


def _named_shifts(matrix: Matrix) -> list[str]:
    """The shifts that are no grid of amounts; where all are, all."""
    names = list(matrix.data["shift_name"].values)
    listed = [s for s, n in zip(matrix.shifts, names, strict=True) if names.count(n) < 3 or s in _GARG]
    return listed or list(matrix.shifts)


_GARG = {f"scale_{axis}={s:g}" for axis in "xy" for s in (0.333, 0.5, 2.0, 3.0)}


def _trivial(matrix: Matrix, rows: list[str]) -> Any:
    """The errors of answering 0; those of nobody having seen a pair where that was not evaluated."""
    data = matrix.data["error"].sel(shift=rows)
    if "zero" in matrix.predictors:
        return data.sel(predictor="zero")
    first = data.sel(predictor="least_squares")
    return first.isel(position=0).fillna(first.isel(position=1)).broadcast_like(first)


def _drawn(matrix: Matrix) -> dict[str, dict[str, Any]]:
    runs = {
        name: {"color": RUN_COLORS[i % len(RUN_COLORS)], "ls": "-", "lw": 2.2, "band": True, "zorder": 5}
        for i, name in enumerate(matrix.runs)
    }
    others = {name: style for name, style in STYLES.items() if name in matrix.predictors}
    if not runs:  # a comparison of predictors alone
        extra = [n for n in matrix.predictors if n not in STYLES][:6]
        runs = {n: {"color": f"C{(i + 1) % 8}", "ls": "-", "lw": 1.2} for i, n in enumerate(extra)}
    return runs | others


def _curve(place: Axes, matrix: Matrix, row: str, name: str, style: dict[str, Any], last: int) -> None:
    here = matrix.data.sel(shift=row, predictor=name)
    length = last if not row.startswith("length") else here.sizes["position"]
    _line(place, np.arange(length), [here[part].values[:length] for part in LINE], style)


def _line(place: Axes, x: np.ndarray, parts: list[np.ndarray], style: dict[str, Any]) -> None:
    error, low, high, mean = parts
    known = np.isfinite(error)
    if not known.any():
        return
    plain = {key: value for key, value in style.items() if key != "band"}
    place.plot(x, np.where(known & mean, np.maximum(error, LEAST), np.nan), **plain)  # medians are no part of the line
    if style.get("band"):
        bottom, top = (np.where(known & mean, np.maximum(side, LEAST), np.nan) for side in (low, high))
        place.fill_between(x, bottom, top, color=style["color"], alpha=0.2, lw=0)
    open_ = known & ~mean
    if open_.any():
        place.plot(x[open_], np.maximum(error[open_], LEAST), ls="", marker="o", ms=4.5, mfc="white",
                   mec=style["color"], zorder=6)  # fmt: skip


def _log_axis(place: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator

    place.set_yscale("log")
    low, high = place.get_ylim()
    place.set_ylim(max(low, LEAST * 0.8), min(high, 1e3))
    low, high = place.get_ylim()
    place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 40 else (1,), numticks=6))
    place.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    place.yaxis.minorticks_off()


def _legend(figure: Figure, place: Axes, matrix: Matrix) -> None:
    from matplotlib.lines import Line2D

    handles = []
    for name, style in _drawn(matrix).items():
        plain = {key: value for key, value in style.items() if key in ("color", "ls", "lw")}
        about = matrix.facts["runs"].get(name, {}).get("model", "")
        handles.append(Line2D([], [], label=f"{name}: {about}" if about else words_of(name), **plain))
    if not matrix.data["is_mean"].values.all():
        handles.append(Line2D([], [], ls="", marker="o", mfc="white", mec=GRAY, label="median: no mean exists"))
    figure.legend(handles=handles, loc="outside upper left", ncols=3, fontsize=9)
