"""Where training leads: the limits of the three layers, and two of them trained 16 times as long. Not in the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...tasks.softmax_regression import SoftmaxRegression
from ..base import Choice, Claim, Counterexample, Data, Figure, Outcome, judge_close, judge_seeds
from ..judging import SHARE_SEEDS, Word, judge_each, judge_groups, worst
from ..lab import Lab
from .examples import Perturb, ending, lost, made_up, times
from .judges import MOST, SIMILAR, last_fall
from .limits import LABELS, WEAK, families, limit_of_a
from .setup import (
    CLOSE_COSINE,
    CLOSE_LOSS,
    COLORS,
    DOCUMENTS,
    FEW,
    LONG_RECORDS,
    LONG_STEPS,
    MARKS,
    SETUP,
    STEPS,
    band,
    end,
    mean_std,
    measured,
    recipe,
)

LONG = {"A": 25, "C": 50}  # words of the layers that are trained on
WORDS = (25, 50, 100, 200)
SCALES = (0.125, 0.25, 0.5, 1.0)
MANY = 4000  # documents for each: at small s what the labels differ in is a small part of the loss
SMALL = 3  # the smallest κ and s, from which exponents are read
FAMILY_DOCUMENTS = 200


def collect(lab: Lab) -> Data:
    seeds = lab.seeds_or(FEW)
    groups = {layer: [recipe(layer, seed, words=n, long=True) for seed in seeds] for layer, n in LONG.items()}
    found: dict[str, xr.Dataset] = measured(lab, "fig_limits", groups, every=(LONG_RECORDS - 1) * STEPS // LONG_STEPS)
    kinds = {f"n = {n}": (n, 0.5, DOCUMENTS) for n in WORDS} | {f"s = {s:g}": (50, s, MANY) for s in SCALES}
    for name, (n, s, count) in kinds.items():
        task, known = (
            SoftmaxRegression(context_len=n, scale=s),
            {"n": n, "s": s, "seeds": len(seeds), "documents": count},
        )
        label = f"li2024-limit-{name.replace(' = ', '-')}"
        found[name] = lab.dataset(label, known, lambda t=task, c=count: limit_of_a(t, seeds, c))
    known = {"documents": FAMILY_DOCUMENTS, "strengths": WEAK.tolist()}
    task = SoftmaxRegression(context_len=50)
    return found | {"families": lab.dataset("li2024-families", known, lambda: families(task, 0, FAMILY_DOCUMENTS))}


def draw(data: Data):
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9))
    for layer, n in LONG.items():
        table = data[layer].isel(step=slice(1, None))
        ratio = table["loss"].values / table["gd_loss"].values[:, None]
        band(axes[0], table["step"].values, ratio, COLORS[layer], f"layer {layer}, n = {n}")
    limit = data[f"n = {LONG['A']}"]
    axes[0].axhline(
        float((limit["limit_loss"] / limit["gd_loss"]).mean()), color=COLORS["A"], ls=":", label="limit of layer A"
    )
    axes[0].axhline(1, color="black", ls="--", lw=1.2, label="gradient step, limit of layer C")
    axes[0].set(xscale="log", xlabel="step", ylabel="loss / loss of the gradient step", title="trained on, s = 0.5")
    axes[0].legend(fontsize=9, loc="upper right")
    found = data["families"]
    for layer in LABELS:
        axes[1].plot(
            found["strength"],
            found["apart"].sel(layer=layer),
            color=COLORS[layer],
            marker=MARKS[layer],
            mfc="white",
            label=f"layer {layer}",
        )
    axes[1].set(
        xscale="log",
        yscale="log",
        xlabel="strength κ of attention",
        ylabel="distance to the limit",
        title="n = 50, s = 0.5",
    )
    axes[1].legend()
    gaps = [1 - data[f"s = {s:g}"]["limit_loss"] / data[f"s = {s:g}"]["gd_loss"] for s in SCALES]
    axes[2].errorbar(
        SCALES,
        [float(g.mean()) for g in gaps],
        [float(g.std()) for g in gaps],
        color=COLORS["A"],
        marker="o",
        mfc="white",
        capsize=3,
    )
    axes[2].plot(SCALES, float(gaps[0].mean()) * (np.array(SCALES) / SCALES[0]) ** 2, color="0.5", ls=":", label="∝ s²")
    axes[2].axhline(CLOSE_LOSS, color="0.6", lw=1, ls="--")
    axes[2].set(
        xscale="log", yscale="log", xlabel="logit scale s", ylabel="1 − limit of A / gradient step", title="n = 50"
    )
    axes[2].set_xticks(SCALES, [f"{s:g}" for s in SCALES])
    axes[2].set_xticks([], minor=True)
    axes[2].legend()
    return figure  # fmt: skip


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """Of ln y against ln x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def weak_attention(data: Data) -> Outcome:
    """The distance of a layer to its limit against the strength of attention, for the weakest three."""
    found = data["families"].isel(strength=slice(SMALL))
    slopes = {layer: slope(found["strength"].values, found["apart"].sel(layer=layer).values) for layer in LABELS}
    words: list[Word] = [judge_close(value, 1, 0.02).verdict for value in slopes.values()]
    return Outcome({"exponents": slopes}, worst(*words))


