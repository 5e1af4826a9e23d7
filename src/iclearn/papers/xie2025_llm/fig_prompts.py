"""What the prompt does: the number of examples in it, and its wording."""

from __future__ import annotations

import functools
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from ...llm.prompts import WORDINGS
from ..base import Choice, Counterexample, Data, Figure
from ..lab import Lab
from .examples import USUAL, example_answers, for_each
from .setup import COLORS, SETUP, Answers, Found, answers, claim, error_bars, gain, heading, options_of

COUNTS = (0, 1, 2, 5, USUAL, 2 * USUAL)
SHOWN = {"none": ("without a guess", "s", ":"), "trained": ("with the trained guess", "o", "-")}
AXES = {"shots": "scored examples in the prompt", "wording": "wording of the prompt"}


def collect_shots(lab: Lab) -> Data:
    shots = options_of(lab).shots
    counts = sorted({n for n in COUNTS[:4] if n < max(shots, 1)} | {shots, 2 * shots})
    return answers(lab, "shots", list(SHOWN), shots=counts)


def collect_wordings(lab: Lab) -> Data:
    return answers(lab, "wordings", list(SHOWN), shots=[options_of(lab).shots], wordings=list(WORDINGS))


def draw(data: Data, axis: str):
    found = list(data.values())
    labels = found[0].data[axis].values.tolist()
    places = np.arange(len(labels))
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.8))
    for axes, metric in zip(panels, ("pearson", "mse"), strict=True):
        alone = found[0]("trained").guess_alone(metric)
        axes.axhline(alone.value, color=COLORS[0], ls="--", label="the guess alone")
        axes.axhspan(alone.low, alone.high, color=COLORS[0], alpha=0.12, lw=0)
        for model, color in zip(found, COLORS[3:], strict=False):
            for name, (text, marker, line) in SHOWN.items():
                seen = [model(name, **{axis: label}).measure(metric) for label in labels]
                error_bars(axes, places, seen, fmt=marker, ms=7, ls=line, color=color, label=f"{model.title}, {text}")
        axes.set_xticks(places, labels)
        axes.set(xlabel=AXES[axis], ylabel={"pearson": "Pearson correlation", "mse": "mean squared error"}[metric])
        axes.grid(axis="y", alpha=0.3)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(heading(data), fontsize=12)
    return figure


def helped(model: Answers, axis: str) -> Found:
    """The gain over no guess, at every place of an axis."""
    found = {}
    for label in model.data[axis].values.tolist():
        seen, without = model("trained", **{axis: label}), model("none", **{axis: label})
        found[f"gain in pearson, {axis} {label}"] = gain("pearson", seen.answer, without.answer, without.score)
    return found


def more(model: Answers, name: str) -> Found:
    """The gain from the fewest examples to the most."""
    counts = model.data["shots"].values.tolist()
    first, last = model(name, shots=counts[0]), model(name, shots=counts[-1])
    return {
        f"gain in pearson from {counts[0]} to {counts[-1]}": gain("pearson", last.answer, first.answer, first.score)
    }


def helps_always(model: Answers) -> Found:
    return helped(model, "shots")


def more_without(model: Answers) -> Found:
    return more(model, "none")


def more_with(model: Answers) -> Found:
    return more(model, "trained")


def helps_worded(model: Answers) -> Found:
    return helped(model, "wording")


def replaced(title: str, condition: str, axis: str, place: int, other: str, other_place: int) -> Counterexample:
    """The answers under one condition, at one place of an axis, replaced by others."""

    def perturbed(found: Any) -> Any:
        new = found.copy(deep=True)
        there = {"condition": condition, axis: found[axis].values[place]}
        new["answer"].loc[there] = found["answer"].sel(condition=other).isel({axis: other_place}).values
        return new

    return for_each(title, perturbed)


GROWS = "Pearson grows from the fewest to the most"
SHOTS = Figure(
    id="fig_shots",
    title="the number of examples",
    collect=collect_shots,
    draw=functools.partial(draw, axis="shots"),
    example=lambda: example_answers(list(SHOWN), COUNTS),
    claims=(
        claim("The guess helps at every number of examples.", "Pearson above no guess", helps_always, replaced("no help at one number of examples", "trained", "shots", 1, "none", 1), holds=False),
        claim("Without a guess, more examples help.", GROWS, more_without, replaced("answers at the most examples as at the fewest", "none", "shots", -1, "none", 0), holds=False),
        claim("With a guess, more examples help: the model learns from them to use it.", GROWS, more_with, replaced("answers at the most examples as at the fewest", "trained", "shots", -1, "trained", 0), holds=False),
    ),
    choices=(Choice("claims marked as not expected to hold", "all expected; none", "SmolLM2-135M: reproduced, reproduced, contradicted", "they are questions about a model, not statements of the paper"),),
    setup=SETUP + "\nk = 0, 1, 2, 5, the paper's 10, and 20; a pair sees the first k of the same order of examples",
)  # fmt: skip
WORDED = Figure(
    id="fig_wordings",
    title="the wording of the prompt",
    collect=collect_wordings,
    draw=functools.partial(draw, axis="wording"),
    example=lambda: example_answers(list(SHOWN), wordings=tuple(WORDINGS)),
    claims=(claim(f"The guess helps in each of {len(WORDINGS)} wordings of the prompt.", "Pearson above no guess", helps_worded, replaced("no help in one wording", "trained", "wording", 1, "none", 1), why="the paper's wording is not known"),),
    setup=SETUP + "\nwordings: " + ", ".join(WORDINGS),
)  # fmt: skip
