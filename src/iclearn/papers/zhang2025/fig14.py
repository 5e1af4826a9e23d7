"""Figure 14: mixtures of in-context and in-weight prompts. What the weights learn first, they lose again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from ...core.recipe import Recipe
from ...core.trace import Trace
from ...tasks.regression import IN_CONTEXT, IN_WEIGHT
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import MEAN_SEEDS, SHARE_SEEDS, Outcome, judge_groups, judge_seeds, worst
from ..lab import Lab
from .examples import SEEDS, Change, curve, spoiled, wobble
from .setup import levels, merged_recipe, public_task, run_groups

FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MIXES = FRACTIONS[1:-1]
PROMPTS, STEPS = 5000, 5001
# Read off the published notebook, one run each: the IC loss at the end for c = 0; the IW minimum and its step, and for
# c = 0.2 the IW loss at the end.
PUBLISHED_IC = 2.2
PUBLISHED = {
    0.2: {"step of the minimum": 900.0, "minimum": 0.3, "end": 1.05},
    0.8: {"step of the minimum": 2300.0, "minimum": 0.65},
}
SPREAD = 0.2  # three standard deviations of a run must be below this share of a published number to judge by it
LEARNED = 0.9  # the in-weight task counts as learned where IW falls below this share of its start


def recipes(seeds: Sequence[int], fraction: float) -> list[Recipe]:
    """attnM on a set in which `fraction` of the prompts are in-context, with the public code's two test sets."""
    task = public_task(
        prompts=PROMPTS, white=True, in_context=fraction, whiten=fraction == 1, test_prompts=PROMPTS
    )  # fmt: skip
    return [merged_recipe(seed, task, steps=STEPS, optimizer__lr=5e-4) for seed in seeds]


def collect(lab: Lab) -> Data:
    return {"runs": run_groups(lab, {fraction: recipes(lab.seeds, fraction) for fraction in FRACTIONS})}


def test_loss(trace: Trace, which: str) -> np.ndarray:
    return trace.data["test_loss"].sel(test_set=which).values


def draw(data: Data):
    figure, axes = plt.subplots(2, 3, figsize=(11, 6), sharex=True, sharey=True)
    floor = float(levels(4, white=True)[-1])
    for ax, (fraction, traces) in zip(axes.flat, data["runs"].items(), strict=True):
        ax.axhline(floor, color="0.5", ls=":", lw=1.2, zorder=0)
        for i, trace in enumerate(traces):
            first = i == 0
            curves = (
                (trace.loss.values / float(trace.loss[0]), "black", "-", "training / its first value"),
                (test_loss(trace, IN_CONTEXT), "#0072B2", "--", "in-context test"),
                (test_loss(trace, IN_WEIGHT), "#E69F00", "-.", "in-weight test"),
            )
            for losses, color, line, label in curves:
                ax.plot(
                    losses, color=color, ls=line, lw=1.8 if first else 0.8, alpha=1 if first else 0.45,
                    zorder=3 if first else 2, label=label if first else None,
                )  # fmt: skip
        ax.set_title(f"{100 * fraction:.0f} % in-context prompts")
        ax.set(xlim=(0, len(traces[0].loss)), ylim=(0, 2.75), xticks=range(0, len(traces[0].loss), 2000))
    for ax in axes[1]:
        ax.set_xlabel("step")
    for ax in axes[:, 0]:
        ax.set_ylabel("loss")
    axes[0, 1].plot([], [], color="0.5", lw=0.8, label="thin: the other seeds")
    axes[0, 1].legend(loc="upper right")
    axes[0, 0].annotate(
        "optimum (11)", (0.98, floor), xycoords=("axes fraction", "data"), xytext=(0, 3), textcoords="offset points",
        ha="right", va="bottom", fontsize=9, color="0.3",
    )  # fmt: skip
    return figure