def limits_are(data: Data) -> Outcome:
    """B and C tend to the gradient step, A to something else."""
    apart = {layer: float(data["families"]["limit_apart"].sel(layer=layer)) for layer in LABELS}
    passed = [apart["B"] <= 1e-5, apart["C"] <= 1e-5, apart["A"] > 0.05]
    return judge_each(passed, {"distance of the limit to the gradient step / its length": apart})


def nothing_better(data: Data) -> Outcome:
    """With the best values for each strength, the loss rises from the limit on."""
    found = data["families"]
    over = found["loss"] / found["limit_loss"] - 1
    rising = (over.isel(strength=0) > 0) & (over.diff("strength") > 0).all("strength")
    told = {f"layer {layer}: loss / limit − 1": over.sel(layer=layer).values for layer in LABELS}
    return judge_each(list(rising.values), told)


def limit_ratio(data: Data, key: str) -> np.ndarray:
    return (data[key]["limit_loss"] / data[key]["gd_loss"]).values


def passing_stage(data: Data) -> Outcome:
    ratios = {n: limit_ratio(data, f"n = {n}") for n in WORDS}
    return judge_seeds(list(ratios[200] < 1 - CLOSE_LOSS), {f"limit / gradient step, n = {n}": mean_std(r) for n, r in ratios.items()})  # fmt: skip


def square(data: Data) -> Outcome:
    small = SCALES[:SMALL]
    gaps = np.array([1 - limit_ratio(data, f"s = {s:g}").mean() for s in small])
    outcome = judge_close(slope(np.array(small), gaps), 2, 0.1, seeds=len(limit_ratio(data, f"s = {small[0]:g}")))
    return Outcome({"exponent": outcome.measured, "1 − ratio": gaps}, outcome.verdict, outcome.seeds)


def at(table: xr.Dataset, name: str, step: int) -> np.ndarray:
    return table[name].sel(step=step).values


def goes_on(data: Data) -> Outcome:
    """Layer A's loss is lower than after 1000 steps, and nearer to its own limit than to the gradient step."""
    table, limit = data["A"], data[f"n = {LONG['A']}"]["limit_loss"].values
    gd, early, late = table["gd_loss"].values, at(table, "loss", STEPS), end(table, "loss")
    ratios = {f"after {STEPS} steps": early, f"after {LONG_STEPS} steps": late, "limit": limit}
    passed = (late < early) & (np.abs(late - limit) < np.abs(late - gd))
    return judge_seeds(list(passed), {f"loss / gradient step, {name}": mean_std(loss / gd) for name, loss in ratios.items()})  # fmt: skip


