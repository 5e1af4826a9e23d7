"""How far all of this is from the Bayes predictor."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.prompt import Batch
from ...core.rng import stream
from ...models import LSAGroup
from ...models.predictors import Bayes
from ...tasks import LinearRegression
from ...theory.xie2025 import Law, bayes_loss, gd_step, optimum
from ..base import Choice, Claim, Counterexample, Data, Figure, Outcome
from ..judging import SHARE_SEEDS, judge_each, judge_mean, standard_error
from ..lab import Lab
from .examples import SEEDS, a_nan, changed, counter, plus, times
from .judges import judge_cells, judge_together
from .setup import COLORS, CONTEXT, DIM, STAGES, YQ, paper_task, prior_mean, train_exactly

NORM = 3.0
NOISES = (0.0, 0.25, 1.0)
CONTEXTS = (2, 5, 8, 10, 12, 15, 20, 30, 50, 80)
FAR = (10, 20, 50)  # context lengths at which a trained yq-LSA stands beside the Bayes predictor
BATCHES, BATCH = 10, 4000


def bayes_predictor(noise: float) -> Bayes:
    return Bayes(jnp.array(prior_mean(NORM)), jnp.eye(DIM), noise)


@eqx.filter_jit
def _bayes_losses(model: Bayes, task: LinearRegression, key: jax.Array) -> jax.Array:
    """Mean squared error over one batch of fresh prompts with the noise of the model: one program for all noises."""
    batch = task.unchecked(noise=model.noise).fresh(0, key, BATCH, "float64")
    assert isinstance(batch, Batch)
    return jnp.mean((jax.vmap(model.predict)(batch.prompt) - batch.target) ** 2)


@eqx.filter_jit
def _group_losses(models: LSAGroup, task: LinearRegression, noise: jax.Array, key: jax.Array) -> jax.Array:
    """The same for every one of several trained models, on the same prompts."""
    batch = task.unchecked(noise=noise).fresh(0, key, BATCH, "float64")
    assert isinstance(batch, Batch)
    return jax.vmap(lambda model: jnp.mean((jax.vmap(model.predict)(batch.prompt) - batch.target) ** 2))(models)


def keys() -> list[jax.Array]:
    root = stream(0, "check")
    return [jax.random.fold_in(root, i) for i in range(BATCHES)]


@functools.cache
def sampled(noise: float, context: int) -> np.ndarray:
    """Loss of the Bayes predictor over batches of fresh prompts: it shares no code with the formula."""
    model, task = bayes_predictor(noise), paper_task(NORM, context=context)
    return np.array([_bayes_losses(model, task, key) for key in keys()])


def collect(lab: Lab) -> Data:
    def compute() -> xr.Dataset:
        curves = [[bayes_loss(law(c, noise)).loss for c in CONTEXTS] for noise in NOISES]
        return xr.Dataset(
            {
                "sampled": (("noise", "batch"), np.stack([sampled(noise, CONTEXT) for noise in NOISES])),
                "bayes": (("noise", "context"), np.array(curves)),
            },
            {"noise": list(NOISES), "context": list(CONTEXTS)},
        )

    def beside() -> xr.Dataset:
        cases = list(product(NOISES[1:], FAR))
        tasks = [paper_task(NORM, context=context, noise=noise) for noise, context in cases]
        with ThreadPoolExecutor(lab.workers) as pool:
            models = list(pool.map(lambda task: train_exactly(task, YQ, lab.seeds)[1], tasks))
        # one after the other: batched solves of the Bayes predictor in two threads can wait for each other for ever
        rows = []
        for group, (noise, context) in zip(models, cases, strict=True):
            given = (group, paper_task(NORM, context=context), jnp.asarray(noise))
            losses = [np.asarray(_group_losses(*given, key)) for key in keys()]
            rows.append((np.stack(losses, 1), sampled(noise, context)))
        shape = (len(NOISES) - 1, len(FAR))
        tables = {
            "yq": (
                ("noise", "context", "seed", "batch"),
                np.stack([r[0] for r in rows]).reshape(*shape, lab.num_seeds, BATCHES),
            ),
            "bayes": (("noise", "context", "batch"), np.stack([r[1] for r in rows]).reshape(*shape, BATCHES)),
        }
        return xr.Dataset(tables, {"noise": list(NOISES[1:]), "context": list(FAR)})

    sizes = {"batches": BATCHES, "batch": BATCH, "noises": NOISES}
    return {
        "table": lab.dataset("bayes", {**sizes, "contexts": CONTEXTS}, compute),
        "trained": lab.dataset("bayes_beside", {**sizes, "far": FAR, "stages": STAGES, "seeds": lab.num_seeds}, beside),
    }


def example() -> Data:
    rng = np.random.default_rng(0)
    exact = {(noise, c): bayes_loss(law(c, noise)).loss for noise in NOISES for c in CONTEXTS}
    curves = np.array([[exact[noise, c] for c in CONTEXTS] for noise in NOISES])
    here = curves[:, CONTEXTS.index(CONTEXT), None] * (1 + 0.01 * rng.normal(size=(len(NOISES), BATCHES)))
    table = xr.Dataset(
        {"sampled": (("noise", "batch"), here), "bayes": (("noise", "context"), curves)},
        {"noise": list(NOISES), "context": list(CONTEXTS)},
    )
    spread = 1 + 0.01 * rng.normal(size=(len(NOISES) - 1, len(FAR), BATCHES))
    yq = np.array([[optimum(law(c, noise)).step_loss for c in FAR] for noise in NOISES[1:]])
    bayes = np.array([[exact[noise, c] for c in FAR] for noise in NOISES[1:]])
    trained = xr.Dataset(
        {
            "yq": (("noise", "context", "seed", "batch"), (yq[..., None] * spread)[:, :, None].repeat(SEEDS, 2)),
            "bayes": (("noise", "context", "batch"), bayes[..., None] * spread),
        },
        {"noise": list(NOISES[1:]), "context": list(FAR)},
    )
    return {"table": table, "trained": trained}


def law(context: int, noise: float) -> Law:
    return Law.isotropic(DIM, context, NORM, noise)


def draw(data: Data):
    table = data["table"]
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4), sharey=True)
    for ax, noise in zip(axes, NOISES, strict=True):
        laws = [law(c, noise) for c in CONTEXTS]
        ax.plot(CONTEXTS, [gd_step(v).loss for v in laws], color=COLORS["zero"], ls="--", label="gradient step from 0")
        ax.plot(CONTEXTS, [optimum(v).loss for v in laws], color=COLORS["heads"], label="LSA, many heads")
        ax.plot(CONTEXTS, [optimum(v).step_loss for v in laws], color=COLORS["yq"], ls=(0, (4, 2)), label="yq-LSA")
        ax.plot(CONTEXTS, table["bayes"].sel(noise=noise), color=COLORS["bayes"], ls="-.", label="Bayes")
        ax.errorbar(
            [CONTEXT],
            table["sampled"].sel(noise=noise).mean("batch"),
            3 * standard_error(table["sampled"].sel(noise=noise).values),
            fmt="o",
            color=COLORS["bayes"],
            mfc="white",
            label="Bayes predictor, sampled",
        )
        if noise in data["trained"]["noise"]:
            losses = data["trained"]["yq"].sel(noise=noise).mean(("seed", "batch"))
            ax.plot(FAR, losses, "D", color=COLORS["yq"], mfc="white", ms=5, label="yq-LSA, trained and sampled")
        ax.axvline(DIM, color="0.8", lw=1, zorder=0)
        ax.set(xscale="log", xlabel="context length $C$", title=rf"$\sigma^2$ = {noise:g}")
        ax.set_xticks((2, 5, 10, 20, 50), ("2", "5", "10", "20", "50"))
        ax.set_xticks((), minor=True)
    axes[0].set(ylabel="loss", ylim=(0, 20))
    axes[1].legend(fontsize=9)
    return figure


def agrees(data: Data) -> Outcome:
    table = data["table"]
    outcomes = []
    for noise in NOISES:
        values, exact = (
            table["sampled"].sel(noise=noise).values,
            float(table["bayes"].sel(noise=noise, context=CONTEXT)),
        )
        outcomes.append(
            judge_mean(values, exact, 0.05 * exact)
            if noise
            else judge_each(list(np.abs(values) < 1e-6), float(np.max(values)))
        )
    measured = {f"σ² = {noise:g}": outcome.measured for noise, outcome in zip(NOISES, outcomes, strict=True)}
    return judge_together(measured, outcomes)


def far(data: Data) -> Outcome:
    """Trained yq-LSA and the Bayes predictor on the same fresh prompts."""
    trained = data["trained"]
    ratio = trained["yq"].mean("batch") / trained["bayes"].mean("batch")
    told = {
        f"σ² = {noise:g}": dict(zip(map(str, FAR), ratio.sel(noise=noise).mean("seed").values, strict=True))
        for noise in NOISES[1:]
    }
    return judge_cells(ratio > 1.5, {"yq-LSA over Bayes, by C": told}, finite=ratio)


def _close_to_bayes(data: Data) -> Data:
    """A yq-LSA that comes within 40 % of Bayes at one C and σ²."""
    near = 1.4 * data["trained"]["bayes"].sel(noise=1.0, context=10).mean("batch")
    return changed(data, "trained/yq", lambda a: a * 0 + near, noise=1.0, context=10)


FIGURE = Figure(
    id="fig_bayes",
    title="the Bayes predictor",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "formula", "The Bayes predictor leaves E tr(I + XᵀX/σ²)⁻¹: 0, 1.62808 and 2.85513 at σ² = 0, 0.25, 1 (d = C = 10).", "exact integral over Wishart eigenvalues",
            "4 standard errors of 40 000 prompts, which must be below 5 %; 1e-6 without noise", agrees, source="theory", reason="errors are squares of Gaussians: 40 000 prompts give 1 %; the cap keeps noisier samples from passing",
            counterexamples=(
                counter("formula 10 % larger at σ² = 0.25", "table/bayes", times(1.1), noise=0.25), counter("sampled 0.01 without noise", "table/sampled", plus(0.01), noise=0.0),
                counter("batches that scatter by 30 %", "table/sampled", lambda a: a * (1 + 0.3 * np.random.default_rng(0).normal(size=a.shape)), noise=1.0), a_nan("table/sampled", noise=1.0, batch=0),
            ),
        ),
        Claim(
            "far", "One layer of linear attention, even with its own guess, is far from Bayes at C ≥ d.", "trained yq-LSA loses at least 1.5 times as much as the Bayes predictor on the same prompts", "C = 10, 20, 50, σ² = 0.25, 1, every seed", far, source="ours", before=False,
            reason="'far' is half as much again; 40 000 prompts resolve 2 %",
            counterexamples=(Counterexample("yq-LSA within 40 % of Bayes at C = 10, σ² = 1", _close_to_bayes), counter("a Bayes predictor that loses 20 times as much at C = 50", "trained/bayes", times(20.0), context=50, noise=0.25), a_nan("trained/yq", noise=1.0, context=20, seed=0)),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    choices=(
        Choice("far", "the formula of yq-LSA over the formula of Bayes; trained yq-LSA over the Bayes predictor, on sampled prompts", "reproduced whatever was sampled, as no data entered", "trained and sampled; the line of 1.5 is kept from before, when the formulas' least ratio, 1.91, was known"),
    ),
    setup="d = 10, ‖w*‖ = 3; closed forms over C, the Bayes predictor run on 40 000 fresh prompts at C = 10; yq-LSA trained on the exact loss at C = 10, 20, 50 and σ² = 0.25, 1, every seed, and the Bayes predictor, on the same 40 000 prompts",
    cost="1 minute on 2 cores",
)  # fmt: skip