def judge_one_run(ours: Mapping[str, Sequence[float]], published: Mapping[str, float]) -> Outcome:
    """Numbers of one published run against our seeds, in standard deviations of one further run.

    Reproduced within 3 for every number, contradicted beyond 6 for any; inconclusive between, with fewer than three
    seeds, and where our runs scatter so much that 3 standard deviations are more than `SPREAD` of a number.
    """
    rows, distances, wide = {}, [], False
    for name, one in published.items():
        values = np.asarray(ours[name], float)
        spread = float(np.std(values, ddof=1) * np.sqrt(1 + 1 / len(values))) if len(values) > 2 else float("nan")
        distances.append(abs(float(values.mean()) - one) / spread if spread > 0 else float("nan"))
        wide |= 3 * spread > SPREAD * abs(one)
        rows[name] = {"mean": float(values.mean()), "published": one, "standard deviations away": distances[-1]}
    seeds = min(len(values) for values in ours.values())
    if seeds < 3:
        return Outcome(rows, "inconclusive", seeds)
    if not distances or not np.isfinite(distances).all():
        return Outcome(rows, "failed", seeds)
    furthest = max(distances)
    if furthest > 6:
        return Outcome(rows, "contradicted", seeds)
    return Outcome(rows, "reproduced" if furthest <= 3 and not wide else "inconclusive", seeds)


def in_weight_only(data: Data) -> Outcome:
    ends = [float(test_loss(t, IN_CONTEXT)[-1]) for t in data["runs"][0.0]]
    learned = [float(test_loss(t, IN_WEIGHT)[-1] / test_loss(t, IN_WEIGHT)[0]) for t in data["runs"][0.0]]
    # 4 standard errors of a mean of 5000 squares of a variable of variance 2: 4·2·√(2/5000) = 0.16
    passed = [end >= 2 - 0.16 and share < LEARNED for end, share in zip(ends, learned, strict=True)]
    return judge_seeds(passed, {"in-context loss at the end": ends, "in-weight loss, end / start": learned})


def published_rise(data: Data) -> Outcome:
    ends = [float(test_loss(t, IN_CONTEXT)[-1]) for t in data["runs"][0.0]]
    return judge_one_run({"end": ends}, {"end": PUBLISHED_IC})


def first_then_lost(data: Data) -> Outcome:
    """IW falls to a minimum inside the run and comes back, while IC falls from there to the end."""
    passed, rows = {}, {}
    for fraction in MIXES:
        rows[fraction], passed[fraction] = [], []
        for trace in data["runs"][fraction]:
            weight, context = test_loss(trace, IN_WEIGHT), test_loss(trace, IN_CONTEXT)
            low = int(np.argmin(weight))
            fell, left = weight[low] / weight[0], weight[-1] / weight[0]
            gained = context[-1] / context[low]
            rows[fraction].append([round(float(v), 3) for v in (fell, left, gained)])
            passed[fraction].append(bool(fell < LEARNED and left > LEARNED and gained < 0.5))
    return judge_groups(passed, {"by mix and seed: IW minimum / start, IW end / start, IC end / at that minimum": rows})


def weights_before_context(data: Data) -> Outcome:
    """When half of its whole fall is done: IW before IC."""
    passed, rows = {}, {}
    for fraction in MIXES:
        rows[fraction] = []
        for trace in data["runs"][fraction]:
            curves = (test_loss(trace, IN_WEIGHT), test_loss(trace, IN_CONTEXT))
            rows[fraction].append([int(np.argmax(c < (c[0] + c.min()) / 2)) for c in curves])
        passed[fraction] = [0 < weights < context for weights, context in rows[fraction]]
    return judge_groups(passed, {"by mix and seed: half-fall step of IW, of IC": rows})


def published_minima(data: Data) -> Outcome:
    rows, words = {}, []
    for fraction, published in PUBLISHED.items():
        curves = [test_loss(t, IN_WEIGHT) for t in data["runs"][fraction]]
        ours = {
            "step of the minimum": [float(np.argmin(c)) for c in curves],
            "minimum": [float(c.min()) for c in curves],
            "end": [float(c[-1]) for c in curves],
        }
        outcome = judge_one_run(ours, published)
        rows[f"c={fraction}"] = outcome.measured
        words.append(outcome.verdict)
    return Outcome(rows, worst(*words), len(data["runs"][MIXES[0]]))


