"""Preds Diff, Model Diff and Model Cos of a trained layer and gradient descent, over training."""

from __future__ import annotations

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
from ...models.softmax_layers import AbstractDocumentModel, SoftmaxLayer
from ...probes.similarity import differences
from ...tasks.softmax_regression import EVALUATION, DocumentSource, SoftmaxRegression


def compare(model: AbstractDocumentModel, other: AbstractDocumentModel, document: Document) -> dict[str, Array]:
    """Distances of two models on one document.

    Preds Diff ‖f̂ − f̂'‖; with g_q = ∂logit/∂embedding of query word q, Model Diff is the mean of ‖g_q − g'_q‖ and Model
    Cos that of cos(g_q, g'_q) over the query words. (For softmax(A_q x̂) models g_q = x̂: the weight vectors compared.
    The derivative of the probability of a word in its own embedding is f_q(1 − f_q) g_q: the same cosine.)
    """
    found = differences(model, other, document)
    return {
        "preds_diff": found["prediction"],
        "model_diff": jnp.mean(found["sensitivity"]),
        "model_cos": jnp.mean(found["dot"] / jnp.maximum(found["norm_a"] * found["norm_b"], 1e-300)),
        "gd_norm": jnp.mean(found["norm_b"]),
    }


def document_loss(model: AbstractDocumentModel, batch: Batch[Document]) -> Array:
    """n_q·½‖f̂ − b_q‖² of each document."""
    return batch.unit * jnp.mean((jax.vmap(model.predict)(batch.prompt) - batch.target) ** 2, -1)


@eqx.filter_jit
def _one_repetition(
    search: DocumentSource, held_out: DocumentSource, models: AbstractDocumentModel, gd_steps: int
) -> dict[str, Array]:
    """All measures at every record of one run; `models` has a leading axis of records."""
    lr, _ = line_search(search.everything(), gd_steps)  # type: ignore[arg-type]
    descent = SoftmaxDescent(lr, gd_steps)
    batch = held_out.everything()
    assert isinstance(batch, Batch)

    def at(model: AbstractDocumentModel) -> dict[str, Array]:
        found = jax.vmap(lambda document: compare(model, descent, document))(batch.prompt)
        return {name: values.mean() for name, values in found.items()} | {"loss": document_loss(model, batch).mean()}

    found = jax.lax.map(at, models)
    gd = {"gd_loss": document_loss(descent, batch).mean(), "gd_lr": lr / search.words, "gd_norm": found["gd_norm"][0]}
    return found | gd


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
        search, held_out = sources(task, one.seed, documents)
        models = jax.vmap(partial(spec.rebuild, task.dim))(paths)
        found = _one_repetition(search, held_out, models, gd_steps)
        for name, value in found.items():
            columns.setdefault(name, []).append(np.asarray(value))
    variables = {
        name: (("repetition", "step") if rows[0].ndim else ("repetition",), np.stack(rows))
        for name, rows in columns.items()
    }
    return xr.Dataset(variables, {"step": steps, "repetition": [one.seed for one in group]})
