"""Softmax attention with one and with two heads against one gradient step: a figure for a GPU."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...models.deep_attention import DeepAttention
from ..base import Choice, Claim, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_seeds
from ..lab import Lab
from .fig2 import MOST
from .setup import (
    COLORS,
    SETUP,
    STEP,
    band,
    changed,
    descent,
    evaluation,
    is_full,
    last,
    measured,
    nan_of,
    recipe,
    trained,
)

HEADS = {"one": 1, "two": 2}
STEPS = 5000
SMALL: dict[str, Any] = {"steps": 20, "batch": 64}
NAMES = {"one": "softmax, one head", "two": "softmax, two heads"}
SHADES = {"one": COLORS["mix"], "two": COLORS["tf"]}


def collect(lab: Lab) -> Data:
    full, found = is_full(lab), {}
    seeds = lab.seeds_or(12) if full else lab.seeds  # twice as many: nobody had numbers before
    for name, heads in HEADS.items():
        model = DeepAttention(layers=1, num_heads=heads, softmax=True)
        size: dict[str, Any] = {"steps": STEPS} if full else SMALL
        traces = lab.run([recipe(1, seed, model=model, **size) for seed in seeds])

        def table(traces=traces) -> xr.Dataset:
            batch = evaluation() if full else evaluation(count=200)
            return measured(traces, {"gd": descent([STEP.step])}, batch, 3 if full else 20).assign(full=int(full))

        parameters = {"runs": [trace.run_id for trace in traces], "full": full}
        found[name] = lab.dataset(f"fig_softmax_{name}", parameters, table)
    return found


def example() -> Data:
    record, found = np.linspace(0, STEPS, 26), {}
    share = np.clip(record / 4000, 0, 1) * np.ones((12, 1))
    for name, (end, cosine) in {"one": (0.33, 0.6), "two": (0.21, 0.985)}.items():
        own = {
            "loss": (("seed", "record"), 0.4167 * (1 - share) + end * share), "loss_gd": ((), STEP.loss),
            "cosine_gd": (("seed", "record"), cosine * share), "full": ((), 1),
        }  # fmt: skip
        found[name] = xr.Dataset(own, {"seed": np.arange(12), "record": record})
    return found


def draw(data: Data):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2))
    for name, label in NAMES.items():
        table = data[name]
        band(left, table["record"].values, table["loss"].values, SHADES[name], label)
        band(right, table["record"].values, table["cosine_gd"].values, SHADES[name], label)
    left.axhline(float(data["two"]["loss_gd"]), color=COLORS["gd"], lw=1.2, label="one gradient step")
    left.set(
        xlabel="step", ylabel=r"loss $\frac{1}{2}E(\hat y-y)^2$", title=f"one layer, {data['two'].sizes['seed']} seeds"
    )
    left.legend(fontsize=9, loc="center right")
    right.axhline(1, color="0.6", lw=1, ls=":")
    right.set(xlabel="step", ylabel="cosine of sensitivities with a gradient step", ylim=(-0.05, 1.05))
    return figure


def two_align(data: Data) -> Outcome:
    ratio, cosine = last(data, "two", "loss") / float(data["two"]["loss_gd"]), last(data, "two", "cosine_gd")
    passed = (np.abs(ratio - 1) <= 0.05) & (cosine >= 0.95)
    return trained(judge_seeds(passed.tolist(), {"ratio": ratio.tolist(), "cosine": cosine.tolist()}), data["two"])


def one_does_not(data: Data) -> Outcome:
    ratio, cosine = last(data, "one", "loss") / float(data["one"]["loss_gd"]), last(data, "one", "cosine_gd")
    passed = (ratio >= 1.2) & (cosine <= 0.95)
    return trained(judge_seeds(passed.tolist(), {"ratio": ratio.tolist(), "cosine": cosine.tolist()}), data["one"])


FIGURE = Figure(
    id="fig_softmax",
    title="softmax attention needs two heads",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "two_align", "One layer of softmax attention with two heads becomes a gradient step.", "loss ratio 1 and cosine ≥ .95", f"5 %, in {MOST}", two_align, source="second-hand",
            reason="the public notebook says that two heads work and gives no number; these are ours, before any run", holds=False,
            counterexamples=(changed("a tenth higher", "two", "loss", 1.1), changed("cosine .95 of itself", "two", "cosine_gd", 0.95), nan_of("loss", "two")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "one_does_not", "With one head it does not.", "loss at least 1.2 times the gradient step's, cosine at most .95", MOST, one_does_not, source="second-hand",
            reason="the public notebook says that two heads are needed and gives no number; these are ours, before any run",
            counterexamples=(changed("as good as a step", "one", "loss", 0.65), nan_of("loss", "one")),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    setup=f"{SETUP}\none layer of softmax attention over the context, scores divided by √key_size, key_size 11, {STEPS} steps; twice the seeds; --preset small: {SMALL['steps']} steps of {SMALL['batch']}",
    cost="see fig3_deep (an hour on 2 cores; --preset small: half a minute)",
    choices=(
        Choice(
            "what counts as a gradient step", "loss within 5 % and cosine ≥ .95, written before any run; the notebook has no number",
            "contradicted: ten of twelve seeds end 7 % above the step with cosine .956 to .964, two stay at a saddle (1.91, cosine .31)", "the tolerance stays, and the claim is not expected to hold: two heads come near a step and do not become one",
        ),
    ),
)  # fmt: skip
