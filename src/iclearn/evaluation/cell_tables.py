"""The tables of an evaluation, filled shift by shift from answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .cell_bands import Resampler

CELL, REFERENCED = ("shift", "predictor", "position"), ("shift", "predictor", "reference", "position")
Tables = dict[str, tuple[tuple[str, ...], np.ndarray]]


def empty_tables(shifts: int, predictors: int, references: int, positions: int) -> Tables:
    """Tables of NaN, by name, with their axes.

    ``error`` is the mean or, where ``is_mean`` is false, the median over prompts, with its band; ``difference`` the
    same of the error minus that of a reference on the same prompts; ``distance`` that of the squared difference of the
    answers; ``preference`` the distance to Bayes that knows the shift minus that to Bayes that does not.

    Args:
        shifts: how many.
        predictors: how many.
        references: how many.
        positions: how many.

    Returns:
        Name → (axes, array).
    """
    cell, referenced = (shifts, predictors, positions), (shifts, predictors, references, positions)
    banded = ("error", "error_low", "error_high", "error_mean", "error_median", "error_std")
    tables: Tables = {name: (CELL, np.full(cell, np.nan)) for name in banded}
    tables["is_mean"] = (CELL, np.ones(cell, bool))
    for name in ("difference", "difference_low", "difference_high", "distance"):
        tables[name] = (REFERENCED, np.full(referenced, np.nan))
    for name in ("preference", "preference_low", "preference_high"):
        tables[name] = (CELL, np.full(cell, np.nan))
    tables["prompts"] = (("shift", "predictor"), np.zeros((shifts, predictors), int))
    return tables


def fill_tables(
    tables: Tables, row: int, labels: Sequence[str], references: Sequence[str], answers: Mapping[str, np.ndarray],
    targets: np.ndarray, scale: float | None, exists: Mapping[str, np.ndarray], asked: slice, resampler: Resampler,
    bayes: tuple[str, str],
) -> None:  # fmt: skip
    """Fill the row of one shift.

    Args:
        tables: of `empty_tables`.
        row: of the shift.
        labels: of the predictors, in order.
        references: those among them that others are compared with.
        answers: predictor → (prompt, position); those with fewer prompts have the first ones.
        targets: (prompt, position) what answers are measured against.
        scale: that squared errors are divided by (None: labels are ±1, and wrong signs are counted).
        exists: predictor → (position) whether means of its errors exist.
        asked: positions that have a query.
        resampler: of the bands.
        bayes: names of Bayes that knows the shift and of the one that does not.
    """
    length = targets.shape[1]
    errors = {name: _errors(found, targets[: len(found)], scale) for name, found in answers.items()}
    unit = 1.0 if scale is None else scale
    groups: dict[int, list[tuple[tuple[str, ...], tuple[int, ...], np.ndarray, np.ndarray]]] = {}
    keep = np.zeros(length, bool)
    keep[asked] = True
    for at, name in enumerate(labels):
        if name not in answers:
            continue
        own, count = answers[name], len(answers[name])
        tables["prompts"][1][row, at] = count
        tables["is_mean"][1][row, at, :length] = exists[name]
        columns = groups.setdefault(count, [])
        cell = ("error", "error_low", "error_high", "error_mean", "error_median", "error_std")
        columns.append((cell, (row, at), errors[name], exists[name]))
        for to, other in enumerate(references):
            if other in answers and len(answers[other]) >= count:
                both = exists[name] & exists[other]
                apart = (own - answers[other][:count]) ** 2 / unit
                banded = ("difference", "difference_low", "difference_high")
                columns.append((banded, (row, at, to), errors[name] - errors[other][:count], both))
                columns.append((("distance",), (row, at, to), apart, both))
        if all(one in answers and len(answers[one]) >= count for one in bayes):
            knows, trained = ((own - answers[one][:count]) ** 2 / unit for one in bayes)
            both = exists[name] & exists[bayes[0]] & exists[bayes[1]]
            banded = ("preference", "preference_low", "preference_high")
            columns.append((banded, (row, at), knows - trained, both))
    for columns in groups.values():
        values = np.concatenate([np.where(keep, part, np.nan) for _, _, part, _ in columns], 1)
        found = resampler.summary(values, np.concatenate([mean for *_, mean in columns]))
        order = [found[name] for name in ("value", "low", "high", "mean", "median", "std")]
        for number, (names, place, _, _) in enumerate(columns):
            part = slice(number * length, (number + 1) * length)
            for name, column in zip(names, order, strict=False):
                tables[name][1][(*place, slice(0, length))] = column[part]


def label_tables(data: Any, scale: float | None, level: float) -> None:
    """Say in the attributes of every table what it is, its unit, and what squared errors were divided by.

    Args:
        data: the dataset of the tables.
        scale: as for `fill_tables`.
        level: of the bands.
    """
    wrong = scale is None
    error = "share of answers with the wrong sign" if wrong else "squared error"
    value = f"{error}: the mean over prompts where is_mean, else the median"
    between = "squared difference between the answers and those of"
    meanings = {
        "error": value, "error_mean": f"{error}: mean over prompts", "error_median": f"{error}: median over prompts",
        "error_std": f"{error}: standard deviation over prompts",
        "difference": f"{value}, minus that of the reference on the same prompts",
        "distance": f"{between} the reference",
        "preference": f"{between} bayes_shifted, minus those of bayes_training",
    }  # fmt: skip
    ends = {"low": "lower", "high": "upper"}
    for name in ("error", "difference", "preference"):
        meanings |= {f"{name}_{end}": f"{word} end of the {level:.0%} band of {name}" for end, word in ends.items()}
    for name, meaning in meanings.items():
        share = wrong and name.startswith(("error", "difference"))
        by = scale or 1.0
        unit = {"units": "1"} if share else {"units": "label²" if by == 1 else f"label²/{by:g}", "normalizer": by}
        data[name].attrs.update(long_name=meaning, **unit)
    data["is_mean"].attrs["long_name"] = "whether error is a mean; else it is a median"
    data["prompts"].attrs["long_name"] = "prompts that were asked"


def _errors(found: np.ndarray, targets: np.ndarray, scale: float | None) -> np.ndarray:
    if scale is None:
        wrong: Any = np.sign(found) != targets
        return np.where(np.isnan(found), np.nan, wrong)
    with np.errstate(over="ignore", invalid="ignore"):
        return (found - targets) ** 2 / scale
