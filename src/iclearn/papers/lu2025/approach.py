"""How simulations come to the limit dim → ∞: tables of trained matrices, their extrapolation in 1/d, and its judges.

A mean over pools at size d is the limit times 1 + b/d + c/d² + …, with b of 1 to 7: at d = 60 it is several per cent
above the limit, so that closeness at one size says nothing. What is judged is r_d = e_d/e_∞, where e_∞ is the theory at
the ratios that were run and at n/(d(d + 1)) prompts a weight, whose pole is where that of finite d is; a + b/d is fitted
to r_d and a must be 1. The limit as such (n/d²) is kept beside it, for the order of approach.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ...core.threads import side_by_side
from ...theory.diversity import pool_errors
from ..base import Choice, Counterexample, Data
from ..judging import Outcome, Word, worst
from ..lab import Lab
from ..perturbing import changed
from .setup import Preset, Sizes, nested_errors

ERRORS = 4.0  # standard errors within which an extrapolated ratio must lie
POINT_CAP, MEAN_CAP = 0.2, 0.1  # what so many standard errors may be, of one point and of the mean over points
SECOND_ORDER = 0.03  # left by the terms c/d²: c up to 30, over 20 · 40
SLOPES, SLOPE_ERROR = (-1.75, -0.75), 0.2  # of the logarithm of the mean excess in log d
SMALLEST = 20  # d from which the order is read


class Grid(NamedTuple):
    """Points at which matrices are trained.

    Args:
        alphas: α.
        kappas: κ; may be infinite.
        taus: τ, growing.
        noise: ρ.
        ridges: λ.
    """

    alphas: tuple[float, ...]
    kappas: tuple[float, ...]
    taus: tuple[float, ...]
    noise: float
    ridges: tuple[float, ...] = (0.0,)


AXES = ("alpha", "kappa", "tau", "ridge", "dim")


def simulated(lab: Lab, name: str, grid: Grid, preset: Preset) -> xr.Dataset:
    """Errors of trained matrices at every point of a grid, at every size, with the theory beside them.

    Args:
        lab: where they are stored, size by size.
        name: of the dataset.
        grid: the points.
        preset: sizes and numbers of pools.

    Returns:
        ``icl``, ``idg`` (alpha, kappa, tau, ridge, dim, repetition; NaN where a size has fewer), ``repetitions`` (dim),
        and the theory: ``*_limit`` at n/d², ``*_near`` at n/(d(d + 1)).
    """
    parts = []
    for dim, factor in zip(preset.dims, preset.factors, strict=True):
        count = factor * lab.num_seeds
        parameters = {"grid": [list(v) if isinstance(v, tuple) else v for v in grid], "dim": dim, "pools": count}
        parameters["grid"] = str(parameters["grid"])  # infinite numbers are none of JSON's
        parts.append(lab.dataset(f"lu-{name}", parameters, partial(_one_size, grid, dim, count)))
    return joined(parts)


def joined(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Tables of single sizes as one."""
    return xr.concat(parts, "dim", join="outer", data_vars="all")


def _one_size(grid: Grid, dim: int, count: int) -> xr.Dataset:
    found = np.empty((len(grid.alphas), len(grid.kappas), len(grid.taus), len(grid.ridges), 1, count, 2))
    for i, alpha in enumerate(grid.alphas):
        for j, kappa in enumerate(grid.kappas):
            sizes = [Sizes.near(dim, alpha, kappa, tau) for tau in grid.taus]
            counts = [size.num_prompts for size in sizes]
            drawn = replace(sizes[-1], num_prompts=max(2 * dim**2, counts[-1]))  # one shape, so one program, for most
            one = partial(nested_errors, drawn, counts, grid.noise, grid.ridges)
            found[i, j, :, :, 0] = np.stack(side_by_side(one, range(count)), axis=2)
    return table(grid, [dim], found, [count])


