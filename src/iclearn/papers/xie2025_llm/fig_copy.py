"""Does the model copy its guess? The answer against the guess, for guesses of every quality."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...llm.conditions import NOISES, condition
from ...llm.metrics import bootstrap, copy_rate, slope
from ..base import Claim, Data, Figure, Outcome
from ..lab import Lab
from .setup import COLORS, SETUP, View, answers, error_bars, gain, judge_gain, judge_positive, model_title

NOISY = tuple(f"noise{size:g}" for size in NOISES)
BY_QUALITY = ("oracle", "trained", *NOISY, "random")
SHORT = {"oracle": "oracle", "trained": "trained", "random": "random", **{n: f"+{n[5:]}" for n in NOISY}}


def collect(lab: Lab) -> Data:
    shots = lab.options.shots if lab.options is not None else 10
    names = ("none", *BY_QUALITY)
    data = answers(lab, "copy", names, (shots,))
    return {"data": data, **{name: View(data, name) for name in names}}


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


def repairs(data: Data) -> Outcome:
    worst = data[NOISY[-1]]
    return judge_gain(worst.answer, worst.guess, worst.score)


def discounts(data: Data) -> Outcome:
    good, bad = data["trained"], data[NOISY[-1]]
    found = bootstrap(lambda a, g, b, h: slope(a, g) - slope(b, h), good.answer, good.guess, bad.answer, bad.guess)
    return judge_positive(found, "slope on the trained guess − slope on the noisy one", len(good.score))


FIGURE = Figure(
    id="fig_copy",
    title="how far the answer is its guess, by the guess's quality",
    collect=collect,
    draw=draw,
    claims=(
        Claim("follows", "The answer moves with the guess.", "slope of the answer on the guess above 0", "95 % interval excludes 0", follows, source="ours"),
        Claim("more_than_copy", "It does not simply repeat the guess.", "slope below 1", "95 % interval of 1 − slope excludes 0", more_than_copy, source="ours", holds=False),
        Claim("copies", "The likeliest answer is the guess rounded to the scale, more often than for the model that has not seen it.", "copy rate above chance", "95 % interval of the difference excludes 0", copies, source="ours", holds=False),
        Claim("quality", "A worse guess gives worse answers.", f"Pearson falls when noise of size {NOISES[-1]:g} is added", "95 % interval of the paired gain excludes 0", quality, source="ours"),
        Claim("repairs", f"The model improves a bad guess: with noise {NOISES[-1]:g} it does better than the guess alone.", "better on Pearson, Spearman and squared error", "95 % intervals of the paired gains exclude 0", repairs, source="ours", holds=False),
        Claim("discounts", "Shots with bad guesses teach the model to trust its guess less.", f"smaller slope with noise {NOISES[-1]:g}", "95 % interval of the difference excludes 0", discounts, source="ours", holds=False),
    ),
    setup=SETUP
    + "\nconditions: " + ", ".join(condition(name).title for name in BY_QUALITY)
    + "; noise is normal, added to the guesses of shots and query and cut to 0 … 5",
    cost="300 pairs: about 10 s more on an H200",
)  # fmt: skip
