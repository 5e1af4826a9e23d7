"""When does an initial guess help? The answer against the quality of the guess, for every model."""

from __future__ import annotations

import matplotlib.pyplot as plt

from ...llm.conditions import NOISES
from ...llm.metrics import METRICS, bootstrap, copy_rate, slope
from ..base import Choice, Data, Figure
from ..lab import Lab
from .examples import answered, as_under, copied, example_answers, undefined
from .setup import COLORS, SETUP, Answers, Found, answers, claim, error_bars, gain, gains, heading, options_of

CONTROLS = ("zero", "mean", "random")
SOURCES = {
    "trained": ("o", "static embeddings"), "gte": ("s", "gte-small"), "oracle": ("D", "true score"),
    "random": ("x", "random numbers"),
}  # fmt: skip
WORST = f"trained+{NOISES[-1]:g}"


def names_of(qualities: list[str]) -> list[str]:
    """No guess, guesses that say nothing, and every guess with no noise and with all its noises."""
    noisy = [f"{source}+{noise:g}" for source in qualities for noise in NOISES]
    return ["none", *CONTROLS, "query_only", *qualities, *noisy]


def collect(lab: Lab) -> Data:
    options = options_of(lab)
    return answers(lab, "quality", names_of(options.qualities), shots=[options.shots], fit=True)


def draw(data: Data):
    found = list(data.values())
    figure, panels = plt.subplots(1, len(found), figsize=(1.0 + 4.6 * len(found), 5.4), sharey=True, squeeze=False)
    for axes, model, color in zip(panels[0], found, COLORS[3:], strict=False):
        axes.plot([-0.1, 1], [-0.1, 1], color=COLORS[0], ls="--", label="the guess alone")
        alone = model("none").measure("pearson")
        axes.axhline(alone.value, color=COLORS[1], ls=":", label="the model without a guess")
        axes.axhspan(alone.low, alone.high, color=COLORS[1], alpha=0.1, lw=0)
        shown = [name for name in model.conditions if name.partition("+")[0] in SOURCES]
        own = {name: model(name).guess_alone("pearson").value for name in shown}
        own = dict(sorted(own.items(), key=lambda item: item[1]))
        best = [bootstrap(METRICS["pearson"], model.combined(name), model(name).score).value for name in own]
        axes.plot(list(own.values()), best, color=COLORS[2], label="best combination of both")
        for source, (marker, title) in SOURCES.items():
            names = [name for name in own if name.partition("+")[0] == source]
            seen = [model(name).measure("pearson") for name in names]
            error_bars(
                axes,
                [own[name] for name in names],
                seen,
                fmt=marker,
                ms=7,
                color=color,
                mfc="white",
                label=f"the model with a guess: {title}",
            )
        axes.set(xlabel="quality of the guess (its own Pearson correlation)", xlim=(-0.12, 1.05), ylim=(-0.15, 1.05))
        axes.set_title(model.title, fontsize=11)
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("quality of the answer (Pearson correlation)")
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.suptitle(f"When does an initial guess help? {heading(data)}", fontsize=12)
    return figure


def follows(model: Answers) -> Found:
    return {"slope": bootstrap(slope, model("trained").answer, model("trained").guess)}


def more_than_copy(model: Answers) -> Found:
    return {"1 − slope": bootstrap(lambda a, g: 1 - slope(a, g), model("trained").answer, model("trained").guess)}


def copies(model: Answers) -> Found:
    def above(seen, blind, guess):
        return copy_rate(seen, guess) - copy_rate(blind, guess)

    found = bootstrap(above, model("trained").mark, model("none").mark, model("trained").guess)
    return {"copy rate above that of the model without a guess": found}


def quality(model: Answers) -> Found:
    worst = model(WORST)
    return {f"gain in pearson over {WORST}": gain("pearson", model("trained").answer, worst.answer, worst.score)}


def repairs_order(model: Answers) -> Found:
    return gains(model(WORST).answer, model(WORST).guess, model(WORST).score, ("pearson", "spearman"))


def repairs_error(model: Answers) -> Found:
    return gains(model(WORST).answer, model(WORST).guess, model(WORST).score, ("mse",))


