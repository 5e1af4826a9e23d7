"""One layer: training makes linear attention one step of gradient descent."""

from __future__ import annotations

import equinox as eqx
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.model import mean_loss
from ...core.trace import Trace
from ...models.transformer_forms import FullTransformer
from ...probes import fit_gdpp, gdpp_construction, interpolated
from ..base import Choice, Claim, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_seeds
from ..lab import Lab
from .setup import (
    COLORS,
    CONTEXT,
    DIM,
    KNOWN,
    SETUP,
    STEP,
    VARIANCE,
    band,
    changed,
    descent,
    evaluation,
    last,
    measured,
    models_of,
    nan_of,
    recipe,
)  # fmt: skip

ALIKE = 0.9  # cosine above which weights are interpolated
ZERO = 0.5 * DIM * VARIANCE  # the loss of predicting 0
# With a step along m of the d directions the loss is linear in m: ZERO at m = 0, that of a step at m = d.
ONE_DIRECTION = ZERO + (STEP.loss - ZERO) / DIM
MOST = "more than half of the seeds (binomial bound)"


def runs(lab: Lab) -> list[Trace]:
    """The trainings of one layer, which other figures read too."""
    return lab.run([recipe(1, seed) for seed in lab.seeds])


def with_weights(table: xr.Dataset, traces: list[Trace], target: FullTransformer, cosine: str) -> xr.Dataset:
    """Loss of the weights half way to the construction where the models are alike, and the GD++ fit at the end."""
    batch, loss = evaluation(), eqx.filter_jit(mean_loss)
    losses, fits = np.full(table[cosine].shape, np.nan), []
    for row, trace in enumerate(traces):
        models = models_of(trace)
        for column in np.flatnonzero(table[cosine].values[row] > ALIKE):
            losses[row, column] = 0.5 * float(loss(interpolated(models[column], target), batch))  # type: ignore[arg-type]
        fits.append(fit_gdpp(models[-1], CONTEXT))  # type: ignore[arg-type]
    own = {
        "interpolated": (("seed", "record"), losses),
        "step": (("seed",), [fit.steps[0] for fit in fits]),
        "curvature": (("seed",), [fit.curvature[0] for fit in fits]),
        "off_diagonal": (("seed", "product"), [fit.off_diagonal[0] for fit in fits]),
        "off_block": (("seed", "product"), [fit.off_block[0] for fit in fits]),
    }
    return table.assign(own).assign_coords(product=["KQ", "PV"])


def collect(lab: Lab) -> Data:
    traces = runs(lab)

    def table() -> xr.Dataset:
        found = measured(traces, {"gd": descent([STEP.step])}, evaluation())
        return with_weights(found, traces, gdpp_construction(DIM, CONTEXT, [STEP.step]), "cosine_gd")

    return {"training": lab.dataset("fig2", {"runs": [trace.run_id for trace in traces]}, table)}


def example() -> Data:
    """A curve that stays at one direction until step 1500 and then falls to the gradient step."""
    record = np.arange(0, 5001, 100)
    share = np.clip((record - 1500) / 1000, 0, 1) * np.ones((6, 1))
    start = np.where(record < 300, ZERO, ONE_DIRECTION)
    over = ("seed", "record")
    variables = {
        "loss": (over, start * (1 - share) + 1.002 * STEP.loss * share), "loss_gd": ((), STEP.loss),
        "cosine_gd": (over, 0.3 + 0.6995 * share), "prediction_gd": (over, 0.4 - 0.38 * share),
        "sensitivity_gd": (over, 2.0 - 1.92 * share), "norm_gd": (("seed",), np.full(6, 2.08)),
        "interpolated": (over, np.where(share > 0.9, 1.001 * STEP.loss, np.nan)),
        "step": (("seed",), np.linspace(6.03, 6.09, 6)),
        "off_diagonal": (("seed", "product"), np.full((6, 2), 1e-3)),
        "off_block": (("seed", "product"), np.full((6, 2), 1e-3)),
    }  # fmt: skip
    return {"training": xr.Dataset(variables, {"seed": np.arange(6), "record": record, "product": ["KQ", "PV"]})}


def draw(data: Data):
    table = data["training"]
    step = table["record"].values
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.2))
    band(left, step, table["loss"].values, COLORS["tf"], "trained layer")
    left.plot(step, table["interpolated"].mean("seed"), color=COLORS["mix"], ls="--", label="weights half way")
    left.axhline(float(table["loss_gd"]), color=COLORS["gd"], lw=1.2, label="one gradient step, same tasks")
    left.axhline(ONE_DIRECTION, color="0.5", lw=1, ls=":")
    left.annotate("one direction learned", (step[-1], ONE_DIRECTION), ha="right", va="bottom", fontsize=9, color="0.35")
    left.set(xlabel="step", ylabel=r"loss $\frac{1}{2}E(\hat y-y)^2$", title=f"one layer, $d$ = $N$ = {DIM}")
    left.legend(fontsize=9, loc="center right")
    band(right, step, table["cosine_gd"].values, COLORS["tf"], "cosine of sensitivities")
    band(right, step, table["sensitivity_gd"].values, COLORS["gd"], "difference of sensitivities")
    band(right, step, table["prediction_gd"].values, COLORS["gdpp"], "difference of predictions")
    right.axhline(1, color="0.6", lw=1, ls=":")
    right.set(xlabel="step", ylim=(-0.05, None), title=f"against one gradient step, {table.sizes['seed']} seeds")
    right.legend(fontsize=9)
    return figure


