"""The runs of a store as a table with their loss curves: filter, sort, choose some and compare them."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..core.trace import Trace
from ..store.runs import Store, Summary

POINTS = 300  # of a curve
MOST = 500  # runs of a store, the newest first
SHOWN = 5  # curves that are drawn at first


def is_store(folder: Path) -> bool:
    """Whether a folder holds stored runs."""
    return next(folder.glob("*.zarr"), None) is not None


def thinned(loss: np.ndarray) -> tuple[list[int], list[float | None]]:
    """Some steps of a curve and the loss there: a third even in time, one in its logarithm, one along the loss.

    Args:
        loss: at every step.

    Returns:
        The steps and the losses, with five digits; None where a loss is not finite.

    >>> thinned(np.array([1.0, 0.5, np.nan]))
    ([0, 1, 2], [1.0, 0.5, None])
    """
    third, steps = POINTS // 3, np.arange(len(loss))
    even, log = np.linspace(0, len(loss) - 1, third), np.geomspace(1, len(loss), third) - 1
    way = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(np.nan_to_num(loss))))])
    moving = np.interp(np.linspace(0, way[-1], third), way, steps)
    chosen = np.unique(np.concatenate([even, log, moving]).round().astype(int))
    digits = [float(f"{value:.5g}") if np.isfinite(value) else None for value in loss[chosen]]
    return chosen.tolist(), digits


def store_section(folder: Path, curves: dict[str, Any]) -> str:
    """The runs of a store as HTML; their curves go into `curves`.

    Args:
        folder: of the store.
        curves: name of a chart → its curves, as the page's script draws them.

    Returns:
        One section.
    """
    rows, found = [], []
    summaries = Store(folder).list()
    for summary in summaries[:MOST]:
        try:
            recipe, trace = Recipe.from_dict(summary.recipe), Trace.load(summary.path)
        except IclearnError:
            continue  # a run of a task or model that is not installed here
        steps, loss = thinned(trace.loss.values.astype(float))
        found.append({"label": f"{summary.run_id[:8]}: {recipe.describe()}", "steps": steps, "loss": loss})
        rows.append(_row(summary, recipe, len(rows)))
    place = folder.resolve()
    name, anchor = f"{place.parent.name}/{place.name}", f"runs-{place.parent.name}-{place.name}"
    curves[anchor] = found
    older = f" The newest {MOST} of {len(summaries)} are here." if len(summaries) > MOST else ""
    names = ("show", "run", "model", "task", "steps", "seed", "lr", "final loss", "status", "made")
    head = "".join(
        f'<th scope="col" data-sort="{i}"><button type="button">{name}</button></th>' for i, name in enumerate(names)
    )
    return (
        f'<section class="paper runs" id="{anchor}" data-runs="{anchor}"><h2>Runs in {html.escape(name)}</h2>'
        f"<p>{len(found)} stored runs.{older} Choose some to compare their loss.</p>"
        f'<div class="chart" role="img" aria-label="loss of the chosen runs"></div>'
        '<label class="switch"><input type="checkbox"> logarithmic time</label><output></output>'
        '<form class="filters" role="search"><label>search <input type="search" data-search></label>'
        '<button type="button" data-choose="all">show all found</button>'
        '<button type="button" data-choose="none">none</button><output data-count></output></form>'
        '<div class="scroll" tabindex="0" role="region" aria-label="table of runs"><table class="sortable">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _row(summary: Summary, recipe: Recipe, number: int) -> str:
    cells = (
        summary.run_id[:8], recipe.model.describe(), recipe.task.describe(), str(summary.steps), str(recipe.seed),
        f"{recipe.optimizer.lr:g}", f"{summary.final_loss:.5g}", summary.status, summary.created[:16],
    )  # fmt: skip
    chosen = "checked" if number < SHOWN else ""
    box = f'<input type="checkbox" data-run="{number}" aria-label="show run {cells[0]}" {chosen}>'
    return f"<tr><td>{box}</td>{''.join(f'<td>{html.escape(cell)}</td>' for cell in cells)}</tr>"
