"""A language model scores sentence pairs, with every kind of initial guess, and each guess alone beside it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...llm.conditions import condition
from ...llm.metrics import bootstrap, partial
from ..base import Choice, Claim, Data, Figure, Outcome
from ..lab import Lab
from .examples import answered, as_under, copied, example_answers, undefined, with_views
from .setup import (
    COLORS,
    EXCLUDES_ZERO,
    RESAMPLED,
    SETUP,
    about_the_paper,
    answers,
    error_bars,
    gain,
    judge_all,
    judge_gain,
    judge_positive,
    model_title,
)

CONDITIONS = ("none", "zero", "mean", "random", "trained", "query_only", "oracle")


def collect(lab: Lab) -> Data:
    shots = lab.options.shots if lab.options is not None else 10
    data = answers(lab, "conditions", CONDITIONS, (shots,))
    return with_views(data, CONDITIONS)


def example() -> Data:
    return with_views(example_answers(CONDITIONS), CONDITIONS)


def draw(data: Data):
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.6), sharey=True)
    places = np.arange(len(CONDITIONS))[::-1]
    for axes, metric, label in zip(
        panels, ("pearson", "mse"), ("Pearson correlation", "mean squared error"), strict=True
    ):
        alone = data["trained"].guess_alone(metric)
        axes.axvline(alone.value, color=COLORS["guess"], ls="--", zorder=0, label="trained guess alone")
        axes.axvspan(alone.low, alone.high, color=COLORS["guess"], alpha=0.12, lw=0, zorder=0)
        views = [data[name] for name in CONDITIONS]
        error_bars(
            axes, places + 0.12, [v.measure(metric) for v in views], horizontal=True,
            fmt="o", ms=7, color=COLORS["llm"], label="model's answer",
        )  # fmt: skip
        guesses = [(p, v) for p, v in zip(places, views, strict=True) if np.isfinite(v.guess).all()]
        error_bars(
            axes, [p - 0.16 for p, _ in guesses], [v.guess_alone(metric) for _, v in guesses], horizontal=True,
            fmt="D", ms=5, mfc="white", color=COLORS["guess"], label="its guess alone",
        )  # fmt: skip
        axes.set(xlabel=label)
        axes.grid(axis="x", alpha=0.3)
    panels[0].set_yticks(places, [condition(name).title for name in CONDITIONS])
    panels[0].set_ylim(-0.6, len(CONDITIONS) - 0.4)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    shots = int(data["data"]["shots"].values[0])
    figure.suptitle(f"{model_title(data['data'])}, {shots} shots", fontsize=12)
    return figure


def helps(data: Data) -> Outcome:
    outcome = judge_gain(data["trained"].answer, data["none"].answer, data["none"].score)
    return about_the_paper(outcome, data["data"])


def beats_guess(data: Data) -> Outcome:
    return judge_gain(data["trained"].answer, data["trained"].guess, data["none"].score)


def content(data: Data) -> Outcome:
    trained, controls = data["trained"], ("zero", "mean", "random")
    found = {
        f"gain in pearson over {name}": gain("pearson", trained.answer, data[name].answer, trained.score)
        for name in controls
    }
    return judge_all(found, len(trained.score))


def oracle(data: Data) -> Outcome:
    return judge_gain(data["oracle"].answer, data["trained"].answer, data["none"].score)


def in_shots(data: Data) -> Outcome:
    found = gain("pearson", data["trained"].answer, data["query_only"].answer, data["none"].score)
    return judge_positive(found, "gain in pearson", len(data["none"].score))


def adds(data: Data) -> Outcome:
    view = data["trained"]
    found = bootstrap(partial, view.answer, view.score, view.guess)
    return judge_positive(found, "correlation of answer and score, guess held fixed", len(view.score))


FIGURE = Figure(
    id="fig_conditions",
    title="answers with every kind of guess, and the guesses alone",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "helps", "A language model given a trained initial guess does better than without one.", "better on Pearson, Spearman and squared error", EXCLUDES_ZERO, helps,
            reason=f"the paper names no measure, so all three; {RESAMPLED}; only the paper's two models can contradict it",
            counterexamples=(answered("answers as without a guess", as_under("none"), condition="trained"), undefined("trained")),
        ),
        Claim(
            "beats_guess", "It also does better than the guess alone (otherwise copying part of a good guess is all there is to it).", "better on Pearson, Spearman and squared error", EXCLUDES_ZERO, beats_guess, source="ours", holds=False,
            reason=RESAMPLED, counterexamples=(answered("the guess copied with an error of 0.3", copied("trained", error=0.3), condition="trained"), answered("the guess copied", copied("trained"), condition="trained"), undefined("trained")),
        ),
        Claim(
            "content", "What the guess says is what helps, not that a number stands there: zero, the training mean and a random number do less.", "Pearson above each control", EXCLUDES_ZERO, content, source="ours",
            reason=RESAMPLED, counterexamples=tuple(answered(f"answers as good with {name}", as_under("trained"), condition=name) for name in ("zero", "mean", "random")),
        ),
        Claim(
            "oracle", "A perfect guess helps more than a trained one.", "better on Pearson, Spearman and squared error", EXCLUDES_ZERO, oracle, source="ours",
            reason=RESAMPLED, counterexamples=(answered("answers as with the trained guess", as_under("trained"), condition="oracle"), undefined("oracle")),
        ),
        Claim(
            "in_shots", "Guesses in the examples teach the model to use its own: a guess in the query alone does less.", "Pearson above query only", EXCLUDES_ZERO, in_shots, source="ours", holds=False,
            reason=RESAMPLED, counterexamples=(answered("answers as with guesses in the examples", as_under("trained"), condition="query_only"),),
        ),
        Claim(
            "adds", "The answer knows something that its guess does not: it correlates with the score at fixed guess.", "partial correlation above 0", "95 % interval excludes 0", adds, source="ours", holds=False,
            reason=RESAMPLED, counterexamples=(answered("the guess copied with an error of 0.3", copied("trained", error=0.3), condition="trained"), undefined("trained")),
        ),
    ),
    choices=(
        Choice("whose statement beats_guess is", "paper; ours", "contradicted by a model of 135 million weights (Pearson −0.23, squared error −0.80)", "ours: the paper compares with no guess only"),
        Choice("claims marked as not expected to hold", "all expected; beats_guess, in_shots, adds not", "SmolLM2-135M: contradicted, reproduced, inconclusive", "marked with these answers in view: they are questions about a model, not statements of the paper"),
    ),
    setup=SETUP + "\nconditions: no guess; zero; training mean; uniform random; trained; trained, in the query only; the true score (oracle)",
    cost="300 pairs: about 15 s on an H200, 10 s a prompt on one core",
)  # fmt: skip
