"""Where training of the three layers leads: weak attention with large values, a linear read-out of the labels.

By rotation symmetry the weights of a layer are two numbers: how strongly it attends, κ, and how large its values are,
w/κ. For κ → 0 a softmax is 1/n plus κ times the centered scores over n, so the layers become x̂ = (w/n) Σ_i y_i a_i:
with raw labels (B and C) the gradient step, with log labels (A) a regression on log b.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float
from scipy.optimize import minimize_scalar

from ...core.forms import as_array
from ...core.prompt import Batch, Document
from ...models.predictors.softmax_descent import SoftmaxDescent, line_search, mean_loss, ray_loss
from ...models.softmax_layers import (
    AbstractDocumentModel,
    AbstractWeightEstimator,
    LabelAttention,
    Labels,
    QueryAttention,
    tokens,
)
from ...tasks.softmax_regression import SoftmaxRegression
from .measures import compare, drawn, sources

LABELS: dict[str, Labels] = {"A": "log", "B": "raw", "C": "raw"}
WEAK = np.geomspace(1e-3, 1, 7)  # κ
Build = Callable[[Array], AbstractDocumentModel]


class LinearReadout(AbstractWeightEstimator):
    """x̂ = (w/n) Σ_i y_i a_i; logits A_q x̂. With raw labels y = n b − 1 it is one gradient step of length η = nw."""

    weight: Float[Array, ""]
    labels: Labels = eqx.field(static=True, default="raw")

    def estimate(self, document: Document) -> Float[Array, " dim"]:
        words = tokens(document, self.labels)
        return self.weight * jnp.mean(words[:, -1:] * words[:, :-1], 0)


def symmetric(layer: str, strength: float | Array, weight: float | Array, dim: int) -> AbstractDocumentModel:
    """Layer A, B or C with attention of strength κ to the labels (B: to similar words) and values w/κ."""
    label, value = jnp.eye(dim + 1)[-1], weight / strength
    if layer == "B":
        return QueryAttention(strength * jnp.eye(dim, dim + 1), value * label)
    return LabelAttention(strength * label, jnp.eye(dim + 1), value * jnp.eye(dim, dim + 1), LABELS[layer])


@eqx.filter_jit
def _logits(build: Build, batch: Batch[Document]) -> Array:
    return jax.vmap(build(jnp.ones(())).logits)(batch.prompt)


_ray_loss = eqx.filter_jit(ray_loss)


@eqx.filter_jit
def _compared(model: AbstractDocumentModel, other: AbstractDocumentModel, batch: Batch[Document]) -> dict[str, Array]:
    found = jax.vmap(lambda document: compare(model, other, document))(batch.prompt)
    return {name: values.mean() for name, values in found.items()} | {"loss": mean_loss(model, batch)}


def best(build: Build, batch: Batch[Document]) -> tuple[float, float]:
    """The weight w in (0, 4) with the least loss on these documents, and that loss; logits are proportional to w."""
    options, logits = {"xatol": 1e-9}, _logits(build, batch)
    found: Any = minimize_scalar(
        lambda w: float(_ray_loss(logits, as_array(w), batch)), bounds=(0, 4), method="bounded", options=options
    )
    return float(found.x), float(found.fun)


def documents_of(task: SoftmaxRegression, seed: int, documents: int) -> tuple[Batch[Document], Batch[Document]]:
    """Training documents, for the search of the best length, and evaluation documents."""
    search, held_out = sources(task, seed, documents)
    return drawn(search), drawn(held_out)


def limit_of_a(task: SoftmaxRegression, repetitions: range, documents: int) -> xr.Dataset:
    """Layer A's limit beside the gradient step, both with the best length on training documents; (repetition)."""
    rows = []
    for seed in repetitions:
        search, held_out = documents_of(task, seed, documents)
        limit = LinearReadout(jnp.asarray(best(eqx.Partial(LinearReadout, labels="log"), search)[0]), "log")
        descent = SoftmaxDescent(line_search(search)[0])
        found = _compared(limit, descent, held_out)
        rows.append([found["loss"], _compared(descent, descent, held_out)["loss"], found["model_cos"]])
    names, values = ("limit_loss", "gd_loss", "limit_cos"), np.array(rows, float)
    return xr.Dataset({n: ("repetition", values[:, i]) for i, n in enumerate(names)}, {"repetition": list(repetitions)})


def families(task: SoftmaxRegression, seed: int, documents: int) -> xr.Dataset:
    """The three layers for each strength κ of attention: (layer, strength).

    `apart` is the mean distance of a layer's sensitivity to that of its limit, both with the limit's w; `loss` that
    with the best w for each κ, on the same documents as `limit_loss`; `limit_apart` the distance of the limit to the
    gradient step, relative to the length of the latter.
    """
    batch, _ = documents_of(task, seed, documents)
    descent, columns = SoftmaxDescent(line_search(batch)[0]), {}
    for layer, labels in LABELS.items():
        weight, least = best(eqx.Partial(LinearReadout, labels=labels), batch)
        limit = LinearReadout(jnp.asarray(weight), labels)
        away, family = _compared(limit, descent, batch), eqx.Partial(symmetric, layer, dim=task.dim)
        near = [_compared(family(jnp.asarray(k), jnp.asarray(weight)), limit, batch)["model_diff"] for k in WEAK]
        columns[layer] = {
            "apart": [float(distance) for distance in near],
            "loss": [best(eqx.Partial(symmetric, layer, jnp.asarray(k), dim=task.dim), batch)[1] for k in WEAK],
            "limit_loss": least,
            "limit_apart": float(away["model_diff"] / away["gd_norm"]),
        }
    dims = {"apart": ("layer", "strength"), "loss": ("layer", "strength")}
    table = {name: (dims.get(name, ("layer",)), np.array([c[name] for c in columns.values()])) for name in columns["A"]}
    return xr.Dataset(table, {"layer": list(columns), "strength": WEAK})