def turns(data: Data) -> Outcome:
    early, late = at(data["A"], "model_cos", STEPS), end(data["A"], "model_cos")
    told = {f"after {STEPS} steps": mean_std(early), f"after {LONG_STEPS} steps": mean_std(late)}
    return judge_seeds(list(late < early), told | {"limit": mean_std(data[f"n = {LONG['A']}"]["limit_cos"].values)})


def arrives(data: Data) -> Outcome:
    """Layer C is close after the long training and was not after 1000 steps."""
    table = data["C"]
    early, late = (at(table, "loss", step) / table["gd_loss"].values for step in (STEPS, LONG_STEPS))
    cosine = end(table, "model_cos")
    passed = {
        "not close before": list(np.abs(early - 1) > CLOSE_LOSS),
        "close": list((np.abs(late - 1) <= CLOSE_LOSS) & (cosine >= CLOSE_COSINE)),
    }
    told = {f"ratio after {STEPS} steps": mean_std(early), f"after {LONG_STEPS} steps": mean_std(late), "cosine": mean_std(cosine),
            "loss still falls over the last half by": f"{last_fall(table):.1%}"}  # fmt: skip
    return judge_groups(passed, told)


def example() -> Data:
    """Tables as the expansions say: distances linear in κ, gaps quadratic in s, A past the gradient step, C near it."""
    coords = {"layer": list(LABELS), "strength": WEAK}
    linear = np.outer([0.075, 1.0, 0.14], WEAK)
    families = xr.Dataset(
        {"apart": (("layer", "strength"), linear), "loss": (("layer", "strength"), 0.05 * (1 + linear)),
         "limit_loss": ("layer", np.full(3, 0.05)), "limit_apart": ("layer", np.array([0.18, 1e-7, 1e-7]))}, coords,
    )  # fmt: skip

    def limit(ratio: float) -> xr.Dataset:
        ones = np.ones(FEW)
        return xr.Dataset({n: ("repetition", v * ones) for n, v in (("gd_loss", 0.05), ("limit_loss", 0.05 * ratio), ("limit_cos", 0.982))})  # fmt: skip

    def long(early: float, late: float, cosines: tuple[float, float]) -> xr.Dataset:
        table = made_up(0.05 * late, cosine=cosines, repetitions=FEW).assign_coords(step=[0, STEPS, LONG_STEPS])
        rows = table["loss"].values.copy(), table["model_cos"].values.copy()
        rows[0][:, 1], rows[1][:, 1] = 0.05 * early, cosines[0]
        return table.assign(loss=(table["loss"].dims, rows[0]), model_cos=(table["loss"].dims, rows[1]))

    found = {f"n = {n}": limit(r) for n, r in zip(WORDS, (0.944, 0.917, 0.886, 0.883), strict=True)}
    found |= {f"s = {s:g}": limit(1 - 0.33 * s**2) for s in SCALES}
    return found | {"A": long(0.98, 0.955, (0.99, 0.985)), "C": long(1.28, 1.05, (0.979, 0.996)), "families": families}


def families_with(name: str, change: Callable[[xr.Dataset], xr.DataArray]) -> Perturb:
    """Data in which one variable of the families is another."""
    return lambda data: {**data, "families": data["families"].assign({name: change(data["families"])})}


def limits_with(keys: Sequence[str], ratio: Callable[[str, xr.Dataset], xr.DataArray | float]) -> Perturb:
    """Data in which layer A's limit has another loss, relative to the gradient step's."""
    return lambda data: {**data, **{k: data[k].assign(limit_loss=ratio(k, data[k]) * data[k]["gd_loss"]) for k in keys}}


