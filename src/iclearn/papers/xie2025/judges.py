"""How the claims of xie2025 turn arrays over seeds into verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..base import Outcome, Word, judge_close
from ..judging import judge_groups, standard_error, worst

NEAR = 0.15  # of a predicted noise floor: next orders in the learning rate, 8192 prompts for σ_i
REST = 0.10  # an excess that fell by more than this from the third fifth of the steps to the last has not come to rest
BELOW = 1e-9  # relative: rounding of an exact loss at its optimum


def cells_of(passed: xr.DataArray) -> dict[Any, list[bool]]:
    """What each group of runs says: the values over seeds for every label of the other axes."""
    others = [dim for dim in passed.dims if dim != "seed"]
    if not others:
        return {"all": [bool(p) for p in passed.values]}
    flat = passed.transpose(*others, "seed").values.reshape(-1, passed.sizes["seed"])
    return {index: [bool(p) for p in row] for index, row in enumerate(flat)}


def judge_cells(passed: xr.DataArray, measured: Any, *, finite: xr.DataArray | None = None) -> Outcome:
    """A statement on every seed of every cell, judged cell by cell; NaN in `finite` fails it."""
    if finite is not None and not np.isfinite(finite.values).all():
        return Outcome(measured, "failed", passed.size)
    return judge_groups(cells_of(passed), measured)


def judge_optima(loss: xr.DataArray, best: Any, above: float) -> Outcome:
    """Exact training ends at an optimum: in every cell, less than `above` (relative) over it.

    A loss below an optimum contradicts it, in whichever seed.
    """
    off = loss / best - 1
    measured = {"lowest": float(off.min()), "highest": float(off.max())}
    outcome = judge_cells(off < above, measured, finite=off)
    if outcome.verdict != "failed" and float(off.min()) < -BELOW:
        return Outcome(measured, "contradicted", outcome.seeds)
    return outcome


def judge_together(measured: Any, parts: Sequence[Outcome]) -> Outcome:
    """Several judgments that must all hold: as good as the worst of them."""
    words: list[Word] = [part.verdict for part in parts]
    return Outcome(measured, worst(*words), sum(part.seeds for part in parts))


def judge_near_one(ratio: xr.DataArray, tolerance: float, what: str) -> Outcome:
    """A ratio is 1 within a tolerance, in every seed of every cell."""
    measured = {what: {"lowest": float(ratio.min()), "highest": float(ratio.max())}}
    return judge_cells(abs(ratio - 1) < tolerance, measured, finite=ratio)


def word_below(values: np.ndarray, line: float, errors: float) -> Word:
    """Whether a mean over seeds is below a line, so many standard errors included; contradicted where it is above."""
    if not np.isfinite(values).all():
        return "failed"
    reach = errors * standard_error(values)
    return (
        "reproduced"
        if values.mean() + reach < line
        else "contradicted"
        if values.mean() - reach > line
        else "inconclusive"
    )


def unless_moving(word: Word, off: bool, earlier: np.ndarray, late: np.ndarray) -> Word:
    """The same word, but unfinished where a mean is off its goal and losses above an optimum, over seeds, still fall."""
    still = np.mean(earlier) > (1 + REST) * np.mean(late)
    return "unfinished" if off and still and word in ("contradicted", "inconclusive") else word


def judge_floor(rest: xr.Dataset, best: xr.DataArray, names: Sequence[str]) -> Outcome:
    """Training comes to rest at the predicted noise floor above each optimum, judged cell by cell.

    Args:
        rest: `late`, `earlier` and `floor` of `rest_of_runs`, with one axis besides seed and member.
        best: the optimum of each cell, with the same axis and member.
        names: how the labels of that axis are told.

    A cell off by `NEAR` or by two standard errors whose excess still falls is unfinished. Reproduced where the mean over seeds of excess / floor is 1 within
    `NEAR` and twice its standard error is below `NEAR`; contradicted beyond three
    times `NEAR`, and beyond `NEAR` by two standard errors.
    """
    (axis,) = [dim for dim in best.dims if dim != "member"]
    words: list[Word] = []
    told: dict[str, str] = {}
    for label, name in zip(rest[axis].values, names, strict=True):
        for member in rest["member"].values:
            cell = {axis: label, "member": member}
            late, earlier = ((rest[k].sel(cell) - best.sel(cell)).values for k in ("late", "earlier"))
            ratio = late / rest["floor"].sel(cell).values
            error, word = standard_error(ratio), judge_close(float(ratio.mean()), 1.0, NEAR).verdict
            away = abs(ratio.mean() - 1)
            if (word == "reproduced" and not 2 * error < NEAR) or (word == "contradicted" and away - 2 * error < NEAR):
                word = "inconclusive"
            word = unless_moving(word, away > min(NEAR, 2 * error), earlier, late)
            words.append(word)
            told[f"{name}, {member}"] = f"{late.mean():.4f} = {ratio.mean():.2f} ± {error:.2f} floors ({word})"
    return Outcome({"loss above the optimum": told}, worst(*words), rest.sizes["seed"])
