"""A stored sweep as a phase diagram whose cells show their runs: settings, numbers, curves, how to train each again.

The numbers of all runs go into the page as packed arrays, so that the page can put any two axes beside each other. What
does not fit a page that can be sent around is left out, and the page says what.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import to_hex

from ..core.reader import plain_value
from ..sweeps.axes import Axis, is_number
from ..sweeps.folder import SweepFolder
from ..sweeps.plan import Plan
from ..sweeps.schema import STATUS, samples_of, schema

LARGEST = 8 * 2**20  # characters of one sweep's numbers
MOST_RUNS = 300_000
CURVE_NUMBERS, CURVE_POINTS = 3_000_000, (24, 300)  # of all curves together; of one, at least and at most
DIGITS, CURVE_DIGITS = 17, 12  # bits of a number's fraction that are kept: five digits, between three and four
ENDED = ("first_loss", "minimum", "status_step")  # numbers that mean the same for a run that diverged


def is_sweep(folder: Path) -> bool:
    """Whether a folder is one that `iclearn sweep` fills."""
    return (folder / "plan.json").is_file() and (folder / "data.zarr").is_dir()


def sweeps_in(folder: Path) -> list[Path]:
    """The sweep that a folder is, or those that lie in it, as in the folder of a shipped sweep."""
    if is_sweep(folder):
        return [folder]
    return sorted(path.parent for path in folder.glob("*/plan.json") if is_sweep(path.parent))


def packed(numbers: np.ndarray, bits: int) -> str:
    """Numbers as text: float32, those that are no whole numbers rounded, bytes by their place, gzip, base64.

    Args:
        numbers: any shape.
        bits: of the fraction that are kept, of the 23 that float32 has.

    Returns:
        The text, which the page's script unpacks.

    >>> raw = gzip.decompress(base64.b64decode(packed(np.array([1.0, np.nan, 0.1]), 12)))
    >>> np.frombuffer(raw, np.uint8).reshape(4, -1).T.copy().view("<f4").ravel()
    array([1.       ,       nan, 0.1000061], dtype=float32)
    """
    with np.errstate(over="ignore"):
        short = np.ascontiguousarray(numbers, "<f4").reshape(-1)
    rounded = np.isfinite(short) & (short != np.round(short))
    places = short.view("<u4").copy()
    drop = 23 - bits
    places[rounded] = (places[rounded] + (1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)
    return base64.b64encode(gzip.compress(places.view(np.uint8).reshape(-1, 4).T.tobytes(), 6, mtime=0)).decode()


def labels_of(axis: Axis) -> list[str]:
    """What stands at the points of an axis: their coordinates, or the values where those are only numbered.

    >>> labels_of(Axis("lr", ("optimizer.lr",), ((0.1,), (0.2,)), (0.1, 0.2)))
    ['0.1', '0.2']
    >>> labels_of(Axis("spectrum", ("task.eigenvalues",), (((0.5, 0.5),), ((0.7, 0.3),)), (0, 1)))
    ['[0.5, 0.5]', '[0.7, 0.3]']
    """
    if list(axis.coords) != list(range(len(axis))) or all(is_number(row[0]) for row in axis.values):
        texts = [f"{c:.4g}" if isinstance(c, float) else str(c) for c in axis.coords]
        return texts if len(set(texts)) == len(texts) else [str(c) for c in axis.coords]
    texts = [", ".join(map(_worded, row)) for row in zip(*(_told(axis.column(f)) for f in axis.fields), strict=True)]
    return [f"{i}: {text[:44]}…" if len(text) > 48 else text for i, text in enumerate(texts)]


def _told(column: Sequence[Any]) -> list[Any]:
    """Values of a field as plain ones; of specs only what differs between them."""
    plain = [plain_value(value) for value in column]
    if not all(isinstance(value, dict) for value in plain):
        return plain
    names = dict.fromkeys(name for value in plain for name in value)
    differ = [name for name in names if len({json.dumps(value.get(name)) for value in plain}) > 1]
    return [{name: value[name] for name in differ if name in value} for value in plain]


def _worded(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(part)}" for name, part in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def sweep_section(folder: Path, sweeps: dict[str, Any]) -> str:
    """A sweep as HTML; its numbers go into `sweeps`.

    Args:
        folder: of the sweep.
        sweeps: name of a section → what the page's script draws of it.

    Returns:
        One section.
    """
    opened = SweepFolder.open(folder)
    place = folder.resolve()
    anchor = f"sweep-{place.parent.name}-{place.name}"
    facts = sweep_facts(opened)
    sweeps[anchor] = facts
    sizes = " × ".join(f"{len(axis)} {axis.name}" for axis in opened.plan.axes)
    ended = ", ".join(f"{count} {word}" for word, count in facts["ended"].items() if count)
    left_out = "".join(f" {html.escape(line)}" for line in facts["left_out"])
    chosen = (
        '<form class="filters" aria-label="what the diagram shows"></form>'
        '<div class="diagram"><canvas tabindex="0" role="application"></canvas></div>'
        '<p class="told"><output aria-live="polite"></output></p>'
        '<p class="filters"><button type="button" data-save="png">Save picture (PNG)</button>'
        '<button type="button" data-save="csv">Save table (CSV)</button></p>'
        "<details class='cells'><summary>The diagram as a table</summary>"
        '<div class="scroll" tabindex="0" role="region" aria-label="the diagram as a table"></div></details>'
    )
    return (
        f'<section class="paper sweep" id="{anchor}" data-sweep="{anchor}">'
        f"<h2>Sweep {html.escape(opened.plan.name)}</h2>"
        f"<p>{opened.plan.num_runs} runs: {html.escape(sizes)}. {html.escape(ended)}.{left_out}</p>"
        f'<div class="browser"><div>{chosen}</div><div class="cell" aria-label="runs of the chosen cell" role="region">'
        "</div></div></section>"
    )


def sweep_facts(folder: SweepFolder) -> dict[str, Any]:
    """All that the page needs of a sweep, as plain values; see `sweep_section`.

    Args:
        folder: of the sweep, whole or begun.

    Returns:
        ``axes``, ``columns`` (a number of every run each), ``numbers`` and ``curves`` packed, the ``base`` recipe, how
        runs ``ended``, and in ``left_out`` what is not here, in words.
    """
    plan = folder.plan
    kept, thinned = [np.arange(len(axis)) for axis in plan.axes], False
    while True:
        while np.prod([len(points) for points in kept]) > MOST_RUNS:
            kept, thinned = _fewer(plan, kept), True
        columns, numbers, curves = _numbers(folder, kept)
        if len(numbers) + len(curves.get("losses", "")) <= LARGEST or max(map(len, kept)) == 1:
            break
        kept, thinned = _fewer(plan, kept), True
    axes = []
    for axis, points in zip(plan.axes, kept, strict=True):
        labels, values = labels_of(axis), axis.to_dict()["values"]
        here = {"labels": [labels[i] for i in points], "values": [values[i] for i in points]}
        axes.append({"name": axis.name, "fields": list(axis.fields), "seeds": axis.fields == ("seed",), **here})
    codes = folder.dataset()["status"].values
    ended = {status.label: int((codes == code).sum()) for code, status in enumerate(STATUS)}
    words = []
    if thinned:
        few = [f"{len(p)} of {len(a)} {a.name}" for a, p in zip(plan.axes, kept, strict=True) if len(p) < len(a)]
        words.append(f"To keep this page small it holds {', '.join(few)}.")
    if curves and curves["points"] < curves["stored"]:
        words.append(f"Curves are thinned from {curves['stored']} to {curves['points']} points.")
    return {
        "name": plan.name, "axes": axes, "columns": columns, "numbers": numbers, "curves": curves or None,
        "base": plan.base.to_dict(), "status": [status.label for status in STATUS],
        "ended": {**ended, "not run yet": int((codes < 0).sum())}, "left_out": words,
        "colors": [to_hex(color) for color in colormaps["viridis"](np.linspace(0.06, 1, 64))],
    }  # fmt: skip


def _fewer(plan: Plan, kept: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Half of the seeds, the first ones; where there is one only, every second point of the longest axis."""
    lengths = [len(points) for points in kept]
    seeds = [k for k, axis in enumerate(plan.axes) if axis.fields == ("seed",) and lengths[k] > 1]
    at = seeds[0] if seeds else int(np.argmax(lengths))
    fewer = kept[at][: (lengths[at] + 1) // 2] if seeds else kept[at][::2]
    return [fewer if k == at else points for k, points in enumerate(kept)]


def _numbers(folder: SweepFolder, kept: Sequence[np.ndarray]) -> tuple[list[dict[str, Any]], str, dict[str, Any]]:
    """What each column is, the columns of the kept runs packed, and their curves."""
    data = folder.dataset()[list(schema(folder.plan))]
    data = data.isel({axis.name: points for axis, points in zip(folder.plan.axes, kept, strict=True)})
    columns, rows = [], []
    for name, variable in schema(folder.plan).items():
        if name == "curve":
            continue
        values = data[name].values.astype(float).reshape(-1, *variable.sizes)
        parts = {"": values} if not variable.dims else {f"[{i}]": v for i, v in enumerate(values.T)}
        for suffix, row in parts.items():
            if not suffix or np.isfinite(row).any():  # theory and plateaus leave many places empty
                about = {"name": f"{name}{suffix}", "of": name, "meaning": variable.meaning, "always": name in ENDED}
                columns.append(about)
                rows.append(row)
    numbers = packed(np.stack(rows), DIGITS)
    return columns, numbers, _curves(folder.plan, data, kept) if "curve" in data else {}


def _curves(plan: Plan, data: Any, kept: Sequence[np.ndarray]) -> dict[str, Any]:
    """The sampled losses of every run at some of the samples: even in time, and in its logarithm."""
    runs = int(np.prod([len(points) for points in kept]))
    least, most = CURVE_POINTS
    count = min(most, max(least, CURVE_NUMBERS // runs))
    swept = next((k for k, axis in enumerate(plan.axes) if "steps" in axis.fields), -1)
    samples = samples_of(plan)
    samples = [samples[i] for i in kept[swept]] if swept >= 0 else samples
    width = min(count, max(map(len, samples)))
    chosen = np.stack([_spread(len(steps), width) for steps in samples])  # a row for every number of steps
    losses = data["curve"].values.reshape(-1, data.sizes["sample"])
    rows = np.indices([len(points) for points in kept]).reshape(len(kept), -1)[swept] if swept >= 0 else np.zeros(runs)
    losses = np.take_along_axis(losses, chosen[rows.astype(int)], axis=1)
    return {
        "points": width, "stored": max(map(len, samples)), "axis": swept,
        "steps": [steps[row].tolist() for steps, row in zip(samples, chosen, strict=True)],
        "losses": packed(losses, CURVE_DIGITS),
    }  # fmt: skip


def _spread(length: int, count: int) -> np.ndarray:
    """`count` places in a row of `length`, increasing; the last one is repeated where there are not as many.

    >>> _spread(1001, 8), _spread(3, 4)
    (array([   0,    5,   31,  177,  250,  500,  750, 1000]), array([0, 1, 2, 2]))
    """
    if length <= count:
        return np.minimum(np.arange(count), length - 1)
    places = np.array([0])
    for each in range(count, 0, -1):  # the two rows share some places
        even, log = np.linspace(0, length - 1, each), np.geomspace(1, length, each) - 1
        places = np.unique(np.concatenate([even, log]).round().astype(int))
        if places.size <= count:
            break
    return np.append(places, np.full(count - places.size, length - 1))