def table(grid: Grid, dims: Sequence[int], errors: np.ndarray, counts: Sequence[int]) -> xr.Dataset:
    """Errors (alpha, kappa, tau, ridge, dim, repetition, 2) with their limits and the ratios that were run."""
    axes = (*AXES, "repetition")
    coords: dict[str, Any] = {
        "alpha": list(grid.alphas), "kappa": list(grid.kappas), "tau": list(grid.taus), "ridge": list(grid.ridges),
        "dim": list(dims), "repetition": np.arange(errors.shape[-2]),
    }  # fmt: skip
    variables: dict[str, Any] = {"icl": (axes, errors[..., 0]), "idg": (axes, errors[..., 1])}
    variables |= {"repetitions": ("dim", list(counts))}
    shape = tuple(len(coords[name]) for name in AXES)
    ratios = np.empty((*shape, 3))
    for index in np.ndindex(*shape):
        alpha, kappa, tau, _, dim = (coords[name][at] for name, at in zip(AXES, index, strict=True))
        ratios[index] = Sizes.near(dim, alpha, kappa, tau).ratios
    ridge = np.broadcast_to(np.array(grid.ridges)[:, None], shape)
    own = np.array(dims, float)
    for word, tau in (("limit", ratios[..., 2]), ("near", ratios[..., 2] * own / (own + 1))):
        limit = pool_errors(ratios[..., 0], ratios[..., 1], tau, grid.noise, ridge)
        variables |= {f"icl_{word}": (AXES, limit.icl), f"idg_{word}": (AXES, limit.idg)}
    names = ("alpha_run", "kappa_run", "tau_run")
    variables |= {name: (AXES, ratios[..., i]) for i, name in enumerate(names)}
    return xr.Dataset(variables, coords)


def example_table(grid: Grid, dims: Sequence[int] = (20, 28, 40, 60), counts: Sequence[int] = (72, 36, 18, 6)) -> xr.Dataset:  # fmt: skip
    """What `simulated` could find: the theory times 1 + 2/d + 4/d², with as much noise as there is."""
    rng = np.random.default_rng(0)
    shape = tuple(len(part) for part in (grid.alphas, grid.kappas, grid.taus, grid.ridges))
    found = table(grid, dims, np.full((*shape, len(dims), max(counts), 2), np.nan), counts)
    for name in ("icl", "idg"):
        for at, (dim, count) in enumerate(zip(dims, counts, strict=True)):
            noise = rng.standard_normal((*shape, count))
            factor = 1 + 2 / dim + 4 / dim**2 + 1.5 / dim * (noise - noise.mean(-1, keepdims=True))
            found[name][..., at, :count] = found[f"{name}_near"].values[..., at, None] * factor
    return found


def signs(rows: dict[str, tuple[xr.DataArray, int]], counts: Any) -> Outcome:
    """Relative changes (dim, repetition), extrapolated in 1/d, that must have a sign, by `ERRORS` standard errors.

    Args:
        rows: changes and their signs, by name.
        counts: (dim) pools of each size.

    Returns:
        The outcome: contradicted where one has the other sign by as much.
    """
    told, words = {}, []
    for name, (change, sign) in rows.items():
        found = extrapolated(change["dim"], change.transpose("dim", "repetition").values, counts)
        value, room = sign * float(found.value), ERRORS * float(found.error)
        told[name] = [round(float(found.value), 4), round(float(found.error), 4)]
        word: Word = "reproduced" if value > room else "contradicted" if value < -room else "inconclusive"
        words.append(word if np.isfinite([value, room]).all() else "failed")
    return Outcome(told, worst(*words), int(np.min(counts)))


class Limit(NamedTuple):
    """What a quantity comes to as dim → ∞, and its standard error."""

    value: np.ndarray
    error: np.ndarray


def extrapolated(dims: Any, values: np.ndarray, counts: Any, degree: int = 1) -> Limit:
    """The limit of means over pools by a weighted fit of a + b/d (+ c/d²).

    The deviation of one pool's value is taken to fall as 1/d, which is how traces of such matrices fluctuate, so that all
    sizes tell it together: a few pools of the largest size alone would not.

    Args:
        dims: (dim) d, more than the degree.
        values: (…, dim, repetition), of which the first `counts` are read.
        counts: (dim) pools of each size.
        degree: 1, or 2 for the term c/d².

    Returns:
        The limit; NaN where a value that should be there is not finite.

    >>> dims = np.array([10.0, 20.0, 40.0])
    >>> found = extrapolated(dims, (3 + 2 / dims + 5 / dims**2)[:, None] + np.array([-0.1, 0.1]) / dims[:, None], [2, 2, 2], 2)
    >>> round(float(found.value), 6)
    3.0
    """
    dims, counts = np.asarray(dims, float), np.asarray(counts, int)
    there = np.arange(values.shape[-1]) < counts[:, None]
    values = np.where(there, values, 0.0)
    mean = values.sum(-1) / counts
    away = np.where(there, (values - mean[..., None]) * dims[:, None], 0.0)
    deviation = np.sqrt((away**2).sum((-2, -1)) / max(int(counts.sum()) - len(dims), 1))
    weight = dims * np.sqrt(counts)
    design = np.stack([dims**-power for power in range(degree + 1)], 1) * weight[:, None]
    solve = np.linalg.pinv(design)[0]
    return Limit((mean * weight) @ solve, deviation * np.sqrt((solve**2).sum()))


