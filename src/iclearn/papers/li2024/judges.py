"""The paper's claims as judges, for a layer and a regime: each is judged over all repetitions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..base import Claim, Data, Outcome, judge_seeds
from .setup import CLOSE_COSINE, CLOSE_LOSS, NAMES, end, mean_std

Judge = Callable[[Data], Outcome]


def similar_loss(key: str) -> Judge:
    """The final losses of layer and gradient descent are within 10 % of each other."""

    def judge(data: Data) -> Outcome:
        table = data[key]
        layer, gd = end(table, "loss"), table["gd_loss"].values
        ratio = layer / gd
        measured = {"layer": mean_std(layer), "gradient descent": mean_std(gd), "ratio": mean_std(ratio)}
        return judge_seeds(list(np.abs(ratio - 1) <= CLOSE_LOSS), measured)

    return judge


def falls(key: str, name: str) -> Judge:
    """A difference ends below half of what it began with."""

    def judge(data: Data) -> Outcome:
        values = data[key][name].values
        measured = {"start": mean_std(values[:, 0]), "end": mean_std(values[:, -1])}
        return judge_seeds(list(values[:, -1] < 0.5 * values[:, 0]), measured)

    return judge


def aligned(key: str) -> Judge:
    """The cosine rises over training and ends at 0.95 or more: the same direction."""

    def judge(data: Data) -> Outcome:
        values = data[key]["model_cos"].values
        measured = {"start": mean_std(values[:, 0]), "end": mean_std(values[:, -1])}
        return judge_seeds(list((values[:, -1] > values[:, 0]) & (values[:, -1] >= CLOSE_COSINE)), measured)

    return judge


def layer_claims(
    key: str, layer: str, where: str, *, loss: bool = True, differences: bool = True, cosine: bool = True
) -> tuple[Claim, ...]:
    """The paper's four claims for one layer in one regime; the flags say which of them should hold there."""
    name = NAMES[layer]
    return (
        Claim(
            f"similar_loss_{key}", f"The trained layer and one gradient step have similar losses ({name}, {where}).",
            "equal losses", "10 %, in at least 80 % of repetitions", similar_loss(key), holds=loss,
        ),
        Claim(
            f"preds_diff_falls_{key}", f"Preds Diff falls over training ({name}, {where}).", "falls",
            "to less than half, in at least 80 % of repetitions", falls(key, "preds_diff"), holds=differences,
        ),
        Claim(
            f"model_diff_falls_{key}", f"Model Diff falls over training ({name}, {where}).", "falls",
            "to less than half, in at least 80 % of repetitions", falls(key, "model_diff"), holds=differences,
        ),
        Claim(
            f"cosine_rises_{key}", f"Model Cos rises over training towards 1 ({name}, {where}).", "rises to 0.95 or more",
            "in at least 80 % of repetitions", aligned(key), holds=cosine,
        ),
    )  # fmt: skip
