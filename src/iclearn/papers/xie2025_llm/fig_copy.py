"""Does the model copy its guess? The answer against the guess, for guesses of every quality."""

from __future__ import annotations

import functools

import matplotlib.pyplot as plt
import numpy as np

from ...llm.conditions import NOISES, condition
from ...llm.metrics import bootstrap, copy_rate, slope
from ..base import Choice, Claim, Data, Figure, Outcome
from ..lab import Lab
from .examples import answered, as_under, copied, example_answers, undefined, with_views
from .setup import (
    COLORS,
    EXCLUDES_ZERO,
    RESAMPLED,
    SETUP,
    answers,
    error_bars,
    gain,
    judge_gain,
    judge_positive,
    model_title,
)

NOISY = tuple(f"noise{size:g}" for size in NOISES)
BY_QUALITY = ("oracle", "trained", *NOISY, "random")
NAMES = ("none", *BY_QUALITY)
SHORT = {"oracle": "oracle", "trained": "trained", "random": "random", **{n: f"+{n[5:]}" for n in NOISY}}


def collect(lab: Lab) -> Data:
    shots = lab.options.shots if lab.options is not None else 10
    return with_views(answers(lab, "copy", NAMES, (shots,)), NAMES)


def example() -> Data:
    return with_views(example_answers(NAMES), NAMES)


def draw(data: Data):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14.0, 4.4))
    trained = data["trained"]
    left.plot([0, 5], [0, 5], color=COLORS["guess"], ls="--", label="answer = guess")
    left.scatter(trained.guess[0], trained.answer[0], s=14, alpha=0.5, color=COLORS["llm"], lw=0, label="pairs")
    found = bootstrap(slope, trained.answer, trained.guess)
    line = np.array([trained.guess[0].min(), trained.guess[0].max()])
    fit = trained.answer[0].mean() + found.value * (line - trained.guess[0].mean())
    left.plot(line, fit, color=COLORS["none"], label=f"slope {found.value:.2f}")
    left.set(xlabel="trained guess", ylabel="model's answer", xlim=(0, 5), ylim=(0, 5))
    left.legend(loc="upper left")

    places = np.arange(len(BY_QUALITY))
    views = [data[name] for name in BY_QUALITY]
    none = data["none"].measure("pearson")
    middle.axhline(none.value, color=COLORS["none"], ls=":", label="model, no guess")
    middle.axhspan(none.low, none.high, color=COLORS["none"], alpha=0.1, lw=0)
    error_bars(
        middle, places + 0.1, [v.guess_alone("pearson") for v in views], fmt="D", ms=6, mfc="white",
        color=COLORS["guess"], label="guess alone",
    )  # fmt: skip
    error_bars(
        middle, places - 0.1, [v.measure("pearson") for v in views], fmt="o", ms=7, color=COLORS["llm"],
        label="model with that guess",
    )  # fmt: skip
    middle.set(ylabel="Pearson correlation", ylim=(min(-0.2, none.low - 0.05), 1.4))
    middle.legend(loc="upper right", fontsize=9)

    error_bars(
        right, places - 0.1, [bootstrap(slope, v.answer, v.guess) for v in views], fmt="o", ms=7,
        color=COLORS["llm"], label="slope of the answer on the guess",
    )  # fmt: skip
    error_bars(
        right, places + 0.1, [bootstrap(copy_rate, v.mark, v.guess) for v in views], fmt="s", ms=6, mfc="white",
        color=COLORS["other"], label="copy rate (likeliest mark = guess)",
    )  # fmt: skip
    by_chance = bootstrap(copy_rate, data["none"].mark, trained.guess)
    right.axhline(by_chance.value, color=COLORS["none"], ls=":", label="copy rate without seeing the guess")
    for axes in (middle, right):
        axes.set_xticks(places, [SHORT[name] for name in BY_QUALITY])
        axes.set(xlabel="guess (+s: trained, noise of size s added)")
    right.set(ylim=(-0.05, 1.25))
    right.legend(loc="upper right", fontsize=9)
    figure.suptitle(f"{model_title(data['data'])}, {int(data['data']['shots'].values[0])} shots", fontsize=12)
    return figure


def follows(data: Data) -> Outcome:
    view = data["trained"]
    return judge_positive(bootstrap(slope, view.answer, view.guess), "slope", len(view.score))


def more_than_copy(data: Data) -> Outcome:
    view = data["trained"]
    found = bootstrap(lambda a, g: 1 - slope(a, g), view.answer, view.guess)
    return judge_positive(found, "1 − slope", len(view.score))


def copies(data: Data) -> Outcome:
    view = data["trained"]
    found = bootstrap(
        lambda seen, blind, guess: copy_rate(seen, guess) - copy_rate(blind, guess),
        view.mark, data["none"].mark, view.guess,
    )  # fmt: skip
    outcome = judge_positive(found, "copy rate above that of the model without a guess", len(view.score))
    rates = {SHORT[name]: round(float(copy_rate(data[name].mark, data[name].guess).mean()), 3) for name in BY_QUALITY}
    return Outcome({**outcome.measured, "copy rate": rates}, outcome.verdict, outcome.seeds)


