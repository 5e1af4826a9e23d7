"""How claims on trained transformers are judged: Student's bound over seeds, pool by pool, and all pools together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..base import Counterexample, Data
from ..judging import Outcome, Word, judge_above, worst
from ..perturbing import changed

BOUND = "one-sided 95 % bound of the mean over seeds (Student), every pool by itself"
MEMORIZED = 0.1  # of Δ(ridge, dMMSE): what Δ(transformer, dMMSE) is at most on a pool that is memorized
SOME = [0, 1]  # seeds that counter-examples change


def ends(table: xr.Dataset, test: str, reference: str) -> xr.DataArray:
    """(seed, pool) Δ between the transformer at the end of training and a reference.

    Args:
        table: of one length.
        test: ``pool`` or ``new``.
        reference: ``truth``, ``ridge`` or ``dmmse``.

    Returns:
        The distances.
    """
    return table["delta"].isel(record=-1).sel(test=test, reference=reference).transpose("seed", "pool")


def known(table: xr.Dataset, test: str, pair: str) -> xr.DataArray:
    """(seed, pool) Δ between two references."""
    return table["between"].sel(test=test, pair=pair).transpose("seed", "pool")


def left_to_memorize(table: xr.Dataset) -> xr.DataArray:
    """(seed, pool) Δ(transformer, dMMSE) at the end of training over Δ(ridge, dMMSE), on the pool."""
    return ends(table, "pool", "dmmse") / known(table, "pool", "dmmse-ridge")


def of_role(data: Data, role: str, table: str) -> list[int]:
    """The pools of a role that a table has."""
    there = data[table]["pool"].values.tolist()
    return [size for size in getattr(data["roles"], role) if size in there]


def pools_above(values: Mapping[str, np.ndarray], line: float, told: Mapping[str, np.ndarray] | None = None) -> Outcome:
    """Several numbers over seeds that must all be above a line; the verdict is the worst of them.

    Args:
        values: name → (seed) the numbers.
        line: the line.
        told: name → (seed) what is shown for them (default: the numbers).

    Returns:
        The outcome, with mean and standard deviation over seeds of each.
    """
    shown = {name: spread_of(rows) for name, rows in (told or values).items()}
    words: list[Word] = [judge_above(rows, line).verdict for rows in values.values()]
    return Outcome(shown, worst(*words), max((len(rows) for rows in values.values()), default=0))


def spread_of(rows: np.ndarray) -> str:
    """Mean and standard deviation in words.

    >>> spread_of(np.array([0.1, 0.12]))
    '0.11 ± 0.0141'
    """
    return f"{np.mean(rows):.3g} ± {np.std(rows, ddof=1):.3g}" if len(rows) > 1 else f"{np.mean(rows):.3g}"


def unfinished(data: Data, *, directions: bool = False) -> Outcome | None:
    """The verdict on a claim for which the training of the preset is too short; None where it is not.

    Args:
        data: the figure's data; ``scope`` says what can be judged.
        directions: whether the claim is one of those that the small preset can show.

    Returns:
        The outcome, or None.
    """
    if data["scope"] == "all" or (directions and data["scope"] == "directions"):
        return None
    return Outcome(f"needs --preset {'small or full' if directions else 'full'}", "unfinished")


def at_role(
    title: str, role: str, table: str, change: Callable[[Any], Any], variable: str = "delta", **where: Any
) -> Counterexample:
    """A counter-example that changes a table at the pools of a role.

    Args:
        title: of it.
        role: as `Roles` names it.
        table: ``short`` or ``long``.
        change: from the values to the new ones.
        variable: of the table.
        where: other labels.

    Returns:
        The counter-example.
    """
    return Counterexample(
        title, lambda data: changed(data, f"{table}/{variable}", change, pool=of_role(data, role, table), **where)
    )
