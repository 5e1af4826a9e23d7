"""Depth against the nearest algorithm: networks of few layers beside gradient descent, ridge and least squares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.model import AbstractModel
from ...models.predictors import GradientDescent, LeastSquares, Ridge
from ..base import Choice, Claim, Data, Figure
from ..judging import Outcome, worst
from ..lab import Lab
from ..perturbing import a_nan, counter, times
from .linear_curves import network_curve, plain_ticks
from .network_judges import BOUND, SOME, judge_cells, other_size, rounded, unfinished
from .noted_numbers import DEPTH_ERRORS
from .paired_prompts import Row, algorithm_answers, drawn_rows, spread
from .setup import PRESETS, Preset, recipe_of, task_of
from .shift_tables import answers_or_nan, last_model, options_of

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PENALTIES = (2.0, 1.0, 0.5, 0.1)
GD = tuple(f"GD {k}" for k in STEPS)
SOLVERS = (*(f"ridge {p:g}" for p in PENALTIES), "least squares")
ALGORITHMS = ("zero", *GD, *SOLVERS)
DRAWS = 3


def algorithms(dim: int) -> tuple[AbstractModel, ...]:
    """All but answering 0: gradient descent on the sum of squares/2 with rate .1/d, ridge and least squares."""
    start = np.zeros((dim, 1))
    steps = [GradientDescent(start, 0.1 / dim, k, normalize="none") for k in STEPS]
    return (*steps, *(Ridge(p) for p in PENALTIES), LeastSquares())


def collect(lab: Lab) -> Data:
    preset = options_of(lab).sizes
    depths = preset.depths or (preset.linear.layers,)
    recipes = [recipe_of(preset.linear._replace(layers=n), seed) for n in depths for seed in lab.seeds]
    told = {"recipes": [r.hash for r in recipes], "prompts": preset.prompts, "version": 1}
    traces = [] if lab.offline else lab.run(recipes)

    def compute() -> xr.Dataset:
        models = [last_model(trace) for trace in traces]
        count = lab.num_seeds
        return measure(preset, {n: models[i * count : (i + 1) * count] for i, n in enumerate(depths)})

    return {
        "table": lab.dataset("depths", told, compute), "dim": preset.linear.dim, "places": preset.linear.places,
        "judged": preset.judged, "known": preset.known,
    }  # fmt: skip


def measure(preset: Preset, networks: Mapping[int, list[Any | None]]) -> xr.Dataset:
    """Networks of several depths on the same prompts.

    Args:
        preset: the sizes.
        networks: layers → one network a seed; None for one that diverged.

    Returns:
        ``error`` and ``spread`` (layers, seed, position): squared error over d and its standard error; ``distance``
        (layers, seed, algorithm, position): squared distance of predictions over d; ``drop`` and ``drop_spread``
        (layers, seed, position): by how much the error is above that of the network of the next depth, prompt by
        prompt (the last depth: 0).
    """
    task, dim = task_of(preset.linear), preset.linear.dim
    rows = drawn_rows([Row(task, draw=draw) for draw in range(DRAWS)], preset.prompts)
    known = algorithm_answers(algorithms(dim), rows)
    known = np.concatenate([np.zeros_like(known[:1]), known])
    flat = (-1, preset.linear.points)
    answers = np.stack([answers_or_nan(models, rows) for models in networks.values()])
    answers = answers.reshape(*answers.shape[:2], *flat)
    error = (answers - rows.target.reshape(flat)) ** 2 / dim
    distance = np.stack([((answers - one.reshape(flat)) ** 2 / dim).mean(-2) for one in known], 2)
    drops = np.zeros_like(error)
    drops[:-1] = error[:-1] - error[1:]
    own, less = spread(error), spread(drops)
    over = ("layers", "seed", "position")
    return xr.Dataset(
        {
            "error": (over, own.mean), "spread": (over, own.error), "drop": (over, less.mean), "drop_spread": (over, less.error),
            "distance": (("layers", "seed", "algorithm", "position"), distance),
        },
        {
            "layers": list(networks), "seed": np.arange(answers.shape[1]), "algorithm": list(ALGORITHMS),
            "position": np.arange(preset.linear.points),
        },
    )  # fmt: skip


def example() -> Data:
    """The errors of the notes for 1, 2 and 4 layers, and distances with their nearest algorithms."""
    preset, seeds = PRESETS["full"], 3
    positions, dim = np.arange(preset.linear.points), preset.linear.dim
    error = np.stack([np.interp(positions, [0, dim, 2 * dim], [1.0, *DEPTH_ERRORS[n]]) for n in preset.depths])
    errors = np.repeat(error[:, None], seeds, 1) * (1 + 0.01 * np.arange(seeds)[:, None])
    nearest = {1: "GD 2", 2: "GD 16", 4: "least squares"}
    places = [ALGORITHMS.index(nearest[n]) for n in preset.depths]
    away = np.abs(np.arange(len(ALGORITHMS)) - np.array(places)[:, None])
    distance = np.broadcast_to(
        (0.02 + 0.01 * away)[:, None, :, None], (len(places), seeds, len(ALGORITHMS), len(positions))
    )
    drops = np.zeros_like(errors)
    drops[:-1] = errors[:-1] - errors[1:]
    over = ("layers", "seed", "position")
    table = xr.Dataset(
        {
            "error": (over, errors), "spread": (over, np.full_like(errors, 0.003)), "drop": (over, drops),
            "drop_spread": (over, np.full_like(errors, 0.003)),
            "distance": (("layers", "seed", "algorithm", "position"), distance.copy()),
        },
        {"layers": list(preset.depths), "seed": np.arange(seeds), "algorithm": list(ALGORITHMS), "position": positions},
    )  # fmt: skip
    return {"table": table, "dim": dim, "places": preset.linear.places, "judged": True, "known": "SMALL"}


def nearest(data: Data, layers: int, place: int) -> list[str]:
    """The nearest algorithm of every network of a depth at a number of pairs."""
    part = data["table"]["distance"].sel(layers=layers, position=place)
    return [ALGORITHMS[i] for i in part.argmin("algorithm", skipna=False).values]


def draw(data: Data):
    table, positions = data["table"], data["table"]["position"].values
    figure, axes = plt.subplots(1, 2, figsize=(12.5, 4.8), width_ratios=(1, 1.35))
    shades = ("C5", "C3", "C1", "C4")
    for layers, color in zip(table["layers"].values.tolist(), shades, strict=False):
        rows = table["error"].sel(layers=layers).values
        network_curve(axes[0], positions, rows, f"{layers} layer{'s' * (layers > 1)}", color)
        for place, mark in zip(data["places"][1:], ("o", "s"), strict=True):
            path = table["distance"].sel(layers=layers, position=place).mean("seed").values
            axes[1].plot(path, mark + "-", color=color, ms=4, lw=1.2, mfc="white" if mark == "s" else color)
            best = int(np.argmin(path)) if np.isfinite(path).all() else 0
            axes[1].plot(best, path[best], "*", color=color, ms=15)
    axes[0].plot(
        positions, np.maximum(1 - positions / data["dim"], 0), "--", color="black", lw=1.4, label="least squares"
    )
    axes[0].set(xlabel="pairs in the context, $i$", ylabel="squared error / d", title="error by depth", ylim=(0, 1.1))
    axes[0].legend(fontsize=9)
    axes[1].set_xticks(range(len(ALGORITHMS)), ALGORITHMS, rotation=60, ha="right", fontsize=9)
    for mark, place, fill in (("o", "d", "0.4"), ("s", "2d", "white")):
        axes[1].plot([], [], mark + "-", color="0.4", mfc=fill, label=f"$i$ = {place}")
    axes[1].plot([], [], "*", color="0.4", ms=12, ls="none", label="nearest")
    axes[1].set_yscale("log")
    low, high = axes[1].get_ylim()
    plain_ticks(axes[1].yaxis, fine=high / low < 60)
    axes[1].set(ylabel="squared distance of predictions / d", title="which algorithm is nearest")
    axes[1].legend(fontsize=9, loc="lower left")
    return figure


def missing(data: Data, *layers: int) -> Outcome | None:
    """The verdict where networks of these depths were not trained, or hardly; else None."""
    if not set(layers) <= set(data["table"]["layers"].values.tolist()):
        return other_size("full")
    return unfinished(data, "full")


def one_layer(data: Data) -> Outcome:
    if early := missing(data, 1):
        return early
    part = data["table"].sel(layers=1, position=list(data["places"][1:]))
    values, error = part["error"].values, part["spread"].values
    change = (values[:, 1] - values[:, 0], np.hypot(error[:, 0], error[:, 1]), -0.1)
    return judge_cells({"high": (values, error, 0.65), "flat": change}, len(values), rounded(values))


def falls(data: Data) -> Outcome:
    if early := missing(data, 1, 2, 4):
        return early
    part = data["table"].sel(position=data["places"][2])
    values, error = part["drop"].values[:-1], part["drop_spread"].values[:-1]
    told = {f"{n} layers": rounded(part["error"].sel(layers=n)) for n in part["layers"].values}
    return judge_cells({"drop": (values, error, 0.0)}, values.shape[1], told)


def nearest_is(data: Data, wanted: Mapping[int, tuple[str, ...]]) -> Outcome:
    """Whether the nearest algorithm of every network at 2d pairs is one of a kind, for some depths."""
    if early := missing(data, *wanted):
        return early
    told, words, count = {}, [], data["table"].sizes["seed"]
    for layers, names in wanted.items():
        if not np.isfinite(data["table"]["distance"].sel(layers=layers, position=data["places"][2])).all():
            return Outcome(told, "failed", count)
        found = nearest(data, layers, data["places"][2])
        told[f"{layers} layers"] = found
        right = [name in names for name in found]
        words.append("reproduced" if all(right) else "inconclusive" if any(right) else "contradicted")
    return Outcome(told, worst(*words), count)


def few_steps(data: Data) -> Outcome:
    return nearest_is(data, {1: GD[:4], 2: GD[3:7]})


def solver(data: Data) -> Outcome:
    return nearest_is(data, {4: SOLVERS})


FIGURE = Figure(
    id="fig_depth",
    title="depth against the nearest algorithm",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "one_layer_flat", "One layer does not learn from more pairs: it cannot put a label and its input together.", "error above .65 at d and at 2d pairs, and at most .1 lower at 2d", BOUND, one_layer, source="ours", before=False,
            reason="the notes: .80 at d and .83 at 2d",
            counterexamples=(counter("it learns as two layers do", "table/error", times(0.4), layers=1), counter("it learns from more pairs", "table/error", times(0.8), layers=1, position=10), counter("two seeds do", "table/error", times(0.5), layers=1, seed=SOME), a_nan("table/error", layers=1, position=5, seed=0)),
        ),
        Claim(
            "falls_with_depth", "The error at 2d falls from one to two to four layers.", "differences on the same prompts above 0 (the notes: .83, .17, .009–.017)", BOUND, falls, source="ours", before=False,
            reason="the notes' networks had been seen",
            counterexamples=(counter("four layers are as two", "table/drop", times(0.0), layers=2), counter("two layers are worse than one in one seed", "table/drop", times(-1.0), layers=1, seed=[0]), a_nan("table/drop", layers=1, position=10, seed=0)),
        ),
        Claim(
            "gradient_steps", "One and two layers are nearest to few steps of gradient descent.", "at 2d pairs: at most 8 steps for one layer, 8 to 64 for two (the notes: 2–4 and 16)", "the smallest mean squared distance, every network", few_steps, source="ours", before=False,
            reason="the notes do not say the rate of their steps; ours is .1/d, so numbers of steps have a factor of four of room",
            counterexamples=(counter("one layer is nearest to answering 0", "table/distance", times(0.01), layers=1, algorithm="zero"), counter("two layers to least squares", "table/distance", times(0.01), layers=2, algorithm="least squares"), counter("in two seeds", "table/distance", times(0.01), layers=2, algorithm="least squares", seed=SOME), a_nan("table/distance", layers=2, position=10, seed=0)),
        ),
        Claim(
            "solves", "Four layers are nearest to least squares or ridge, not to any number of steps of gradient descent.", "at 2d pairs", "the smallest mean squared distance, every network; 1 to 256 steps of rate .1/d", solver, source="ours", before=False,
            reason="the notes: least squares, .023",
            counterexamples=(counter("64 steps are nearer", "table/distance", times(0.01), layers=4, algorithm="GD 64"), counter("in one seed", "table/distance", times(0.01), layers=4, algorithm="GD 64", seed=[0]), counter("answering 0 is", "table/distance", times(0.01), layers=4, algorithm="zero"), a_nan("table/distance", layers=4, position=10, seed=0)),
        ),
    ),
    choices=(Choice("the rate of gradient descent", ".1/d on the sum of squares/2", "nothing of ours had been run; the notes use .01 and .02 elsewhere and do not say it here", ".02 for d = 5, stable for every context of 2d pairs that was drawn"),),
    setup="""networks as in fig_linear with 1, 2 and 4 layers (--preset full; others: the depth they have), 3840 prompts without a shift
distance: mean (ŷ_network − ŷ_algorithm)²/d; algorithms: 0, 1, 2, 4, …, 256 steps of gradient descent w ← w − (.1/d) Xᵀ(Xw − y) from 0, ridge with λ = 2, 1, .5, .1, least squares""",
    cost="--preset full: for a GPU",
)  # fmt: skip