def quality(data: Data) -> Outcome:
    worst = data[NOISY[-1]]
    found = gain("pearson", data["trained"].answer, worst.answer, worst.score)
    outcome = judge_positive(found, f"gain in pearson over noise {NOISES[-1]:g}", len(worst.score))
    seen = {SHORT[name]: data[name].measure("pearson").rounded() for name in BY_QUALITY}
    return Outcome({**outcome.measured, "pearson [95 %]": seen}, outcome.verdict, outcome.seeds)


def repairs(data: Data, metrics: tuple[str, ...]) -> Outcome:
    worst = data[NOISY[-1]]
    return judge_gain(worst.answer, worst.guess, worst.score, metrics)


def discounts(data: Data) -> Outcome:
    good, bad = data["trained"], data[NOISY[-1]]
    found = bootstrap(lambda a, g, b, h: slope(a, g) - slope(b, h), good.answer, good.guess, bad.answer, bad.guess)
    return judge_positive(found, "slope on the trained guess − slope on the noisy one", len(good.score))


FIGURE = Figure(
    id="fig_copy",
    title="how far the answer is its guess, by the guess's quality",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "follows", "The answer moves with the guess.", "slope of the answer on the guess above 0", "95 % interval excludes 0", follows, source="ours",
            reason=RESAMPLED, counterexamples=(answered("answers as without a guess, of other pairs", lambda data: data["answer"].sel(condition="none").values[..., ::-1], condition="trained"), undefined("trained")),
        ),
        Claim(
            "more_than_copy", "It does not simply repeat the guess.", "slope below 1", "95 % interval of 1 − slope excludes 0", more_than_copy, source="ours", holds=False,
            reason=RESAMPLED, counterexamples=(answered("the guess copied with an error of 0.3", copied("trained", error=0.3), condition="trained"), answered("1.2 times the guess", copied("trained", factor=1.2), condition="trained")),
        ),
        Claim(
            "copies", "The likeliest answer is the guess rounded to the scale, more often than for the model that has not seen it.", "copy rate above chance", "95 % interval of the difference excludes 0", copies, source="ours", holds=False,
            reason=RESAMPLED, counterexamples=(answered("marks as without a guess", as_under("none", "mark"), "mark", condition="trained"),),
        ),
        Claim(
            "quality", "A worse guess gives worse answers.", f"Pearson falls when noise of size {NOISES[-1]:g} is added", "95 % interval of the paired gain excludes 0", quality, source="ours",
            reason=RESAMPLED, counterexamples=(answered("answers as good with the noisy guess", as_under("trained"), condition=NOISY[-1]), undefined("trained")),
        ),
        Claim(
            "repairs_order", f"The model improves a bad guess: with noise {NOISES[-1]:g} it orders the pairs better than the guess alone.", "better on Pearson and Spearman", EXCLUDES_ZERO, functools.partial(repairs, metrics=("pearson", "spearman")), source="ours", holds=False, before=False,
            reason=RESAMPLED, counterexamples=(answered("the noisy guess copied with an error of 0.3", copied(NOISY[-1], error=0.3), condition=NOISY[-1]), answered("the noisy guess, halved", copied(NOISY[-1], factor=0.5), condition=NOISY[-1]), undefined(NOISY[-1])),
        ),
        Claim(
            "repairs_error", f"It improves a bad guess: with noise {NOISES[-1]:g} its squared error is below the guess's alone.", "smaller squared error", EXCLUDES_ZERO, functools.partial(repairs, metrics=("mse",)), source="ours", holds=False, before=False,
            reason=RESAMPLED, counterexamples=(answered("the noisy guess copied with an error of 0.3", copied(NOISY[-1], error=0.3), condition=NOISY[-1]), answered("1.2 times the noisy guess", copied(NOISY[-1], factor=1.2), condition=NOISY[-1]), undefined(NOISY[-1])),
        ),
        Claim(
            "discounts", "Shots with bad guesses teach the model to trust its guess less.", f"smaller slope with noise {NOISES[-1]:g}", "95 % interval of the difference excludes 0", discounts, source="ours", holds=False,
            reason=RESAMPLED, counterexamples=(answered("the noisy guess copied as much as the trained one", copied(NOISY[-1], factor=0.9), condition=NOISY[-1]), undefined("trained")),
        ),
    ),
    choices=(
        Choice(
            "repairs", "Pearson, Spearman and squared error in one verdict; order and error apart", "inconclusive, though each measure is decided: Pearson −0.18 [−0.25, −0.11], squared error +0.93 [0.57, 1.29] for SmolLM2-135M",
            "two claims: an answer drawn towards the middle has a small error and a bad order",
        ),
        Choice("claims marked as not expected to hold", "all expected; more_than_copy, copies, repairs, discounts not", "SmolLM2-135M: all reproduced but repairs", "marked with these answers in view: they are questions about a model, not statements of the paper"),
    ),
    setup=SETUP
    + "\nconditions: " + ", ".join(condition(name).title for name in BY_QUALITY)
    + "; noise is normal, added to the guesses of shots and query and cut to 0 … 5",
    cost="300 pairs: about 10 s more on an H200",
)  # fmt: skip
