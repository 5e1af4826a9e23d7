"""Inputs and labels as tokens of their own: the first layer copies, the second descends. A figure for a GPU."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...models.deep_attention import DeepAttention, DeepAttentionModel
from ...probes import copying
from ..base import Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_seeds
from ..lab import Lab
from .fig2 import MOST
from .setup import (
    COLORS,
    CONTEXT,
    SETUP,
    STEP,
    band,
    changed,
    descent,
    evaluation,
    is_full,
    last,
    measured,
    models_of,
    nan_of,
    recipe,
    trained,
)

LAYERS, POSITIONS, STEPS = 2, 10, 10_000
SMALL: dict[str, Any] = {"steps": 10, "batch": 32}
PROMPTS = 64  # over which Jacobians are averaged
PARTS = ("itself", "following", "others")


def collect(lab: Lab) -> Data:
    full = is_full(lab)
    model = DeepAttention(layers=LAYERS, interleaved=True, positions=POSITIONS, first_softmax=True)
    size: dict[str, Any] = {"steps": STEPS} if full else SMALL
    traces = lab.run([recipe(LAYERS, seed, model=model, init=0.02, **size) for seed in lab.seeds])
    every = 4 if full else 10

    def table() -> xr.Dataset:
        batch = evaluation() if full else evaluation(count=100)
        found = measured(traces, {"gd": descent([STEP.step])}, batch, every)
        prompts, rows = evaluation(count=PROMPTS if full else 4), []
        for trace in traces:
            kept: list[DeepAttentionModel] = models_of(trace)[::-every][::-1]  # type: ignore[assignment]
            rows.append([copying(model, prompts) for model in kept])
        norms = {name: (("seed", "record"), [[getattr(c, name) for c in row] for row in rows]) for name in PARTS}
        return found.assign(norms).assign(full=int(full))

    parameters = {"runs": [trace.run_id for trace in traces], "full": full}
    return {"training": lab.dataset("fig_copy", parameters, table)}


def example() -> Data:
    record = np.linspace(0, STEPS, 21)
    share = np.clip(record / 6000, 0, 1) * np.ones((6, 1))
    over = ("seed", "record")
    own = {
        "loss": (over, 0.4167 * (1 - share) + 0.207 * share), "loss_gd": ((), STEP.loss), "full": ((), 1),
        "cosine_gd": (over, 0.98 * share), "itself": (over, np.full_like(share, 3.2)),
        "following": (over, 0.01 + share), "others": (over, 0.01 + 0.05 * share),
    }  # fmt: skip
    return {"training": xr.Dataset(own, {"seed": np.arange(6), "record": record})}


def draw(data: Data):
    table = data["training"]
    step = table["record"].values
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2))
    band(left, step, table["loss"].values, COLORS["tf"], "two trained layers")
    left.axhline(float(table["loss_gd"]), color=COLORS["gd"], lw=1.2, label="one gradient step")
    left.set(
        xlabel="step",
        ylabel=r"loss $\frac{1}{2}E(\hat y-y)^2$",
        ylim=(0, 0.6),
        title=f"interleaved tokens, {table.sizes['seed']} seeds",
    )
    left.legend(fontsize=9)
    labels = {"itself": "itself", "following": "the next token, its label", "others": "any other token"}
    colors = {"itself": "0.5", "following": COLORS["tf"], "others": COLORS["gd"]}
    for name, label in labels.items():
        band(right, step, table[name].values, colors[name], label)
    right.set(xlabel="step", ylabel="norm of the mean Jacobian", title="an input after the first layer depends on")
    right.legend(fontsize=9)
    return figure


def reaches(data: Data) -> Outcome:
    ratio = last(data, "training", "loss") / float(data["training"]["loss_gd"])
    return trained(judge_seeds((np.abs(ratio - 1) <= 0.05).tolist(), ratio.tolist()), data["training"])


def copies(data: Data) -> Outcome:
    following, others = (last(data, "training", name) for name in ("following", "others"))
    ratio = following / others
    return trained(judge_seeds((ratio >= 5).tolist(), ratio.tolist()), data["training"])


def learned(data: Data) -> Outcome:
    grown = data["training"]["following"].isel(record=-1).values / data["training"]["following"].isel(record=0).values
    return trained(judge_seeds((grown >= 5).tolist(), grown.tolist()), data["training"])


FIGURE = Figure(
    id="fig_copy",
    title="interleaved tokens: the first layer copies",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "reaches_descent", "Two layers over interleaved tokens reach the loss of one gradient step.", "ratio 1", f"5 %, in {MOST}", reaches, source="second-hand",
            reason="the notebook's curve reaches its line; how closely is ours to say", counterexamples=(changed("a tenth higher", "training", "loss", 1.1), nan_of("loss")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "copies", "After the first layer an input depends on the token that follows it, its label, far more than on other tokens.", "at least 5 times", MOST, copies, source="second-hand",
            reason="without copying the ratio is about 1; no number was known", counterexamples=(changed("a fifth of it", "training", "following", 0.2), nan_of("following")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "learned", "Training makes it so.", "the dependence on the next token grows at least 5 times", MOST, learned, source="second-hand", reason="no number was known",
            counterexamples=(
                Counterexample("there from the start", lambda data: {"training": data["training"].assign(following=data["training"]["following"] * 0 + 1.0)}), nan_of("following"),
            ),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    setup=f"{SETUP}\ntokens x_1, (0, …, 0, y_1), x_2, …, x_q with {POSITIONS} sinusoidal position channels appended, {CONTEXT} pairs; first layer softmax, second linear, untied, {STEPS} steps; Jacobians averaged over {PROMPTS} prompts; --preset small: {SMALL['steps']} steps of {SMALL['batch']}",
    cost="see fig3_deep (hours on 2 cores; --preset small: half a minute)",
)  # fmt: skip
