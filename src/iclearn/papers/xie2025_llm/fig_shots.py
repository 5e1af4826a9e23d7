"""How many scored examples the model needs, with and without a guess."""

from __future__ import annotations

import functools
from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ..base import Choice, Claim, Data, Figure, Outcome
from ..lab import Lab
from .examples import answered, as_under, example_answers
from .setup import (
    COLORS,
    EXCLUDES_ZERO,
    RESAMPLED,
    SETUP,
    View,
    answers,
    error_bars,
    gain,
    judge_all,
    judge_positive,
    model_title,
)

FEW = (0, 1, 2, 5)


def collect(lab: Lab) -> Data:
    shots = lab.options.shots if lab.options is not None else 10
    counts = tuple(sorted({n for n in FEW if n < max(shots, 1)} | {shots, 2 * shots}))
    return {"data": answers(lab, "shots", ("none", "trained"), counts)}


def example() -> Data:
    return {"data": example_answers(("none", "trained"), (*FEW, 10, 20))}


def draw(data: Data):
    runs = data["data"]
    counts = [int(n) for n in runs["shots"].values]
    places = np.arange(len(counts))
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.4))
    for axes, metric, label in zip(
        panels, ("pearson", "mse"), ("Pearson correlation", "mean squared error"), strict=True
    ):
        alone = View(runs, "trained", counts[0]).guess_alone(metric)
        axes.axhline(alone.value, color=COLORS["guess"], ls="--", label="guess alone")
        axes.axhspan(alone.low, alone.high, color=COLORS["guess"], alpha=0.12, lw=0)
        for name, text, mark, shift in (("trained", "with trained guess", "o", 0.04), ("none", "no guess", "s", -0.04)):
            found = [View(runs, name, n).measure(metric) for n in counts]
            color = COLORS["llm" if name == "trained" else "none"]
            error_bars(axes, places + shift, found, fmt=mark, ms=7, ls="-", color=color, label=text)
        axes.set_xticks(places, [str(n) for n in counts])
        axes.set(xlabel="scored examples in the prompt", ylabel=label)
        axes.grid(axis="y", alpha=0.3)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    figure.suptitle(model_title(runs), fontsize=12)
    return figure


def helps_always(data: Data) -> Outcome:
    runs = data["data"]
    found = {}
    for n in map(int, runs["shots"].values):
        with_guess, without = View(runs, "trained", n), View(runs, "none", n)
        found[f"gain in pearson, {n} shots"] = gain("pearson", with_guess.answer, without.answer, without.score)
    return judge_all(found, runs.sizes["seed"])


def more_helps(data: Data, name: str) -> Outcome:
    runs = data["data"]
    few, many = int(runs["shots"].values[0]), int(runs["shots"].values[-1])
    first, last = View(runs, name, few), View(runs, name, many)
    found = gain("pearson", last.answer, first.answer, first.score)
    outcome = judge_positive(found, f"gain in pearson from {few} to {many} shots", runs.sizes["seed"])
    seen = {str(int(n)): View(runs, name, int(n)).measure("pearson").rounded() for n in runs["shots"].values}
    return Outcome({**outcome.measured, "pearson by shots [95 %]": seen}, outcome.verdict, outcome.seeds)


def _as_few(name: str) -> Callable[[xr.Dataset], np.ndarray]:
    """What the model answers without examples."""
    return lambda data: data["answer"].sel(condition=name, shots=0).values


FIGURE = Figure(
    id="fig_shots",
    title="dependence on the number of examples",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "helps_always", "The guess helps at every number of examples.", "Pearson above no guess", EXCLUDES_ZERO, helps_always, source="ours", holds=False, reason=RESAMPLED,
            counterexamples=(answered("no help at 5 examples", lambda data: as_under("none")(data.sel(shots=5)), condition="trained", shots=5),),
        ),
        Claim(
            "more_without", "Without a guess, more examples help.", "Pearson grows from the fewest to the most", EXCLUDES_ZERO, functools.partial(more_helps, name="none"), source="ours", holds=False, reason=RESAMPLED,
            counterexamples=(answered("answers at 20 examples as at none", _as_few("none"), condition="none", shots=20),),
        ),
        Claim(
            "more_with", "With a guess, more examples help: the model learns from them to use it.", "Pearson grows from the fewest to the most", EXCLUDES_ZERO, functools.partial(more_helps, name="trained"), source="ours", holds=False, reason=RESAMPLED,
            counterexamples=(answered("answers at 20 examples as at none", _as_few("trained"), condition="trained", shots=20),),
        ),
    ),
    choices=(Choice("claims marked as not expected to hold", "all expected; none", "SmolLM2-135M: reproduced, reproduced, contradicted", "marked with these answers in view: they are questions about a model, not statements of the paper"),),
    setup=SETUP + "\nk = 0, 1, 2, 5, the paper's 10, and 20; a pair sees the first k of the same order of examples",
    cost="300 pairs: about 20 s more on an H200",
)  # fmt: skip