CLAIMS = (
    Claim(
        "weak_attention", "With weak attention κ and values w/κ each layer tends to a linear read-out of its labels, at a distance ∝ κ.",
        "exponent 1, layers A, B and C", "0.02, from κ = 0.001 to 0.01", weak_attention, "the next order of the expansion changes the slope by about κ", "theory", before=False,
        counterexamples=(
            Counterexample("layer B's distance ∝ √κ", families_with("apart", lambda f: f["apart"].where(f["layer"] != "B", f["strength"] ** 0.5))),
            Counterexample("exponent 1.1", families_with("apart", lambda f: f["apart"] ** 1.1)),
            Counterexample("a limit that is off by 1e-4", families_with("apart", lambda f: f["apart"] + 1e-4)),
            lost("families", "apart"),
        ),
    ),
    Claim(
        "limits_are", "The limit of layers B and C is the gradient step; that of layer A, a regression on log b, is not.",
        "0 for B and C, not 0 for A", "relative distance of sensitivities 1e-5 (B, C); above 0.05 (A)", limits_are,
        "1e-5 is what two searches for the best length leave; 0.05 is a hundred times the deviation over documents", "theory", before=False,
        counterexamples=(
            Counterexample("limits 0.1 % away", families_with("limit_apart", lambda f: f["limit_apart"] + 1e-3)),
            Counterexample("limit of A is the gradient step", times("families", "limit_apart", 0.0)), lost("families", "limit_apart"),
        ),
    ),
    Claim(
        "nothing_better", "Nothing on the side of κ > 0, where training starts, is better than the limit: training of all three layers has no end (n = 50, s = 0.5, rotation-symmetric weights).",
        "loss rises with κ from the limit on", f"each of {len(WEAK)} strengths from 0.001 to 1", nothing_better, "an order has no tolerance", "ours", before=False,
        counterexamples=(
            Counterexample("layer A better than its limit by 0.1 % at κ = 0.3", families_with("loss", lambda f: f["loss"].where((abs(f["strength"] - 0.316) > 0.1) | (f["layer"] != "A"), 0.999 * f["limit_loss"]))),
            lost("families", "loss"),
        ),
    ),
    Claim(
        "passing_stage", "Similar losses are a stage in the training of layer A at n = 200: its limit is more than 10 % better than the gradient step.",
        f"ratio below {1 - CLOSE_LOSS:g}", MOST, passing_stage, SIMILAR, "ours", before=False,
        counterexamples=(
            Counterexample("limit 9 % better only", limits_with(("n = 200",), lambda *_: 0.91)), lost("n = 200", "limit_loss"),
        ),
        min_seeds=SHARE_SEEDS,
    ),
    Claim(
        "square", "Layer A's limit and the gradient step part as s²: log labels and raw labels differ in the second order of the logits (n = 50).",
        "exponent 2 of 1 − ratio", f"0.1, s in {SCALES[:SMALL]}", square, "the next even order changes the slope by less than s²; noise of the documents by 0.04", "ours", before=False,
        counterexamples=(
            Counterexample("gap ∝ s", limits_with([f"s = {s:g}" for s in SCALES], lambda key, _: 1 - 0.02 * float(key[4:]))),
            Counterexample("gap 50 % larger at s = 0.5", limits_with(("s = 0.5",), lambda _, t: 1.5 * t["limit_loss"] / t["gd_loss"] - 0.5)),
            lost("s = 0.25", "limit_loss"),
        ),
    ),
    Claim(
        "A_goes_on", f"Trained on, layer A passes the gradient step and goes to its own limit (n = {LONG['A']}, s = 0.5).",
        f"after {LONG_STEPS} steps below the loss at {STEPS}, and nearer to the limit than to the gradient step", MOST, goes_on, "an order has no tolerance", "ours", before=False,
        counterexamples=(
            Counterexample("stays at 0.98 of the gradient step", ending("A", "loss", lambda t: 0.98 * t["gd_loss"].values)),
            Counterexample("stays in 2 of 6 repetitions", ending("A", "loss", lambda t: 0.98 * t["gd_loss"].values, 2)), lost("A", "loss"),
        ),
        min_seeds=SHARE_SEEDS,
    ),
    Claim(
        "cosine_turns", f"The cosine of layer A with the gradient step is not monotone at n = {LONG['A']}: it rises and falls again.",
        f"lower after {LONG_STEPS} steps than after {STEPS}", MOST, turns, "an order has no tolerance", "ours", before=False,
        counterexamples=(
            Counterexample("cosine 0.995 at the end", ending("A", "model_cos", lambda t: 0.995)), Counterexample("in 2 of 6 repetitions", ending("A", "model_cos", lambda t: 0.995, 2)), lost("A", "model_cos"),
        ),
        min_seeds=SHARE_SEEDS,
    ),
    Claim(
        "C_arrives", f"Layer C, far from the gradient step's loss after {STEPS} steps, is close to it after {LONG_STEPS} (n = {LONG['C']}, s = 0.5).",
        "similar losses, same direction", f"{CLOSE_LOSS:.0%} and cosine {CLOSE_COSINE}, {MOST}", arrives, SIMILAR, "ours", before=False,
        counterexamples=(
            Counterexample("loss stays 12 % above", ending("C", "loss", lambda t: 1.12 * t["gd_loss"].values)),
            Counterexample("cosine 0.94 in 2 of 6 repetitions", ending("C", "model_cos", lambda t: 0.94, 2)), lost("C", "loss"),
        ),
        min_seeds=SHARE_SEEDS,
    ),
)  # fmt: skip

