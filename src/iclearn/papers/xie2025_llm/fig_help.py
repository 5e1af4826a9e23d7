"""Does an initial guess help? The answers without a guess, with one, the guess alone, and the best combination."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...llm.conditions import condition
from ...llm.metrics import METRICS, bootstrap, partial
from ..base import Choice, Data, Figure
from ..lab import Lab
from .examples import answered, as_under, copied, example_answers, no_skill, undefined
from .setup import COLORS, SETUP, Answers, Found, answers, claim, error_bars, gains, heading, options_of

NAMES = ("none", "trained", "oracle")
ON_ALL = "better on Pearson, Spearman and squared error"


def collect(lab: Lab) -> Data:
    options = options_of(lab)
    return answers(lab, "help", ["none", *options.qualities], shots=[options.shots], fit=True)


def draw(data: Data):
    found = list(data.values())
    names = found[0].conditions
    guessed = [name for name in names if name != "none"]
    places = np.arange(len(names))[::-1]
    at = np.array([places[names.index(name)] for name in guessed])
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 1.6 + 0.9 * len(names)), sharey=True)
    for axes, metric in zip(panels, ("pearson", "mse"), strict=True):
        alone = [found[0](name).guess_alone(metric) for name in guessed]
        error_bars(
            axes,
            at + 0.25,
            alone,
            horizontal=True,
            fmt="D",
            ms=5,
            mfc="white",
            color=COLORS[0],
            label="the guess alone",
        )
        for number, (model, color) in enumerate(zip(found, COLORS[3:], strict=False)):
            seen, shift = [model(name).measure(metric) for name in names], 0.1 - 0.3 * number / max(len(found) - 1, 1)
            error_bars(axes, places + shift, seen, horizontal=True, fmt="o", ms=7, color=color, label=model.title)
        best = [bootstrap(METRICS[metric], found[0].combined(name), found[0](name).score) for name in guessed]
        label = f"best combination with {found[0].name}"
        error_bars(axes, at - 0.32, best, horizontal=True, fmt="^", ms=6, mfc="white", color=COLORS[2], label=label)
        axes.set(xlabel={"pearson": "Pearson correlation", "mse": "mean squared error"}[metric])
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(places, [condition(name).title for name in names])
    panels[0].set_ylim(-0.6, len(names) - 0.4)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.suptitle(f"{heading(data)}, {found[0].data.attrs['shots']} examples in the prompt", fontsize=12)
    return figure


def helps(model: Answers) -> Found:
    return gains(model("trained").answer, model("none").answer, model("none").score)


def beats_guess(model: Answers) -> Found:
    return gains(model("trained").answer, model("trained").guess, model("none").score)


def uses_all(model: Answers) -> Found:
    return gains(model("trained").answer, model.combined("trained"), model("none").score)


def oracle(model: Answers) -> Found:
    return gains(model("oracle").answer, model("trained").answer, model("none").score)


def adds(model: Answers) -> Found:
    view = model("trained")
    return {
        "correlation of answer and score, guess held fixed": bootstrap(partial, view.answer, view.score, view.guess)
    }


UNAIDED = answered("answers as without a guess", as_under("none"), condition="trained")
COPIED = answered("the guess copied", copied("trained"), condition="trained")
NOT_QUITE = answered("the guess copied with an error of 0.3", copied("trained", error=0.3), condition="trained")
FIGURE = Figure(
    id="fig_help",
    title="does an initial guess help?",
    collect=collect,
    draw=draw,
    example=lambda: example_answers(NAMES),
    claims=(
        claim("A language model given a trained initial guess does better than without one.", ON_ALL, helps, UNAIDED, undefined("trained"), no_skill(), source="paper", why="the paper names no measure, so all three"),
        claim("It also does better than the guess alone (otherwise copying part of a good guess is all there is to it).", ON_ALL, beats_guess, NOT_QUITE, COPIED, undefined("trained"), holds=False),
        claim("It does better than the best linear combination of the guess and its own unaided answer.", ON_ALL, uses_all, COPIED, UNAIDED, undefined("trained"), holds=False, why="the combination is fitted on other pairs"),
        claim("A perfect guess helps more than a trained one.", ON_ALL, oracle, answered("answers as with the trained guess", as_under("trained"), condition="oracle"), undefined("oracle")),
        claim("The answer knows something that its guess does not: it correlates with the score at fixed guess.", "partial correlation above 0", adds, NOT_QUITE, undefined("trained"), holds=False),
    ),
    choices=(
        Choice("whose statement beats_guess is", "paper; ours", "contradicted by a model of 135 million weights (Pearson −0.23, squared error −0.80)", "ours: the paper compares with no guess only"),
        Choice("claims marked as not expected to hold", "all expected; beats_guess, uses_all and adds not", "300 development pairs, SmolLM2-135M: beats_guess contradicted, adds inconclusive; 400 development pairs, Qwen2.5-Coder-1.5B: contradicted, reproduced", "they are questions about a model, not statements of the paper"),
        Choice("the least unaided skill", "none asked; Pearson's interval above .3, squared error below that of the training mean", "development pairs, Pearson: Qwen2.5-Coder-1.5B .62, 0.5B .16, SmolLM2-135M .05", "between the models seen, and before any test pair: a model that is worse than a constant has nothing to combine with a guess"),
        Choice("who can contradict the paper's claim", "the paper's two models; every model with unaided skill", "SmolLM2-135M, which has none: reproduced", "a judge that only says yes is none; a model without skill decides nothing"),
    ),
    setup=SETUP,
)  # fmt: skip