def discounts(model: Answers) -> Found:
    good, bad = model("trained"), model(WORST)
    found = bootstrap(lambda a, g, b, h: slope(a, g) - slope(b, h), good.answer, good.guess, bad.answer, bad.guess)
    return {"slope on the trained guess − slope on the noisy one": found}


def content(model: Answers) -> Found:
    seen = model("trained")
    return {
        f"gain in pearson over {name}": gain("pearson", seen.answer, model(name).answer, seen.score)
        for name in CONTROLS
    }


def in_shots(model: Answers) -> Found:
    seen = model("trained")
    return {"gain in pearson": gain("pearson", seen.answer, model("query_only").answer, seen.score)}


NOISY_COPY = answered("the noisy guess copied with an error of 0.3", copied(WORST, error=0.3), condition=WORST)
FIGURE = Figure(
    id="fig_quality",
    title="when does an initial guess help?",
    collect=collect,
    draw=draw,
    example=lambda: example_answers(names_of(["trained", "oracle"])),
    claims=(
        claim("The answer moves with the guess.", "slope of the answer on the guess above 0", follows, answered("answers as without a guess, of other pairs", lambda data: data["answer"].sel(condition="none").values[..., ::-1], condition="trained"), undefined("trained")),
        claim("It does not simply repeat the guess.", "slope below 1", more_than_copy, answered("the guess copied with an error of 0.3", copied("trained", error=0.3), condition="trained"), answered("1.2 times the guess", copied("trained", factor=1.2), condition="trained"), holds=False),
        claim("The likeliest answer is the guess rounded to the scale, more often than for the model that has not seen it.", "copy rate above chance", copies, answered("marks as without a guess", as_under("none", "mark"), "mark", condition="trained"), holds=False),
        claim("A worse guess gives worse answers.", f"Pearson falls when noise of size {NOISES[-1]:g} is added", quality, answered("answers as good with the noisy guess", as_under("trained"), condition=WORST), undefined("trained")),
        claim(f"The model improves a bad guess: with noise {NOISES[-1]:g} it orders the pairs better than the guess alone.", "better on Pearson and Spearman", repairs_order, NOISY_COPY, answered("the noisy guess, halved", copied(WORST, factor=0.5), condition=WORST), undefined(WORST), holds=False, before=False),
        claim(f"It improves a bad guess: with noise {NOISES[-1]:g} its squared error is below the guess's alone.", "smaller squared error", repairs_error, NOISY_COPY, answered("1.2 times the noisy guess", copied(WORST, factor=1.2), condition=WORST), undefined(WORST), holds=False, before=False),
        claim("Examples with bad guesses teach the model to trust its guess less.", f"smaller slope with noise {NOISES[-1]:g}", discounts, answered("the noisy guess copied as much as the trained one", copied(WORST, factor=0.9), condition=WORST), undefined("trained"), holds=False),
        claim("What the guess says is what helps, not that a number stands there: zero, the training mean and a random number do less.", "Pearson above each control", content, *(answered(f"answers as good with {name}", as_under("trained"), condition=name) for name in CONTROLS)),
        claim("Guesses in the examples teach the model to use its own: a guess in the query alone does less.", "Pearson above query only", in_shots, answered("answers as with guesses in the examples", as_under("trained"), condition="query_only"), holds=False),
    ),
    choices=(
        Choice("repairs", "Pearson, Spearman and squared error in one verdict; order and error apart", "inconclusive, though each measure is decided: Pearson −0.18 [−0.25, −0.11], squared error +0.93 [0.57, 1.29] for SmolLM2-135M", "two claims: an answer drawn towards the middle has a small error and a bad order"),
        Choice("claims marked as not expected to hold", "all expected; more_than_copy, copies, repairs, discounts, in_shots not", "SmolLM2-135M: all reproduced but repairs", "they are questions about a model, not statements of the paper"),
    ),
    setup=SETUP + "\nguesses: zero, the training mean, random; trained, in the query only; of each guess model, and the true score, without noise "
    "and with normal noise of size " + ", ".join(f"{size:g}" for size in NOISES) + " added to the guesses of examples and query and cut to 0 … 5",
)  # fmt: skip
