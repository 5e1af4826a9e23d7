"""Loss against the number of layers: gradient descent, preconditioned, with own steps, and trained transformers."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

from ...core.recipe import Init, Optimizer, Recipe, Record
from ...models.transformer import LinearTransformer
from ...tasks.covariance import Covariance
from ...tasks.regression import LinearRegression
from ...theory.depth import krylov, tied_descent
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_each, judge_groups, judge_seeds
from ..lab import Lab
from .setup import (
    CONTEXT,
    DIM,
    FAST,
    FRESH,
    PUBLIC,
    ROTATED,
    SHORT,
    WHITENED,
    Preset,
    fresh_losses,
    gdpp_population,
    only_public,
    preset_of,
    recipe_of,
)  # fmt: skip

LAYERS = (1, 2, 3, 4)
SPECTRA = 60_000  # for gradient descent without a preconditioner
SCALAR_STEPS = 8000
# log losses of the notes: all 20 pairs at the best step; and the notebook's own, 19 pairs and its grid of steps
PRINTED = {"gd": (0.810, 0.497, 0.328, 0.190), "pgd": (0.143, -0.695, -1.315, -1.812), "untied": (0.143, -1.018, -2.013, -2.901)}  # fmt: skip
NOTEBOOK = {"gd_19": (0.831, 0.536, 0.363, 0.224), "pgd_19": (0.182, -0.613, -1.128, -1.343)}
MINIMA = (0.05750115, 0.08654791, 0.10234491)
SMALL_L3 = 0.00129847  # the minimum of three layers that small weights reach
SEEDS = 6  # of the example


def trained_layers(preset: Preset) -> tuple[int, ...]:
    return LAYERS if preset == "public" else LAYERS[:3]


def scalar_recipe(layers: int, seed: int) -> Recipe:
    """GD++ on the population loss itself, from weights of size 1e-4."""
    task = LinearRegression(dim=DIM, context_len=CONTEXT, covariance=Covariance.white(trace=None), num_prompts=None)
    optimizer = Optimizer("adam", 0.01, betas=(0.9, 0.9), halve_every=SCALAR_STEPS // 8)
    return Recipe(
        task=task, model=LinearTransformer(layers=layers, scalar=True), init=Init(1e-4), optimizer=optimizer,
        steps=SCALAR_STEPS, seed=seed, record=Record(2, 2),
    )  # fmt: skip


def collect(lab: Lab) -> Data:
    preset = preset_of(lab)
    lines = lab.dataset("layers-lines", {"spectra": SPECTRA}, lines_of)
    how, inputs = (PUBLIC["layers"], "rotated") if preset == "public" else (FAST, "white")
    deep = trained_layers(preset)
    traces = lab.run([recipe_of(inputs, how, seed, layers=n) for n in deep for seed in lab.seeds])  # type: ignore[arg-type]
    scalar = lab.run([scalar_recipe(n, seed) for n in LAYERS for seed in lab.seeds])

    def table() -> xr.Dataset:
        fresh = np.array([fresh_losses(trace) for trace in traces])
        shape = (len(deep), lab.num_seeds)
        return dataset(
            fresh.mean(-1).reshape(shape), np.median(fresh, -1).reshape(shape),
            np.array([gdpp_population(trace) for trace in traces]).reshape(shape),
            np.array([trace.final_loss for trace in scalar]).reshape(len(LAYERS), -1),
        )  # fmt: skip

    ids = {"runs": [trace.run_id for trace in (*traces, *scalar)], "fresh": FRESH}
    return {"lines": lines, "trained": lab.dataset("layers-trained", ids, table)}


def dataset(mean: np.ndarray, median: np.ndarray, projected: np.ndarray, scalar: np.ndarray) -> xr.Dataset:
    axes, every = ("layers", "seed"), ("every_layers", "seed")
    variables = {"mean": (axes, mean), "median": (axes, median), "projected": (axes, projected), "scalar": (every, scalar)}  # fmt: skip
    return xr.Dataset(
        variables,
        {"layers": list(LAYERS[: len(mean)]), "every_layers": list(LAYERS), "seed": np.arange(mean.shape[1])},
    )


def lines_of(spectra: int = SPECTRA) -> xr.Dataset:
    """The algorithms at their best steps, with all pairs and with one pair left out as in the notebook."""
    found = {}
    for name, pairs in {"gd": CONTEXT, "gd_19": CONTEXT - 1}.items():
        found[name] = plain_descent(pairs, spectra)
    found["pgd"] = [tied_descent(DIM, CONTEXT, n).loss for n in LAYERS]
    found["pgd_19"] = [tied_descent(DIM, CONTEXT - 1, n).loss for n in LAYERS]
    found["untied"] = [krylov(DIM, CONTEXT, n).loss for n in LAYERS]
    return xr.Dataset({name: ("layers", np.array(v)) for name, v in found.items()}, {"layers": list(LAYERS)})


def plain_descent(pairs: int, count: int) -> list[float]:
    """E tr(Σ R Σ⁻¹ Rᵀ), R = (I − ηS)^L, at the best single η, on sampled S of the rotated task."""
    lam = np.array(ROTATED)
    x = np.random.default_rng(pairs).normal(size=(count, pairs, DIM)) * np.sqrt(lam)
    values, vectors = np.linalg.eigh(np.einsum("cni,cnj->cij", x, x) / pairs)

    def loss(step: float, layers: int, part: slice) -> float:
        u = vectors[part]
        left = (u * ((1 - step * values[part]) ** layers)[:, None]) @ u.swapaxes(1, 2)
        return float(np.einsum("i,cij,j->c", lam, left**2, 1 / lam).mean())

    found = []
    for n in LAYERS:
        best = minimize_scalar(lambda step, n=n: loss(step, n, slice(0, 10_000)), bounds=(0.2, 1.5), method="bounded", options={"xatol": 2e-3})  # fmt: skip
        found.append(loss(float(best.x), n, slice(None)))  # type: ignore[union-attr]
    return found


def example() -> Data:
    lines = {name: ("layers", np.exp(values)) for name, values in {**PRINTED, **NOTEBOOK}.items()}
    one = np.array([1.1539, MINIMA[1], 0.0014, 1.2e-5])[:, None] * np.ones(SEEDS)
    scalar = np.array([1.1538462, MINIMA[1], SMALL_L3, 3e-5])[:, None] * np.ones(SEEDS)
    trained = dataset(one, 0.5 * one, one, scalar)
    return {"lines": xr.Dataset(lines, {"layers": list(LAYERS)}), "trained": trained}


def draw(data: Data):
    lines, trained = data["lines"], data["trained"]
    figure, ax = plt.subplots(figsize=(7.4, 5.4), layout="constrained")
    labels = {"gd": "gradient descent, one step size", "pgd": "preconditioned, one step size", "untied": "preconditioned, own step sizes"}  # fmt: skip
    for index, (name, label) in enumerate(labels.items()):
        ax.plot(LAYERS, np.log(lines[name]), "o-", color=f"C{index}", label=label, mfc="white")
    for index, name in enumerate(("gd_19", "pgd_19")):
        label = "the notebook's baselines (19 of 20 pairs, coarse grid)" if name == "gd_19" else None
        ax.plot(LAYERS, NOTEBOOK[name], "x", color=f"C{index}", label=label)
        best = "19 of 20 pairs, best step" if name == "gd_19" else None
        ax.plot(LAYERS, np.log(lines[name]), ":", color=f"C{index}", lw=1, label=best)
    logs = np.log(trained["mean"])
    ax.plot(
        trained["layers"], logs.median("seed"), "s-", color="C4", label=f"transformer, mean of {FRESH} fresh spectra"
    )
    for column in logs.transpose("seed", "layers").values:
        ax.plot(trained["layers"], column, "s", color="C4", mfc="none", ms=4)
    middle = np.log(trained["median"]).median("seed")
    ax.plot(trained["layers"], middle, "s:", color="C4", mfc="white", ms=4, label="the same, median of the spectra")
    scalar = np.log(trained["scalar"])
    ax.plot(LAYERS, scalar.median("seed"), "d--", color="0.4", mfc="white", label="GD++ trained on the population loss")
    ax.set_xticks(list(LAYERS))
    ax.set(xlabel="layers", ylabel="log loss", title=f"$d$ = {DIM}, $N$ = {CONTEXT}, {trained.sizes['seed']} seeds")
    ax.legend(fontsize=8, loc="lower left")
    return figure


def printed(data: Data) -> Outcome:
    off = {name: float(np.abs(np.log(data["lines"][name].values) - v).max()) for name, v in PRINTED.items()}
    return judge_each([error <= 0.01 for error in off.values()], off)


def left_out(data: Data) -> Outcome:
    lines = data["lines"]
    told, passed = {}, []
    for name in ("gd", "pgd"):
        gap = np.log(lines[f"{name}_19"].values) - np.log(lines[name].values)
        passed += [bool(np.all(gap > 0)), bool(np.all(np.log(lines[f"{name}_19"].values) <= np.array(NOTEBOOK[f"{name}_19"]) + 0.005))]  # fmt: skip
        told[f"{name}: log loss above all pairs"] = gap.round(3).tolist()
    return judge_each(passed, told)


def one_layer(data: Data) -> Outcome:
    off = data["trained"]["mean"].sel(layers=1).values / float(data["lines"]["pgd"][0]) - 1
    return judge_seeds((np.abs(off) <= 0.02).tolist(), off.round(4).tolist())


def beats(data: Data) -> Outcome:
    found, lines = data["trained"]["mean"], data["lines"]["untied"]
    ratio = {int(n): found.sel(layers=n).values / float(lines.sel(layers=n)) for n in found["layers"].values[1:]}
    groups = {n: (r < 0.5).tolist() for n, r in ratio.items()}
    return judge_groups(groups, {f"L = {n}, least and largest ratio": [float(r.min()), float(r.max())] for n, r in ratio.items()})  # fmt: skip


def at_minimum(data: Data) -> Outcome:
    ends = data["trained"]["projected"].sel(layers=2).values
    nearest = np.abs(ends[:, None] / np.array(MINIMA) - 1)
    told = {"loss of the nearest GD++": ends.round(5).tolist(), "minimum": (nearest.argmin(-1) + 1).tolist()}
    return judge_seeds((nearest.min(-1) <= 0.05).tolist(), told)


def small_weights(data: Data) -> Outcome:
    ends = data["trained"]["scalar"].sel(every_layers=3).values
    return judge_seeds((np.abs(ends / SMALL_L3 - 1) <= 0.01).tolist(), ends.tolist())


def four(data: Data) -> Outcome:
    if missing := only_public(4 in data["trained"]["layers"].values):
        return missing
    ends = np.log(data["trained"]["mean"].sel(layers=4).values)
    return judge_seeds((ends < -9).tolist(), ends.round(2).tolist())


def changed(title: str, which: str, name: str, factor: float, **where: object) -> Counterexample:
    def perturb(data: Data) -> Data:
        new = data[which].copy(deep=True)
        if all(value in new[axis].values for axis, value in where.items()):
            new[name].loc[where] = new[name].loc[where] * factor
        return {**data, which: new}

    return Counterexample(title, perturb)


NAN = float("nan")
FIGURE = Figure(
    id="fig_L",
    title="loss against the number of layers",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "lines", "Gradient descent, preconditioned gradient descent and that with own steps have the log losses of the notes (all 20 pairs, best steps).", "L = 1 … 4 as printed there",
            "0.01", printed, reason="plain gradient descent is a mean over sampled spectra; the others are exact", source="theory", before=False,
            counterexamples=(changed("own steps at L = 4 as at L = 3", "lines", "untied", 2.43, layers=4), changed("gradient descent 2 % higher", "lines", "gd", 1.02), changed("NaN", "lines", "pgd", NAN)),
        ),
        Claim(
            "public_baselines", "The notebook's baselines leave out one of the 20 pairs: that alone puts them above those with all pairs, and its grid of steps higher still.", "above, and not above the notebook's",
            "0.005 in log loss", left_out, reason="three digits are printed", source="ours", before=False,
            counterexamples=(
                changed("no pair is missing", "lines", "pgd_19", 0.9), changed("above the notebook's", "lines", "gd_19", 1.05), changed("NaN", "lines", "gd_19", NAN),
            ),
        ),
        Claim(
            "one_layer", "One trained layer does what one step of preconditioned gradient descent does.", "1.1538", f"2 % on {FRESH} fresh spectra, more than half of the seeds", one_layer, source="second-hand",
            reason="the mean over the spectra has a standard error of .4 %",
            counterexamples=(changed("5 % above", "trained", "mean", 1.05, layers=1), changed("NaN", "trained", "mean", NAN, layers=1)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "beats_descent", "From two layers on the trained transformer is below any preconditioned gradient descent with as many steps, own step sizes included.", "less than half of its loss", "more than half of the seeds, at each L",
            beats, source="second-hand", before=False, reason="the minima are at .24 and .01 of it",
            counterexamples=(changed("two layers as gradient descent", "trained", "mean", 4.2, layers=2), changed("three layers 100 times higher", "trained", "mean", 100.0, layers=3), changed("NaN", "trained", "mean", NAN, layers=3)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "two_layers_minimum", "With two layers every matrix model ends at one of the three minima of GD++.", "0.0575, 0.0865 or 0.1023", "5 % in the population loss of the GD++ nearest to it, more than half of the seeds",
            at_minimum, reason="noise of batches", source="ours", before=False,
            counterexamples=(changed("between two minima", "trained", "projected", 0.83, layers=2), changed("NaN", "trained", "projected", NAN, layers=2)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "small_weights", "Three layers of GD++ trained on the population loss from weights of size 1e-4 end at .00129847 and not at the best minimum found, .00096131.", f"{SMALL_L3}", "1 %, more than half of the seeds",
            small_weights, reason="exact loss; the next minimum is 26 % lower", source="ours",
            counterexamples=(changed("the best minimum", "trained", "scalar", 0.00096131 / SMALL_L3, every_layers=3), changed("NaN", "trained", "scalar", NAN, every_layers=3)),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "four_layers", "Four trained layers reach a log loss near −11.4.", "≈ −11.4", "below −9 on fresh spectra, more than half of the seeds; unfinished with preset fast", four, source="second-hand",
            reason="tails are heavy at four layers, and three layers are at −7",
            counterexamples=(changed("a hundred times higher", "trained", "mean", 100.0, layers=4), changed("NaN", "trained", "mean", NAN, layers=4)),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    setup=f"""d = {DIM}, N = {CONTEXT}; gradient descent on the rotated task (eigenvalues 1, 1, 1/4, 1/16, 1, Σ_w = Σ⁻¹), best step on sampled spectra; preconditioned: exact
fast: transformers on white inputs, L = 1 … 3, 2000 steps of 200 spectra; public: rotated inputs, L = 1 … 4, 20,000 steps of 20,000
GD++ on the population loss: Adam (.9, .9) .01, halved every {SCALAR_STEPS // 8} of {SCALAR_STEPS} steps, scalar weights from 1e-4
judged on {FRESH} fresh spectra; the public code's choice of the best of 20 checkpoints on a validation batch is not made""",
    cost="2 minutes on 2 cores; preset public for a GPU",
    choices=(
        WHITENED, SHORT,
        Choice("lines, public_baselines", "nothing else", "all numbers were computed once before the claims were written", "three printed digits"),
        Choice("two_layers_minimum", "one seed before the claim was written", "0.0866, the second minimum", "5 %"),
    ),
)  # fmt: skip