def ratios(part: xr.Dataset, which: str) -> np.ndarray:
    """(point, dim, repetition) errors over the theory; ``gap``: 1 + (g − g_∞)/e_ICL∞ for the gap of both errors."""
    axes = [name for name in AXES if name != "dim"]
    order = (*axes, "dim", "repetition")
    if which == "gap":
        off = part["icl"] - part["idg"] - (part["icl_near"] - part["idg_near"])
        values = 1 + off / part["icl_near"]
    else:
        values = part[which] / part[f"{which}_near"]
    found = values.transpose(*order).values
    return found.reshape(-1, *found.shape[-2:])


def approaches(data: Data, name: str, kinds: Sequence[str], **where: Sequence[float]) -> Outcome:
    """Every extrapolated ratio is 1 within its standard errors, and so is the mean over points, more sharply.

    Args:
        data: the figure's.
        name: of the table of `simulated`.
        kinds: ``icl``, ``idg``, ``gap``.
        where: the points that are judged, by axis.

    Returns:
        The outcome.
    """
    part = data[name].sel({axis: list(values) for axis, values in where.items()})
    dims, counts = part["dim"].values, part["repetitions"].values
    if len(dims) < 3:
        return Outcome(f"{len(dims)} sizes are too few to extrapolate", "failed")
    words: list[Word] = []
    told: dict[str, Any] = {"sizes": dims.tolist(), "pools": counts.tolist()}
    for which in kinds:
        rows = ratios(part, which)
        points, mean = extrapolated(dims, rows, counts), extrapolated(dims, rows.mean(0), counts)
        told[f"{which}: extrapolated over theory"] = points.value.round(4).tolist()
        told[f"{which}: standard errors"] = points.error.round(4).tolist()
        told[f"{which}: mean over points"] = [round(float(mean.value), 4), round(float(mean.error), 4)]
        for value, error in zip(points.value, points.error, strict=True):
            words.append(_near(float(value) - 1, ERRORS * float(error), POINT_CAP, SECOND_ORDER))
        words.append(_near(float(mean.value) - 1, ERRORS * float(mean.error), MEAN_CAP, SECOND_ORDER))
    return Outcome(told, worst(*words), int(counts.min()))


def _near(off: float, room: float, cap: float, more: float = 0.0) -> Word:
    if not (np.isfinite(off) and np.isfinite(room)):
        return "failed"
    if abs(off) > 2 * room + more:
        return "contradicted"
    return "reproduced" if abs(off) <= room + more and room <= cap else "inconclusive"


def order(data: Data, name: str, kinds: Sequence[str], **where: Sequence[float]) -> Outcome:
    """The mean relative excess over the limit (at n/d²) falls as 1/d, to second order: its slope in log d.

    Args:
        data: the figure's.
        name: of the table of `simulated`.
        kinds: ``icl``, ``idg``.
        where: the points that are judged, by axis.

    Returns:
        The outcome.
    """
    part = data[name].sel({axis: list(values) for axis, values in where.items()})
    part = part.sel(dim=part["dim"] >= SMALLEST)
    dims, counts = part["dim"].values.astype(float), part["repetitions"].values
    words: list[Word] = []
    told: dict[str, Any] = {}
    for which in kinds:
        axes = [axis for axis in AXES if axis != "dim"]
        excess = (
            (part[which] / part[f"{which}_limit"] - 1).mean(axes, skipna=False).transpose("dim", "repetition").values
        )
        rows = [row[:count] for row, count in zip(excess, counts, strict=True)]
        mean = np.array([row.mean() for row in rows])
        error = np.array([row.std(ddof=1) / len(row) ** 0.5 for row in rows])
        told[f"{which}: excess at d = {', '.join(f'{d:g}' for d in dims)}"] = mean.round(4).tolist()
        if not (np.isfinite(mean).all() and len(dims) > 1):
            words.append("failed")
            continue
        if not (mean > 0).all():
            words.append("contradicted")
            continue
        weight = mean / error  # of the logarithm
        design = np.stack([np.ones_like(dims), np.log(dims)], 1) * weight[:, None]
        solve = np.linalg.pinv(design)[1]
        slope, spread = float((np.log(mean) * weight) @ solve), float(np.sqrt((solve**2).sum()))
        told[f"{which}: slope, standard error"] = [round(slope, 3), round(spread, 3)]
        inside = SLOPES[0] <= slope <= SLOPES[1]
        clear = slope < SLOPES[0] - 2 * spread or slope > SLOPES[1] + 2 * spread
        words.append("reproduced" if inside and spread <= SLOPE_ERROR else "contradicted" if clear else "inconclusive")
    return Outcome(told, worst(*words), int(counts.min()))