def later_and_shallower(data: Data) -> Outcome:
    """Seed by seed, along c = .2, .4, .6, .8."""
    passed = []
    for traces in zip(*(data["runs"][c] for c in MIXES), strict=True):
        curves = [test_loss(t, IN_WEIGHT) for t in traces]
        steps, depths = np.array([np.argmin(c) for c in curves]), np.array([c.min() for c in curves])
        passed.append(bool((np.diff(steps) > 0).all() and (np.diff(depths) > 0).all()))
    return judge_seeds(passed, {"share of seeds": float(np.mean(passed))})


def never_learned(data: Data) -> Outcome:
    curves = [test_loss(t, IN_WEIGHT) for t in data["runs"][1.0]]
    lowest = [float(curve.min() / curve[0]) for curve in curves]
    return judge_seeds([low > LEARNED for low in lowest], {"in-weight minimum / start": lowest})


def example() -> Data:
    """Curves with the published turning points: a dip of the in-weight loss, then the fall of the in-context loss."""
    depths = dict(zip(MIXES, (0.3, 0.4, 0.5, 0.65), strict=True))
    turns = dict(zip(MIXES, (900, 1300, 1700, 2300), strict=True))
    t = np.arange(STEPS)
    runs: dict[float, list[Trace]] = {}
    for fraction in FRACTIONS:
        runs[fraction] = []
        for seed in range(SEEDS):
            factor = wobble(seed, 0.02)
            turn = turns.get(fraction, 1500) * factor
            fall, back = (1 / (1 + np.exp(-(t - at) / (0.1 * turn))) for at in (0.64 * turn, 1.368 * turn))
            context = 1.2 - 1.1 * back
            if fraction == 0:
                weight, context = 1 - 0.94 * fall, 1 + (PUBLISHED_IC * factor - 1) * fall
            elif fraction == 1:
                weight = 1 + 0.05 * factor * fall
            else:
                dip = fall * (1 - back)
                weight = 1 + 0.05 * factor * back - (1 - depths[fraction] * factor) * dip / dip.max()
            runs[fraction].append(curve(context, **{IN_WEIGHT: weight, IN_CONTEXT: context}))
    return {"runs": runs}


def changed_tests(change: Callable[[str, np.ndarray], np.ndarray]) -> Change:
    """Test losses, given by the name of the test set and as arrays, made anew."""

    def changed(trace: Trace) -> Trace:
        names = [str(name) for name in trace.data["test_set"].values]
        table = np.stack([change(name, test_loss(trace, name)) for name in names], -1)
        return replace(trace, data=trace.data.assign(test_loss=(("step", "test_set"), table)))

    return changed


def exchanged(trace: Trace) -> Trace:
    names = trace.data["test_set"].values
    return replace(trace, data=trace.data.assign_coords(test_set=names[::-1]))


EXCHANGED = spoiled("the two test sets exchanged", exchanged)
NAN = spoiled("test losses NaN", changed_tests(lambda _, loss: np.full_like(loss, np.nan)))
ONE_MIX = spoiled(
    "in-weight learning never lost in one mix",
    changed_tests(lambda name, loss: np.minimum.accumulate(loss)),
    "runs",
    0.6,
)

