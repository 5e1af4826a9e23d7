"""What the public code's clip of activations to ±10, beyond three layers, does to GD++."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from scipy.optimize import minimize

from ...core.prompt import Batch
from ...models.deep_attention import DeepAttention, DeepAttentionModel
from ...probes import gdpp_construction
from ..base import Choice, Claim, Data, Figure
from ..judging import Outcome, judge_close, judge_each, judge_true
from ..lab import Lab
from .fig3 import DEEPEST, optima
from .setup import COLORS, CONTEXT, DIM, SETUP, changed, evaluation

DEPTHS = (3, 4, 5)
COUNT = 100_000  # tasks: rare ones are clipped hard, and make the loss noisy
SEARCH = 4000  # tasks on which the best steps under the clip are looked for


def clipped_gdpp(layers: int, step: float, curvature: float, *, clip: bool = True) -> DeepAttentionModel:
    """Tied GD++ as the public code runs it, with or without its clip."""
    weights = gdpp_construction(DIM, CONTEXT, [step], [curvature]).weights()
    spec = DeepAttention(layers=layers, tied=True, clip=clip)
    return spec.rebuild(DIM, {name: weight[:, 0] for name, weight in weights.items()})


@eqx.filter_jit
def squares(model: DeepAttentionModel, batch: Batch) -> jax.Array:
    return 0.5 * (jax.vmap(model.predict)(batch.prompt) - batch.target)[:, 0] ** 2


def best_under_clip(layers: int, start: list[tuple[float, float]], batch: Batch) -> tuple[float, float]:
    """Step and curvature with the least loss under the clip, from a few starts."""
    value: Callable[..., Any] = eqx.filter_jit(lambda p, tasks: jnp.mean(squares(_traced(layers, p), tasks)))
    options = {"maxfev": 120}
    found = [
        minimize(lambda p: float(value(jnp.asarray(p), batch)), s, method="Nelder-Mead", options=options) for s in start
    ]
    step, curvature = min(found, key=lambda each: each.fun).x
    return float(step), float(curvature)


def _traced(layers: int, p: jax.Array) -> DeepAttentionModel:
    blank = clipped_gdpp(layers, 1.0, 1.0)
    value = -jnp.diag(jnp.append(jnp.full(DIM, p[1]), p[0])) / CONTEXT
    return eqx.tree_at(lambda m: m.value, blank, value[None])


def collect(lab: Lab) -> Data:
    best = optima(lab)

    def table() -> xr.Dataset:
        batch, few, rows = evaluation(count=COUNT), evaluation(count=SEARCH, seed=31), []
        for layers in DEPTHS:
            at = best.sel(layers=layers)
            step, curvature = float(at["gdpp_step"]), float(at["gdpp_curvature"])
            own = [(step, curvature), (0.6 * step, 0.8 * curvature), (6.0, 0.0)]
            fair = best_under_clip(layers, own, few) if layers > 3 else (step, curvature)
            losses = [
                np.asarray(squares(clipped_gdpp(layers, *p, clip=clip), batch))
                for p, clip in (((step, curvature), False), ((step, curvature), True), (fair, True))
            ]
            rows.append([(loss.mean(), loss.std(ddof=1) / np.sqrt(COUNT)) for loss in losses] + [fair])
        return clips(np.array(rows), best)

    parameters = {"tasks": COUNT, "gdpp": [best[name].values.tolist() for name in ("gdpp_step", "gdpp_curvature")]}
    return {"clip": lab.dataset("fig_depth_clip", parameters, table)}


def clips(rows: np.ndarray, best: xr.Dataset) -> xr.Dataset:
    """Losses and errors of GD++ without the clip, with it, and with steps chosen under it."""
    names = ("plain", "clipped", "fair")
    own: dict[str, Any] = {name: ("layers", rows[:, i, 0]) for i, name in enumerate(names)}
    own |= {f"{name}_error": ("layers", rows[:, i, 1]) for i, name in enumerate(names)}
    own |= {"step": ("layers", rows[:, 3, 0]), "curvature": ("layers", rows[:, 3, 1])}
    own |= {name: ("layers", best[name].sel(layers=list(DEPTHS)).values) for name in ("gd", "gdpp")}
    return xr.Dataset(own, {"layers": list(DEPTHS)})


def example() -> Data:
    best = xr.Dataset(
        {"gd": ("layers", [0.2062, 0.1566, 0.1328, 0.1185, 0.1088]), "gdpp": ("layers", [0.2062, 0.1105, 0.0779, 0.0618, 0.052])},
        {"layers": np.arange(1, DEEPEST + 1)},
    )  # fmt: skip
    plain, clipped, fair = (0.0779, 0.0618, 0.052), (0.0779, 0.12, 0.185), (0.0779, 0.08, 0.075)
    rows = [[(p, 0.001), (c, 0.002), (f, 0.001), (20.0, 1.5)] for p, c, f in zip(plain, clipped, fair, strict=True)]
    return {"clip": clips(np.array(rows), best)}


def draw(data: Data):
    table = data["clip"]
    layers = table["layers"].values
    figure, ax = plt.subplots(figsize=(6.4, 4.4))
    styles = {
        "clipped": (COLORS["tf"], "o", "GD++, activations clipped to ±10"), "fair": (COLORS["mix"], "s", "GD++ with steps chosen under the clip"),
        "plain": (COLORS["gdpp"], "^", "GD++ without the clip"),
    }  # fmt: skip
    for name, (color, marker, label) in styles.items():
        ax.errorbar(
            layers, table[name], 2 * table[f"{name}_error"], color=color, marker=marker, mfc="white", label=label
        )
    ax.plot(layers, table["gd"], color=COLORS["gd"], ls="--", label="gradient descent, one step size")
    ax.set(
        xlabel="tied layers (the clip acts beyond three)",
        xticks=layers,
        ylim=(0, None),
        ylabel=r"loss $\frac{1}{2}E(\hat y-y)^2$",
    )
    ax.legend(fontsize=9)
    return figure


def five_layers(data: Data) -> Outcome:
    return judge_close(float(data["clip"]["clipped"].sel(layers=5)), 0.185, 0.01)


def without(data: Data) -> Outcome:
    table = data["clip"]
    off = np.abs(table["plain"] - table["gdpp"]).values / table["plain_error"].values
    tight = table["plain_error"].values <= 0.1 * table["gdpp"].values
    return judge_each(((off <= 4) & tight).tolist(), table["plain"].values.tolist())


def worse_than_descent(data: Data) -> Outcome:
    at = data["clip"].sel(layers=5)
    return judge_true(bool(at["clipped"] > 1.2 * at["gd"]), {"clipped": float(at["clipped"]), "GD": float(at["gd"])})


def fair_baseline(data: Data) -> Outcome:
    at = data["clip"].sel(layers=5)
    room = 2 * float(at["plain_error"])
    between = float(at["plain"]) - room <= float(at["fair"]) <= 0.7 * float(at["clipped"])
    return judge_true(
        between, {"loss": float(at["fair"]), "step": float(at["step"]), "curvature": float(at["curvature"])}
    )


FIGURE = Figure(
    id="fig_depth_clip",
    title="the public code's clip beyond three layers",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "five_layers", "The best GD++ with five tied layers, run with the public clip, is far worse than without.", ".185 instead of .052", ".01", five_layers, source="ours", before=False,
            reason="three standard errors of 100,000 tasks; the number is the notes'", counterexamples=(changed("10 % lower", "clip", "clipped", 0.9), changed("NaN", "clip", "clipped", float("nan"))),
        ),
        Claim(
            "without", "Without the clip the same model has GD++'s loss.", "the optima of fig3", "4 standard errors, at most 10 % each", without, source="theory",
            reason="100,000 tasks", counterexamples=(changed("a quarter higher", "clip", "plain", 1.25), changed("NaN", "clip", "plain", float("nan"))),
        ),
        Claim(
            "worse_than_descent", "So the published comparison beyond three layers is not between a clipped transformer and a clipped GD++: clipped, GD++'s best steps are worse than gradient descent.",
            "more than 1.2 times gradient descent's loss at five layers", "20 %", worse_than_descent, source="ours", reason="the notes' numbers are .185 and .109", before=False,
            counterexamples=(changed("no worse", "clip", "clipped", 0.6), changed("NaN", "clip", "clipped", float("nan"))),
        ),
        Claim(
            "fair_baseline", "GD++ with steps chosen under the clip is the fair baseline: between the two.", "above GD++ without the clip, at most .7 of GD++'s own steps under it", "an order, and 30 %", fair_baseline,
            source="ours", reason="a model may choose shorter steps that are not clipped",
            counterexamples=(changed("no better than clipped", "clip", "fair", 3.0), changed("better than without the clip", "clip", "fair", 0.5), changed("NaN", "clip", "fair", float("nan"))),
        ),
    ),
    setup=f"{SETUP}\ntied GD++ with the steps of fig3's optima; after every layer all activations are clipped to ±10 where L > 3; the best steps under the clip by Nelder-Mead on {SEARCH} other tasks",
    cost="30 s on 2 cores",
    choices=(
        Choice("number of the claim", "nothing else", "the notes had computed .185 and .052", "± .01 of it"),
        Choice("tasks", "10,000, as in the other figures", ".1856 with a standard error of .011, larger than the tolerance", "100,000 tasks"),),
)  # fmt: skip