FIGURE = Figure(
    id="fig_limits",
    title="where training leads",
    collect=collect,
    draw=draw,
    claims=CLAIMS,
    setup=SETUP + f"""
trained on: layer A (n = {LONG['A']}) and layer C (n = {LONG['C']}), {LONG_STEPS} steps, {FEW} repetitions, float32
limits: x̂ = (w/n) Σ_i y_i a_i, w by bounded search on 10³ training documents ({MANY} where s varies), {FEW} repetitions; y = log b − mean (A), n b − 1 (B and C)
families: qᵀK = (0, κ), V = (w/κ)(I, 0) (A and C), W = κ(I, 0), v = (w/κ) e_y (B), n = 50, {FAMILY_DOCUMENTS} documents, best w for each κ""",
    cost="4 minutes on 2 cores, most of them the long training",
    example=example,
    choices=(
        Choice(
            "how long is long", "a pilot on a GPU with 4 seeds: A (n = 25, 50, 200; s = 0.5, 1), B (n = 50, 200; s = 0.5, 1) and C (n = 50, 200; s = 0.1, 0.5, 1, 2) to 16000 steps",
            "loss ratios at 1000 and 16000 steps: A n = 25 0.979, 0.955; n = 50 0.978, 0.934; n = 200 1.02, 0.911; s = 1 0.844, 0.780; C n = 50 1.28, 1.05; n = 200 2.97, 1.12; "
            "s = 1 1.57, 1.13; s = 2 1.21, 1.23 (at rest with strong attention, a second minimum); B n = 50 1.51, 1.40; n = 200 3.3, 3.0, moving by 10 % from record to record",
            "A at n = 25, the paper's size, and C at n = 50, s = 0.5: what two cores can train in minutes",
        ),
        Choice(
            "the limits", "derived from the expansion of the softmax, and looked at with κ from 0.01 to 1 on 200 and 500 documents before the tolerances were written",
            "exponents 0.999 to 1.005; distances of the limits of B and C to the gradient step 5e-7; losses rising with κ at s = 0.5 for all three. For C at s = 2 they rise and fall again; on the side κ < 0, which training "
            "does not reach through κ = 0, some are lower than the limit", "n = 50, s = 0.5 and κ > 0, where training starts",
        ),
        Choice(
            "scales from which the exponent of s is read", "0.05, 0.1, 0.2 with 1000 documents; 0.125, 0.25, 0.5 with 4000", "2.28, inconclusive: at s = 0.05 the gap, 5e-4, is no larger than its noise over documents",
            "the second, same tolerance",
        ),
        Choice(
            "layer B, whose limit is the gradient step too", "16000 steps at learning rate 0.001", "stays 40 % above the gradient step (n = 50, s = 0.5) and moves by 10 % from record to record: Adam's noise in W is multiplied by the large value",
            "no claim; its claims elsewhere are judged after 1000 steps",
        ),
    ),
)  # fmt: skip
