"""Preds Diff, Model Diff and Model Cos of a trained layer and gradient descent, over training."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array

from ...core.prompt import Batch, Document
from ...core.recipe import Recipe
from ...core.trace import Trace
from ...models.predictors.softmax_descent import SoftmaxDescent, line_search
from ...models.softmax_layers import AbstractDocumentModel, AbstractWeightEstimator, SoftmaxLayer
from ...probes.similarity import differences
from ...tasks.softmax_regression import EVALUATION, DocumentSource, SoftmaxRegression

TOGETHER = 25  # documents at a time: with more, what is made of them leaves the caches


def compare(model: AbstractDocumentModel, other: AbstractDocumentModel, document: Document) -> dict[str, Array]:
    """Distances of two models on one document.

    Preds Diff ‖f̂ − f̂'‖; with g_q = ∂logit/∂embedding of query word q, Model Diff is the mean of ‖g_q − g'_q‖ and Model
    Cos that of cos(g_q, g'_q) over the query words. (For softmax(A_q x̂) models g_q = x̂: the weight vectors compared.
    The derivative of the probability of a word in its own embedding is f_q(1 − f_q) g_q: the same cosine.)
    """
    if isinstance(model, AbstractWeightEstimator) and isinstance(other, AbstractWeightEstimator):
        return _compare_weights(model, other, document)
    return compare_words(model, other, document)


def compare_words(model: AbstractDocumentModel, other: AbstractDocumentModel, document: Document) -> dict[str, Array]:
    """`compare` of any two models, word by word."""
    found = differences(model, other, document)
    return {
        "preds_diff": found["prediction"],
        "model_diff": jnp.mean(found["sensitivity"]),
        "model_cos": jnp.mean(found["dot"] / jnp.maximum(found["norm_a"] * found["norm_b"], 1e-300)),
        "gd_norm": jnp.mean(found["norm_b"]),
    }


def _compare_weights(
    model: AbstractWeightEstimator, other: AbstractWeightEstimator, document: Document
) -> dict[str, Array]:
    """`compare` of two models whose sensitivities are their x̂, the same for every query word."""
    a, b = model.estimate(document), other.estimate(document)
    norm = jnp.linalg.norm(b)
    apart = jax.nn.softmax(document.query @ a) - jax.nn.softmax(document.query @ b)
    return {
        "preds_diff": jnp.linalg.norm(apart),
        "model_diff": jnp.linalg.norm(a - b),
        "model_cos": a @ b / jnp.maximum(jnp.linalg.norm(a) * norm, 1e-300),
        "gd_norm": norm,
    }


@eqx.filter_jit
def compared(models: AbstractDocumentModel, other: AbstractDocumentModel, batch: Batch[Document]) -> dict[str, Array]:
    """The means over documents of `compare` and of the loss n_q·½‖f̂ − b_q‖², (record); `gd_loss` is that of the other.

    Args:
        models: with a leading axis of records; all of them read a document while it is near.
        other: one model.
        batch: the documents.
    """

    def on(document: Document, target: Array) -> dict[str, Array]:
        def loss(model: AbstractDocumentModel) -> Array:
            return batch.unit * jnp.mean((model.predict(document) - target) ** 2)

        def at(model: AbstractDocumentModel) -> dict[str, Array]:
            return compare(model, other, document) | {"loss": loss(model)}

        return jax.vmap(at)(models) | {"gd_loss": loss(other)}

    found = jax.lax.map(lambda pair: on(*pair), (batch.prompt, batch.target), batch_size=TOGETHER)
    return {name: values.mean(0) for name, values in found.items()}


@eqx.filter_jit
def drawn(source: DocumentSource) -> Batch[Document]:
    """All documents of a source, in one program for every source of this size."""
    batch = source.everything()
    assert isinstance(batch, Batch)
    return batch


@functools.lru_cache(1024)
def searched(task: SoftmaxRegression, seed: int, documents: int, gd_steps: int) -> float:
    """The best learning rate of gradient descent on the training documents of one repetition; layers share it."""
    return float(line_search(drawn(sources(task, seed, documents)[0]), gd_steps)[0])


def sources(task: SoftmaxRegression, seed: int, documents: int) -> tuple[DocumentSource, DocumentSource]:
    """The training documents of the line search and the evaluation documents of one repetition, in float64."""
    sized = task.replace(num_prompts=documents, test_prompts=documents)
    return sized.source(seed, "float64"), sized.source(seed, "float64", EVALUATION)


def evaluate(
    group: Sequence[Recipe], traces: Sequence[Trace], every: int, documents: int, gd_steps: int = 1
) -> xr.Dataset:
    """The measures of each repetition at every `every`-th record and after the last step.

    Evaluated in float64, also where training was in float32.
    """
    columns: dict[str, list[np.ndarray]] = {}
    steps = np.zeros(0)
    for one, trace in zip(group, traces, strict=True):
        task, spec = one.task, one.model
        assert isinstance(task, SoftmaxRegression)
        assert isinstance(spec, SoftmaxLayer)
        records = trace.data["record"].values
        chosen = np.unique(np.append(np.arange(0, len(records), every), len(records) - 1))
        steps = records[chosen]
        names = [str(n) for n in trace.data.data_vars if str(n).startswith("weight_")]
        paths = {n.removeprefix("weight_"): trace.data[n].values[chosen].astype(float) for n in names}
        lr = searched(task, one.seed, documents, gd_steps)
        descent = SoftmaxDescent(jnp.asarray(lr), gd_steps)
        batch = drawn(sources(task, one.seed, documents)[1])
        found = compared(jax.vmap(partial(spec.rebuild, task.dim))(paths), descent, batch)
        found |= {"gd_lr": np.asarray(lr / task.context_len), "gd_norm": found["gd_norm"][0]}
        for name, value in found.items():
            columns.setdefault(name, []).append(np.asarray(value))
    variables = {
        name: (("repetition", "step") if rows[0].ndim else ("repetition",), np.stack(rows))
        for name, rows in columns.items()
    }
    return xr.Dataset(variables, {"step": steps, "repetition": [one.seed for one in group]})
