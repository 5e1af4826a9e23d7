"""Five layers, tied and untied, with the public code's clip: a figure for a GPU."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...models.deep_attention import DeepAttention
from ..base import Choice, Claim, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_seeds
from ..lab import Lab
from .fig3 import MOST, optima
from .setup import COLORS, SETUP, band, changed, descent, evaluation, is_full, last, measured, nan_of, recipe, trained

LAYERS = 5
STEPS = {"tied": 5000, "untied": 50_000}
SMALL: dict[str, Any] = {"steps": 20, "batch": 64}
FALLING = 0.02  # a fall of the loss over the last fifth by more than this is unfinished


def collect(lab: Lab) -> Data:
    best, full = optima(lab), is_full(lab)
    at, found = best.sel(layers=LAYERS), {"optima": best}
    references = {
        "gd": descent([float(at["gd_step"])] * LAYERS), "untied": descent(at["untied_steps"].values.tolist()),
        "gdpp": descent([float(at["gdpp_step"])] * LAYERS, [float(at["gdpp_curvature"])] * LAYERS),
    }  # fmt: skip
    for name, steps in STEPS.items():
        model = DeepAttention(layers=LAYERS, tied=name == "tied")
        size: dict[str, Any] = {"steps": steps} if full else SMALL
        traces = lab.run([recipe(LAYERS, seed, model=model, **size) for seed in lab.seeds])

        def table(traces=traces) -> xr.Dataset:
            batch = evaluation() if full else evaluation(count=200)
            return measured(traces, references, batch, every=4 if full else 20).assign(full=int(full))

        parameters = {"runs": [trace.run_id for trace in traces], "full": full, "optima": float(at["gdpp"])}
        found[name] = lab.dataset(f"fig3_deep_{name}", parameters, table)
    return found


def example() -> Data:
    found = {"optima": xr.Dataset({"gd": ("layers", [0.1088])}, {"layers": [LAYERS]})}
    over = ("seed", "record")
    for name, steps in STEPS.items():
        record = np.linspace(0, steps, 21)
        share = np.clip(record / steps / 0.7, 0, 1) * np.ones((6, 1))
        own = {
            "loss": (over, 0.4167 * (1 - share) + 0.055 * share), "cosine_gd": (over, 0.95 * share),
            "cosine_gdpp": (over, 0.99 * share), "loss_gd": ((), 0.1088), "loss_gdpp": ((), 0.054),
            "loss_untied": ((), 0.0792), "full": ((), 1),
        }  # fmt: skip
        found[name] = xr.Dataset(own, {"seed": np.arange(6), "record": record})
    return found


def draw(data: Data):
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.2))
    lines = {"gd": "gradient descent, one step size", "untied": "gradient descent, five", "gdpp": "GD++ without clip"}
    for ax, name in zip(axes, STEPS, strict=False):
        table = data[name]
        band(ax, table["record"].values, table["loss"].values, COLORS["tf"], "five trained layers")
        for line, label in lines.items():
            ax.axhline(float(table[f"loss_{line}"]), color=COLORS.get(line, "0.4"), lw=1.2, label=label)
        ax.set(xlabel="step", yscale="log", title=f"{name}, {table.sizes['seed']} seeds", ylim=(0.005, 0.5))
        ax.set_yticks([0.01, 0.02, 0.05, 0.1, 0.2, 0.4], ["0.01", "0.02", "0.05", "0.1", "0.2", "0.4"])
        ax.minorticks_off()
    axes[0].set_ylabel(r"loss $\frac{1}{2}E(\hat y-y)^2$")
    axes[0].legend(fontsize=9)
    table = data["tied"]
    for name, label in {"gd": "gradient descent", "gdpp": "GD++"}.items():
        band(axes[2], table["record"].values, table[f"cosine_{name}"].values, COLORS[name], f"with {label}")
    axes[2].set(xlabel="step", ylabel="cosine of sensitivities", title="tied", ylim=(-0.05, 1.05))
    axes[2].legend(fontsize=9)
    return figure


def below(name: str, line: str, share: float):
    def judge(data: Data) -> Outcome:
        ratio = last(data, name, "loss") / float(data[name][f"loss_{line}"])
        return trained(judge_seeds((ratio <= share).tolist(), ratio.tolist()), data[name])

    return judge


def closer(data: Data) -> Outcome:
    gdpp, gd = (last(data, "tied", f"cosine_{name}") for name in ("gdpp", "gd"))
    return trained(judge_seeds((gdpp > gd).tolist(), {"GD++": gdpp.tolist(), "GD": gd.tolist()}), data["tied"])


def reaches(data: Data) -> Outcome:
    table = data["tied"]
    ratio = last(data, "tied", "loss") / float(table["loss_gdpp"])
    then = table["loss"].sel(record=0.8 * float(table["record"][-1]), method="nearest").values
    falling = then / last(data, "tied", "loss") - 1
    outcome = judge_seeds(
        ((ratio >= 0.9) & (ratio <= 1.1)).tolist(), {"ratio": ratio.tolist(), "fall": falling.tolist()}
    )
    if outcome.verdict == "contradicted" and np.median(falling) > FALLING:
        return Outcome(outcome.measured, "unfinished", outcome.seeds)
    return trained(outcome, table)


FIGURE = Figure(
    id="fig3_deep",
    title="five layers, tied and untied",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "tied_beats_descent", "Five trained layers with the same weights do better than five steps of gradient descent with the best step size.", "at most .9 of its loss", MOST, below("tied", "gd", 0.9), source="second-hand",
            reason="one short run of the notes was at .64", counterexamples=(changed("twice as high", "tied", "loss", 2.0), nan_of("loss", "tied")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "untied_beats_descent", "Five trained layers with weights of their own do better than gradient descent with five best step sizes.", "at most its loss", MOST, below("untied", "untied", 1.0), source="second-hand",
            reason="these five steps are among what the layers can do", counterexamples=(changed("a half higher", "untied", "loss", 1.5), nan_of("loss", "untied")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "closer", "Five tied layers are closer to GD++ than to gradient descent.", "cosine with GD++ above that with gradient descent", MOST, closer, source="second-hand", reason="an order has no tolerance",
            counterexamples=(changed("cosine with GD++ lower", "tied", "cosine_gdpp", 0.9), nan_of("cosine_gdpp", "tied")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "reaches_gdpp", "Five tied layers end at the loss of GD++ without the clip.", "ratio 1", f"10 %, in {MOST}; unfinished where the loss still fell by {FALLING:.0%} in the last fifth", reaches,
            reason="the clip makes it harder than without, see fig_depth_clip", source="ours", holds=False,
            counterexamples=(changed("a third higher", "tied", "loss", 1.33), nan_of("loss", "tied")),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    setup=f"{SETUP}\nfive layers with the clip to ±10; tied {STEPS['tied']} and untied {STEPS['untied']} steps; --preset small: {SMALL['steps']} steps of {SMALL['batch']}",
    cost="all three figures for a GPU took 8 minutes on an H200 that did other work too (hours on 2 cores; --preset small: a minute)",
    choices=(
        Choice(
            "the loss that five tied layers are compared with", "GD++ with its best steps without the clip, 10 %, written before the run",
            "contradicted in six of six seeds: 1.29 to 1.32 times its loss, at rest for the last fifth", "it stays and is not expected to hold: under the clip GD++ has .0645 at best (fig_depth_clip), and the layers end 5 % above that",
        ),
    ),
)  # fmt: skip