FIGURE = Figure(
    id="fig14",
    title="in-weight learning comes first and is lost when context suffices",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "in_weight_only", "Without in-context prompts (c = 0) the fixed task is learned by heart, and the in-context loss rises.",
            "at least tr Λ + wᵀΛw = 2, what answering w·x_q costs on other tasks",
            "less 0.16; in-weight loss below 0.9 of its start; more than half of the seeds", in_weight_only, source="theory",
            reason="4 standard errors of the mean of 5000 squares of variance 2",
            counterexamples=(
                EXCHANGED,
                spoiled("the in-context loss rises to 1.7 only in half of the runs", changed_tests(lambda name, loss: np.minimum(loss, 1.7)), "runs", 0.0, half=True),
                NAN,
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "published_rise", "With c = 0 the in-context loss rises to about 2.2.", "2.2, one published run",
            "3 standard deviations of a single run, from our seeds, which must be below a fifth of it", published_rise,
            reason="how much beyond 2 it ends depends on the random start",
            counterexamples=(
                spoiled("a third higher", changed_tests(lambda name, loss: 1.33 * loss), "runs", 0.0),
                Counterexample("runs that scatter by 30 %", lambda data: {"runs": {**data["runs"], 0.0: [changed_tests(lambda n, loss, f=1 + 0.3 * (-1) ** i: f * loss)(t) for i, t in enumerate(data["runs"][0.0])]}}),
                NAN,
            ),
            min_seeds=MEAN_SEEDS,
        ),
        Claim(
            "first_then_lost", "With 0 < c < 1 the in-weight loss falls first and then rises again while the in-context loss falls.",
            "IW below 0.9 of its start, back above 0.9 at the end; IC less than half of what it was at the IW minimum",
            "more than half of the seeds for each of the four mixes", first_then_lost,
            reason="a tenth of the start is several times what 5000 test prompts make the loss fluctuate",
            counterexamples=(EXCHANGED, ONE_MIX, NAN),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "weights_before_context", "With 0 < c < 1 in-weight learning comes before in-context learning.",
            "half of the fall of IW is done before half of the fall of IC", "more than half of the seeds for each of the four mixes",
            weights_before_context,
            reason="a comparison of two times on the same run",
            counterexamples=(EXCHANGED, spoiled("the two test sets exchanged in one mix", exchanged, "runs", 0.4), NAN),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "published_minima", "Where the in-weight loss turns and ends: the published runs at c = 0.2 and 0.8.",
            "; ".join(f"c = {c}: " + ", ".join(f"{name} {value:g}" for name, value in numbers.items()) for c, numbers in PUBLISHED.items()),
            "3 standard deviations of a single run, from our seeds, for each of the 5 numbers, which must be below a fifth of it", published_minima, before=False,
            reason="one run each, read off a picture to about one digit, which is not allowed for",
            counterexamples=(
                spoiled("minima a quarter deeper", changed_tests(lambda name, loss: loss - 0.25 * loss.min()), "runs", 0.2),
                spoiled("curves at half the speed", changed_tests(lambda name, loss: loss[np.arange(len(loss)) // 2]), "runs", 0.8),
                EXCHANGED, NAN,
            ),
            min_seeds=MEAN_SEEDS,
        ),
        Claim(
            "later_and_shallower", "The more in-context prompts, the later and shallower the in-weight minimum.",
            "both increase along c = .2, .4, .6, .8", "more than half of the seeds", later_and_shallower, source="ours",
            reason="a comparison of four runs of one seed",
            counterexamples=(
                Counterexample("two mixes exchanged", lambda data: {"runs": {**data["runs"], 0.4: data["runs"][0.6], 0.6: data["runs"][0.4]}}),
                NAN,
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "never_learned", "Without in-weight prompts (c = 1) the in-weight task is never learned.",
            "IW minimum at least 0.9 of its start", "more than half of the seeds", never_learned,
            reason="5000 prompts push the zero blocks a few per cent in a random direction",
            counterexamples=(
                Counterexample("runs with 80 % in-context prompts", lambda data: {"runs": {**data["runs"], 1.0: data["runs"][0.8]}}),
                NAN,
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice(
            "minima", "the (step, loss) of one earlier run of our own engine, 8 numbers, 3 standard deviations", "reproduced, at most 1.7 standard deviations: ours against ours",
            "the published numbers, by the same rule; by it our 0.25 is 3.8 standard deviations from the published 0.3 (audit)",
        ),
        Choice(
            "pooling", "80 % of the 24 runs of all mixes", "24 of 24", "every mix by itself",
        ),
    ),
    setup="""task: D=4, N=31, Λ = I/4, P=5000 prompts of which a share c has its own w ~ N(0, I), the others one w with ‖w‖ = 2; x centered
c = 0: context labels N(0, 1), y_q = w·x_q; c = 1: task vectors whitened; test sets of 5000 prompts with c = 0 (IW) and c = 1 (IC)
model: merged attention H=8, full, init 1e-6; for step in 5001: W ← W − 0.0005 · ∂loss/∂W""",
    cost="10 s on 2 cores",
)  # fmt: skip
