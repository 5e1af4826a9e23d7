"""When does a transformer memorize its pool? Size of the pool × length of training × size of the model, from the training loss.

On the tasks of the pool nothing is better than dMMSE, and what does not know the pool is at best as good as ridge regression. So the
training loss alone says how much of the pool was learned: how far it is below ridge on the same tasks, up to where dMMSE is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.recipe import Init, Optimizer, Recipe
from ...models.causal_transformer import CausalTransformer
from ...sweeps.api import make_plan
from ...sweeps.plan import Plan
from ...tasks.pooled_regression import PooledRegression
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import Outcome, Word, judge_above, judge_each, worst
from ..lab import Lab
from ..raventos2023.pool_trainings import answered_set
from ..raventos2023.setup import NOISE
from ..raventos2023.setup import PRESETS as TRAININGS
from .setup import Options, swept

TITLE = "Sweep: when a transformer memorizes its pool of tasks"
CITATION = "Raventós et al. 2023 (arXiv 2306.15063); the map of gains over ridge on the pool: iclearn's own."
SAMPLES = 128  # steps at which the loss is read, and the end
LAST = 16  # of these are averaged, where the learning rate is small
SEQUENCES = 2048  # on which ridge and dMMSE are measured
ERRORS, NOISY = 4.5, 0.1  # standard errors that a run may be off, and what these may be at most, of the error of ridge
BOUND = "one-sided 95 % bound of the mean over seeds (Student)"


class Sizes(NamedTuple):
    """One size of the sweep: the task, the models (layers, width), lengths and pools."""

    dim: int
    points: int
    batch: int
    peak: float
    models: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...]
    pools: tuple[int, ...]
    seeds: int


SIZES = {
    "small": Sizes(2, 6, 64, 3e-3, ((1, 16), (2, 32)), (500, 2000), (4, 16, 64, 512), 3),
    "medium": Sizes(2, 6, 64, 3e-3, ((1, 16), (2, 32), (3, 48)), (500, 2000, 8000), (2, 4, 8, 16, 64, 512), 4),
    "full": Sizes(8, 16, 256, 1e-3, ((2, 32), (4, 64)), (5000, 20_000), (8, 32, 128, 512, 2048), 3),
}


def plan(options: Options) -> Plan:
    """The grid of a preset."""
    sizes = SIZES[options.preset]
    (layers, width), length = sizes.models[0], sizes.lengths[0]
    base = Recipe(
        task=PooledRegression(dim=sizes.dim, context_len=sizes.points - 1, num_tasks=sizes.pools[0], noise=NOISE, prefixes=True),
        model=CausalTransformer(layers, width, 2),
        init=Init(0.02),
        optimizer=Optimizer("adam", sizes.peak, batch_size=sizes.batch, triangle=length),
        steps=length,
        engine="samples",
        dtype="float32",
    )  # fmt: skip
    axes: dict[str, Any] = {
        "model": {
            "fields": {"model.layers": [depth for depth, _ in sizes.models], "model.width": [wide for _, wide in sizes.models]},
            "coords": [f"L = {depth}, {wide} wide" for depth, wide in sizes.models],
        },
        "length": {
            "fields": {"steps": list(sizes.lengths), "optimizer.triangle": list(sizes.lengths)}, "coords": list(sizes.lengths),
        },
        "pool": {"field": "task.num_tasks", "values": list(sizes.pools)},
    }  # fmt: skip
    kept = {"samples": SAMPLES, "curve": True}
    return make_plan(base, axes, sizes.seeds, reduce=kept, name="memorization", chunk=options.chunk, path=options.path)


def references(sizes: Sizes) -> xr.Dataset:
    """Errors of ridge and dMMSE on each pool of each seed, over d."""
    preset = TRAININGS["full"]._replace(dim=sizes.dim, points=sizes.points, sequences=SEQUENCES)
    found = np.zeros((2, len(sizes.pools), sizes.seeds))
    for i, size in enumerate(sizes.pools):
        for seed in range(sizes.seeds):
            truth, *others = np.asarray(answered_set(preset, size, seed, "pool").answers)
            found[:, i, seed] = [((answers - truth) ** 2).mean() / sizes.dim for answers in others]
    names = dict(zip(("ridge", "dmmse"), found, strict=True))
    labels = {"pool": list(sizes.pools), "seed": np.arange(sizes.seeds)}
    return xr.Dataset({name: (("pool", "seed"), values) for name, values in names.items()}, labels)


def collect(options: Options):
    def from_lab(lab: Lab) -> Data:
        sizes = SIZES[options.preset]
        data = swept(lab, plan(options), options)
        told = {
            "pools": list(sizes.pools),
            "seeds": sizes.seeds,
            "dim": sizes.dim,
            "points": sizes.points,
            "sequences": SEQUENCES,
        }
        known = lab.dataset("memorization-references", told, lambda: references(sizes))
        return {**errors_of(data["curve"].astype(float), sizes.dim), "known": known}

    return from_lab


def errors_of(curve: xr.DataArray, dim: int) -> dict[str, xr.DataArray]:
    """From sampled training losses to the error at the end and its standard error, which is taken from all runs together.

    Args:
        curve: (…, sample) losses of single batches, which have the noise of their targets.
        dim: of the inputs.

    Returns:
        ``error`` and ``spread`` (…), over dim.
    """
    last = curve.isel(sample=slice(-LAST, None))
    loss = last.mean("sample", skipna=False)
    relative = np.sqrt(float((last.var("sample", ddof=1) / loss**2).mean()) / LAST)
    return {"error": (loss - NOISE) / dim, "spread": relative * loss / dim}


def gains(data: Data) -> xr.DataArray:
    """(model, length, pool, seed) by which share the error on the pool is below that of ridge: above 0 only what knows the pool."""
    found = 1 - data["error"] / data["known"]["ridge"]
    return found.transpose("model", "length", "pool", "seed")


def most(data: Data) -> xr.DataArray:
    """(pool, seed) the same for dMMSE, which nothing exceeds."""
    return (1 - data["known"]["dmmse"] / data["known"]["ridge"]).transpose("pool", "seed")


def draw(data: Data):
    found, best = gains(data).mean("seed"), most(data).mean("seed")
    models, lengths, pools = (found[name].values for name in ("model", "length", "pool"))
    figure, axes = plt.subplots(
        1,
        len(models),
        figsize=(1.2 + 4.2 * len(models), 1.6 + 0.75 * (len(lengths) + 1)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, model in zip(axes[0], models, strict=True):
        table = np.vstack([found.sel(model=model).values, best.values])
        ax.imshow(table, cmap="RdBu_r", vmin=-0.8, vmax=0.8, aspect="auto", origin="lower")
        for (row, column), value in np.ndenumerate(table):
            ax.text(
                column,
                row,
                f"{round(value, 2) + 0.0:.2f}",
                ha="center",
                va="center",
                fontsize=9,
                color="white" if abs(value) > 0.5 else "black",
            )
        ax.axhline(len(lengths) - 0.5, color="black", lw=1)
        ax.set_xticks(range(len(pools)), [f"{size}" for size in pools])
        ax.set(xlabel="tasks in the pool", title=str(model))
    axes[0, 0].set_yticks(range(len(lengths) + 1), [*(f"{length:,} steps" for length in lengths), "dMMSE"])
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="error on the pool\nbelow that of ridge, share")
    return figure


def no_better(data: Data) -> Outcome:
    below, spread = data["known"]["dmmse"] - data["error"], data["spread"]
    away = (below / spread).transpose("model", "length", "pool", "seed").values
    told = {
        "most below dMMSE, in standard errors": float(away.max()),
        "largest standard error": float(spread.max(skipna=False)),
    }
    if not np.isfinite(away).all():
        return Outcome(told, "failed")
    if float((spread / data["known"]["ridge"]).max()) > NOISY:
        return Outcome(told, "inconclusive")
    return judge_each((away <= ERRORS).ravel().tolist(), told)


def memorizes(data: Data) -> Outcome:
    last = gains(data).isel(model=-1, length=-1, pool=0).values
    return judge_above(last, 0.0, {"gain over ridge": last.round(3).tolist()})


def fewer_more(data: Data) -> Outcome:
    last = gains(data).isel(model=-1, length=-1)
    apart = (last.isel(pool=0) - last.isel(pool=-1)).values
    return judge_above(apart, 0.0, {"gain, fewest less most tasks": apart.round(3).tolist()})


def longer_more(data: Data) -> Outcome:
    few = gains(data).isel(pool=0)
    rows = {
        str(m): (few.sel(model=m).isel(length=-1) - few.sel(model=m).isel(length=0)).values for m in few["model"].values
    }
    words: list[Word] = [judge_above(values, 0.0).verdict for values in rows.values()]
    return Outcome({m: v.round(3).tolist() for m, v in rows.items()}, worst(*words), few.sizes["seed"])


def example() -> Data:
    sizes = SIZES["small"]
    rng = np.random.default_rng(0)
    known = {"ridge": np.full((4, 3), 0.4), "dmmse": np.tile([[0.1], [0.2], [0.3], [0.38]], (1, 3))}
    gain = np.array(
        [[[0.2, 0.0, -0.1, -0.1], [0.45, 0.2, 0.0, -0.05]], [[0.3, 0.05, -0.08, -0.08], [0.6, 0.3, 0.05, -0.02]]]
    )
    error = 0.4 * (1 - gain[..., None] - 0.01 * rng.normal(size=(2, 2, 4, 3)))
    labels = {"pool": list(sizes.pools), "seed": np.arange(3)}
    names = [f"L = {depth}, {wide} wide" for depth, wide in sizes.models]
    table = xr.DataArray(
        error, {"model": names, "length": list(sizes.lengths), **labels}, ("model", "length", "pool", "seed")
    )
    return {
        "error": table,
        "spread": table * 0 + 0.005,
        "known": xr.Dataset({name: (("pool", "seed"), values) for name, values in known.items()}, labels),
    }


def moved(title: str, number: float, **where: Any) -> Counterexample:
    """A counter-example with errors moved by a number at some indices."""

    def perturb(data: Data) -> Data:
        new = data["error"].transpose("model", "length", "pool", "seed").copy(deep=True)
        new[where] = new[where] + number
        return {**data, "error": new}

    return Counterexample(title, perturb)


NAN = float("nan")
CLAIMS = (
    Claim(
        "no_better_than_dmmse", "No transformer is better on its pool than dMMSE.", "error on the pool at least that of dMMSE", f"{ERRORS:g} standard errors of the mean of {LAST} batches, each at most {NOISY:g} times the error of ridge; every run", no_better, source="theory", before=False,
        reason="dMMSE is the posterior mean for tasks of the pool", counterexamples=(moved("a run that sees its target", -0.2, model=0, length=0, pool=2, seed=0), moved("one run lost", NAN, model=0, length=0, pool=0, seed=0)),
    ),
    Claim(
        "memorizes_fewest", "The largest model, trained longest, is better than ridge on the smallest pool: it knows its tasks.", "a gain above 0", BOUND, memorizes, source="ours",
        reason="ridge is the best that does not know the pool", counterexamples=(moved("as ridge", 0.25, model=-1, length=-1, pool=0), moved("two seeds worse than ridge", 0.5, model=-1, length=-1, pool=0, seed=slice(0, 2)), moved("one run lost", NAN, model=-1, length=-1, pool=0, seed=0)),
    ),
    Claim(
        "fewer_tasks_more", "It gains more on the smallest pool than on the largest.", "a difference of gains above 0", BOUND, fewer_more, source="ours",
        reason="what can be gained over ridge falls with the tasks", counterexamples=(moved("the largest pool memorized too", -0.3, model=-1, length=-1, pool=-1), moved("one run lost", NAN, model=-1, length=-1, pool=-1, seed=0)),
    ),
    Claim(
        "longer_more", "Longer training memorizes more of the smallest pool, for every model.", "a difference of gains above 0 between the longest and the shortest training", f"{BOUND}, every model by itself", longer_more, source="ours",
        reason="the direction of raventos2023 below the threshold", counterexamples=(moved("one model forgets", 0.2, model=0, length=-1, pool=0), moved("two seeds of one model forget", 0.4, model=1, length=-1, pool=0, seed=slice(0, 2)), moved("one run lost", NAN, model=0, length=0, pool=0, seed=0)),
    ),
)  # fmt: skip


def figure(options: Options) -> Figure:
    sizes = SIZES[options.preset]
    runs = len(sizes.models) * len(sizes.lengths) * len(sizes.pools) * sizes.seeds
    return Figure(
        id="memorization",
        title=f"when a transformer memorizes its pool of tasks ({runs} runs)",
        collect=collect(options),
        draw=draw,
        claims=CLAIMS,
        setup=f"""task: d = {sizes.dim}, {sizes.points} points, x, w ~ N(0, I), noise of variance {NOISE}; nested pools of {", ".join(map(str, sizes.pools))} tasks, fresh sequences every step
model: causal transformers, {", ".join(f"{depth} layers {wide} wide" for depth, wide in sizes.models)}; Adam, batch {sizes.batch}, learning rate 0 → {sizes.peak:g} → 0 over {", ".join(map(str, sizes.lengths))} steps
kept: the training loss at {SAMPLES} steps; its mean at the last {LAST}, less the noise of the targets, over d, against ridge and dMMSE on {SEQUENCES} sequences of the same pool""",
        cost={"small": "minutes on 2 cores", "medium": "an hour on 2 cores", "full": "minutes on an H200"}[options.preset],
        example=example,
        choices=(
            Choice(
                "how the error of a run is read", "the loss at 64 steps, the mean of the last 6",
                "the tiny sweep of a test: a claim too tight for its batches (by how much was not kept); no sweep of a shipped size had been run", f"the loss at {SAMPLES} steps, the mean of the last {LAST}; set after that",
            ),
            Choice("the other claims", "nothing else", "nothing of ours had been run", "directions over seeds"),
        ),
    )  # fmt: skip