APPROACH = f"a of a + b/d fitted to the means over pools is the theory: within {ERRORS:g} standard errors at every point, and in the mean over points"
APPROACH_ROOM = f"{ERRORS:g} standard errors, at most {POINT_CAP:.0%} at one point and {MEAN_CAP:.0%} in the mean, and {SECOND_ORDER:.0%} for the terms 1/d²"
APPROACH_REASON = "the excess over the theory is b/d with b of 1 to 7 and little curvature, and one pool deviates by 1 to 5 over d: a wrong limit or a slower approach leaves another a"
APPROACH_CHOICE = Choice(
    "how the approach is judged, sizes and pools",
    "a + b/d + c/d² at d = 12, 20, 32, 60 with 96, 48, 12, 6 pools, designed on 14 means that this project was given",
    "seen for d = 12, 20, 32 only: inconclusive, with standard errors of 5 to 24 % of the limit (extrapolated over theory .75 to 1.17); d times the excess the same at the three sizes within their errors but for τ = .5 at α = 1 and τ = 1.5 (c up to 30)",
    "a + b/d at d = 20, 28, 40, 60 with 72, 36, 18, 6 pools, and 3 % for c/d²; set before these were run. What four standard errors of the mean over points may be went from 6 to 8 % on example data and to 10 % with this design; the bounds of the slope (fig1, order) stayed, its sizes are the new ones",
)


def approach_counters(name: str, kinds: Sequence[str]) -> tuple[Counterexample, ...]:
    """Data that do not come to the theory: all of it off by 15 %, a wrong order, noise that hides it, NaN."""
    return (
        *(Counterexample(f"a limit 15 % {word} for {kind}", partial(_scaled, name=name, kind=kind, factor=factor)) for kind in kinds for word, factor in (("higher", 1.15), ("lower", 0.85))),
        Counterexample("an approach as d^(−1/2)", partial(_slow, name=name, kinds=tuple(kinds))),
        Counterexample("pools five times as noisy", partial(_noisy, name=name, kinds=tuple(kinds))),
        Counterexample("one value is NaN", partial(_lost, name=name, kind=kinds[0])),
    )  # fmt: skip


def order_counters(name: str, kinds: Sequence[str]) -> tuple[Counterexample, ...]:
    """Other orders, an excess that stays, NaN."""
    return (
        Counterexample("an approach as d^(−1/2)", partial(_slow, name=name, kinds=tuple(kinds))),
        *(Counterexample(f"a limit 15 % {word} for {kind}", partial(_scaled, name=name, kind=kind, factor=factor)) for kind in kinds for word, factor in (("higher", 1.15), ("lower", 0.85))),
        Counterexample("an excess as d^(−3)", partial(_fast, name=name, kinds=tuple(kinds))),
        Counterexample("one value is NaN", partial(_lost, name=name, kind=kinds[0])),
    )  # fmt: skip


def _errors_of(kind: str) -> str:
    return "icl" if kind == "gap" else kind


def _scaled(data: Data, name: str, kind: str, factor: float) -> Data:
    return changed(data, f"{name}/{_errors_of(kind)}", lambda a: a * factor)


def _slow(data: Data, name: str, kinds: Sequence[str]) -> Data:
    for kind in map(_errors_of, kinds):
        data = changed(data, f"{name}/{kind}", lambda a: a * (1 + 2 / np.sqrt(a["dim"])))
    return data


def _fast(data: Data, name: str, kinds: Sequence[str]) -> Data:
    for kind in map(_errors_of, kinds):
        table = data[name]
        mean = table[kind].mean("repetition")
        steep = table[f"{kind}_limit"] * (1 + (12 / table["dim"]) ** 3) + table[kind] - mean
        data = {**data, name: table.assign({kind: steep.transpose(*table[kind].dims)})}
    return data


def _noisy(data: Data, name: str, kinds: Sequence[str]) -> Data:
    for kind in map(_errors_of, kinds):
        table = data[name]
        mean = table[kind].mean("repetition")
        wide = (mean + 5 * (table[kind] - mean)).transpose(*table[kind].dims)
        data = {**data, name: table.assign({kind: wide})}
    return data


def _lost(data: Data, name: str, kind: str) -> Data:
    table = data[name]
    first = {axis: table[axis].values[-1 if axis == "dim" else 0] for axis in (*AXES, "repetition")}
    return changed(data, f"{name}/{_errors_of(kind)}", lambda a: a * np.nan, **first)