def loss_ratio(data: Data) -> Outcome:
    off = last(data, "training", "loss") / float(data["training"]["loss_gd"]) - 1
    return judge_seeds((np.abs(off) <= 0.01).tolist(), {"largest": float(np.abs(off).max()), "mean": float(off.mean())})


def cosine(data: Data) -> Outcome:
    found = last(data, "training", "cosine_gd")
    return judge_seeds((found >= 0.999).tolist(), float(found.min()))


def differences(data: Data) -> Outcome:
    table = data["training"]
    prediction = last(data, "training", "prediction_gd")
    share = last(data, "training", "sensitivity_gd") / table["norm_gd"].values
    measured = {"prediction": float(prediction.max()), "sensitivity": float(share.max())}
    return judge_seeds(((prediction <= 0.03) & (share <= 0.06)).tolist(), measured)


def step_size(data: Data) -> Outcome:
    off = data["training"]["step"].values / STEP.step - 1
    return judge_seeds((np.abs(off) <= 0.02).tolist(), data["training"]["step"].values.tolist())


def half_way(data: Data) -> Outcome:
    off = last(data, "training", "interpolated") / float(data["training"]["loss_gd"]) - 1
    return judge_seeds((np.abs(off) <= 0.01).tolist(), float(np.abs(off).max()))


def plateau(data: Data) -> Outcome:
    table = data["training"]
    near = np.abs(table["loss"].values / ONE_DIRECTION - 1) <= 0.02
    spent = (near * np.gradient(table["record"].values)).sum(1)
    return judge_seeds((spent >= 300).tolist(), {"steps": spent.tolist(), "height": ONE_DIRECTION})


FIGURE = Figure(
    id="fig2",
    title="one layer of linear attention becomes one step of gradient descent",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "loss", "After 5000 steps the loss of the trained layer is that of one gradient step with the best step size, on the same tasks.",
            f"{STEP.loss:.6f} in expectation", f"1 %, in {MOST}", loss_ratio, source="second-hand", reason="the notes' tolerance; the tasks are the same on both sides", before=False,
            counterexamples=(changed("2 % higher", "training", "loss", 1.02), nan_of("loss")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "cosine", "The layer's sensitivity to the query points in the direction of the gradient step's.", "≥ .999", MOST, cosine, source="second-hand",
            reason="one run of the notes had .9993", before=False,
            counterexamples=(changed("cosine .998 of itself", "training", "cosine_gd", 0.998), nan_of("cosine_gd")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "differences", "Predictions and sensitivities agree with the gradient step's.", "≤ .03, and ≤ 6 % of the norm of the sensitivity", MOST, differences, source="second-hand",
            reason="1.5 times what one run of the notes had (.02, 4 %)", before=False,
            counterexamples=(
                changed("predictions twice as far", "training", "prediction_gd", 2.0), changed("sensitivities twice as far", "training", "sensitivity_gd", 2.0), nan_of("prediction_gd"),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "step_size", "The weights have the step size of the best gradient step.", f"η* = {STEP.step:.6f}", f"2 %, in {MOST}", step_size,
            reason="the loss is flat at η*: 2 % of η cost .04 % of the loss", source="theory",
            counterexamples=(changed("3 % longer", "training", "step", 1.03), nan_of("step")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "half_way", "Weights half way between the trained ones and the construction have the same loss.", "the gradient step's", f"1 %, in {MOST}", half_way, source="second-hand",
            reason="as for the loss itself", before=False, counterexamples=(changed("2 % higher", "training", "interpolated", 1.02), nan_of("interpolated")),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "plateau", "Training first stays where one direction of the inputs is learned, a saddle: the loss of a step along one of d directions.",
            f"{ONE_DIRECTION:.4f} for at least 300 steps", f"2 %, in {MOST}", plateau, source="ours", before=False,
            reason="the next saddle, with two directions, is 5 % lower; zero predictions are 5 % higher", holds=False,
            counterexamples=(changed("a plateau 8 % lower", "training", "loss", 0.92), changed("at zero predictions", "training", "loss", ZERO / ONE_DIRECTION), nan_of("loss")),
            min_seeds=SHARE_SEEDS,
        ),
    ),
    setup=f"{SETUP}\none layer, 5000 steps; interpolation: KQ = W_q W_kᵀ divided by its mean diagonal m over the inputs, PV = W_v W_o times m, each averaged with the construction's, from cosine {ALIKE} on",
    cost="2 minutes on 2 cores",
    choices=(
        Choice("tolerances", "nothing else", KNOWN, "1 % of the loss, cosine .999; .03 and 6 % for the differences, 1.5 times the notes' run"),
        Choice(
            "plateau", "the notes' ≈ .39 until step 1000 to 2000, read off one run; the closed form .39562 was written down before our runs, as a claim that should hold",
            "contradicted: six seeds pass this height within 65 steps and are done after 700; at a hundredth of the initial variance the same, at a ten-thousandth the loss is .389 with cosine .33 in passing",
            "the claim as it was, marked as one that does not hold",
        ),
    ),
)  # fmt: skip
