"""Softmax attention layers that answer a softmax regression document (li2024), and a unit that can be stacked.

The paper's own layer is not public. Its parametrization decides whether it is close to a gradient step, so three are
offered: A (``log_label``), B (``query``) and C (``raw_label``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.checks import check_int, require
from ..core.model import AbstractModel, AbstractModelSpec, checked_weights
from ..core.prompt import Document, DocumentReader
from ..core.recipe import Init
from ..core.rng import standard_normals, stream
from ..core.task import AbstractTask

Form = Literal["log_label", "query", "raw_label", "stack"]
Labels = Literal["log", "raw"]
_DIAGONAL = 0.7  # of the initial key and query weights
_QUERY_START = (0.15, 3.0)  # of layer B, W = .15 (I, 0) and v = 3 e_y: the limit it shares with a gradient step, nearly


class AbstractDocumentModel(AbstractModel):
    """A model of documents: a logit for each query word, softmax over them."""

    prompt_type: ClassVar[type] = Document

    @abstractmethod
    def logits(self, document: Document) -> Float[Array, " query_word"]:
        """The logits of the query words; each depends on its word and the context, not on the other query words.

        Args:
            document: one document, without a batch axis.

        Returns:
            (query_word) the logits.
        """

    def predict(self, prompt: Document) -> Float[Array, " output"]:  # type: ignore[override]
        return jax.nn.softmax(self.logits(prompt))

    def sensitivity(self, prompt: Document) -> Float[Array, "query_word dim"]:
        """∂logit/∂embedding of each query word: the weights x̂ themselves where the model is softmax(A_q x̂).

        Args:
            prompt: one document, without a batch axis.

        Returns:
            (query_word, dim) the derivatives.
        """

        def total(query: Array) -> Array:
            return self.logits(eqx.tree_at(lambda d: d.query, prompt, query)).sum()

        return jax.grad(total)(prompt.query)


class AbstractWeightEstimator(AbstractDocumentModel):
    """A model that amounts to softmax regression with weights x̂ that it reads off the context: logits A_q x̂."""

    @abstractmethod
    def estimate(self, document: Document) -> Float[Array, " dim"]:
        """The weights of the softmax regression that the model amounts to.

        Args:
            document: one document, without a batch axis.

        Returns:
            (dim) x̂.
        """

    def logits(self, document: Document) -> Float[Array, " query_word"]:
        return document.query @ self.estimate(document)


def tokens(document: Document, labels: Labels) -> Float[Array, "word entry"]:
    """(a_i, y_i) for each word of the context: its embedding and a label made of its probability b_i.

    Args:
        document: one document, without a batch axis.
        labels: ``log`` for y_i = log b_i − mean, ``raw`` for y_i = n b_i − 1.

    Returns:
        (word, dim + 1) the tokens.
    """
    b = document.target
    y = jnp.log(b) - jnp.log(b).mean() if labels == "log" else b.shape[0] * b - 1
    return jnp.concatenate([document.context, y[:, None]], -1)


class LabelAttention(AbstractWeightEstimator):
    """Layers A and C: x̂ = V Σ_i softmax_i(qᵀK e_i) e_i for a learned query token q and the words e_i; logits A_q x̂.

    With log labels, qᵀK = (0, 1) and V = (η/n)(I, 0) it is one gradient step of length η from x = 0, exactly; with raw
    labels no weights make it one.

    Args:
        query: (entry) q.
        key: (entry, entry) K.
        value: (dim, entry) V.
        labels: of the words (`tokens`).
    """

    query: Float[Array, " entry"]
    key: Float[Array, "entry key_entry"]
    value: Float[Array, "dim entry"]
    labels: Labels = eqx.field(static=True, default="log")

    axes: ClassVar = {"query": ("entry",), "key": ("entry", "key_entry"), "value": ("input", "entry")}

    def document_reader(self) -> DocumentReader:
        return DocumentReader(self.query @ self.key, self.value, self.labels, query=False)

    def estimate(self, document: Document) -> Float[Array, " dim"]:
        words = tokens(document, self.labels)
        return self.value @ (jax.nn.softmax(words @ (self.query @ self.key)) @ words)


class QueryAttention(AbstractDocumentModel):
    """Layer B: each query word attends to the words (a_i, n b_i − 1); its logit is the value read there.

    logit_q = v · Σ_i softmax_i(a_qᵀ W e_i) e_i, the usual form of in-context layers. No weights make it a gradient
    step, which is its limit for W = ε(I, 0), v = (0, η/(nε)), ε → 0.

    Args:
        kq: (dim, entry) W.
        value: (entry) v.
    """

    kq: Float[Array, "dim entry"]
    value: Float[Array, " entry"]

    axes: ClassVar = {"kq": ("input", "entry"), "value": ("entry",)}

    def document_reader(self) -> DocumentReader:
        return DocumentReader(self.value, self.kq, "raw", query=True)

    def logits(self, document: Document) -> Float[Array, " query_word"]:
        words = tokens(document, "raw")
        scores = document.query @ (self.kq @ words.T)
        return jax.nn.softmax(scores, axis=-1) @ (words @ self.value)


def attention_unit(
    rows: Float[Array, "row entry"],
    words: Float[Array, "word entry"],
    kq: Float[Array, "head entry key_entry"],
    value: Float[Array, "head entry key_entry"],
) -> Float[Array, "row entry"]:
    """rows + Σ_h softmax(rows KQ_h wordsᵀ) words V_hᵀ: softmax attention of any rows to words, with a residual.

    Args:
        rows: (row, entry) what attends.
        words: (word, entry) what is attended to.
        kq: (head, entry, entry) KQ_h.
        value: (head, entry, entry) V_h.

    Returns:
        (row, entry) the new rows.
    """
    scores = jnp.einsum("re,hek,wk->hrw", rows, kq, words)
    return rows + jnp.einsum("hrw,wk,hek->re", jax.nn.softmax(scores, axis=-1), words, value)


class StackedAttention(AbstractWeightEstimator):
    """Units of softmax self-attention on the words (a_i, log b_i − mean) and a learned state token that reads them.

    The state's first entries after the last unit are x̂; logits A_q x̂. One unit with one head is layer A (with the
    residual of the state); two heads can also attend by a_i·x̂, which a second gradient step needs.

    Args:
        state: (entry) the state token before the first unit.
        kq: (layer, head, entry, entry) KQ_h of each unit (`attention_unit`).
        value: (layer, head, entry, entry) V_h of each unit.
    """

    state: Float[Array, " entry"]
    kq: Float[Array, "layer head entry key_entry"]
    value: Float[Array, "layer head entry key_entry"]

    axes: ClassVar = {
        "state": ("entry",),
        "kq": ("layer", "head", "entry", "key_entry"),
        "value": ("layer", "head", "entry", "key_entry"),
    }

    def estimate(self, document: Document) -> Float[Array, " dim"]:
        words, state = tokens(document, "log"), self.state[None]
        for kq, value in zip(self.kq, self.value, strict=True):
            state, words = attention_unit(state, words, kq, value), attention_unit(words, words, kq, value)
        return state[0, :-1]


@dataclass(frozen=True)
class SoftmaxLayer(AbstractModelSpec, kind="softmax_layer"):
    """A softmax attention layer for softmax regression (li2024).

    Args:
        form: ``log_label`` (A) and ``raw_label`` (C) are `LabelAttention`, ``query`` (B) is `QueryAttention`, ``stack``
            is `StackedAttention`.
        depth: units of a stack.
        num_heads: heads of its units.

    >>> import iclearn as icl
    >>> task = icl.SoftmaxRegression(context_len=5, dim=2, num_prompts=1)
    >>> model = SoftmaxLayer("log_label").initial(task, icl.Init(), 0, "float64")
    >>> document = jax.tree.map(lambda a: a[0], task.source(0, "float64").everything().prompt)
    >>> round(float(model.predict(document).sum()), 6)
    1.0
    """

    form: Form = "log_label"
    depth: int = 1
    num_heads: int = 1

    def __post_init__(self) -> None:
        check_int("depth", self.depth, 1)
        check_int("num_heads", self.num_heads, 1)
        fit = self.form == "stack" or (self.depth, self.num_heads) == (1, 1)
        require(fit, f"a {self.form} layer has depth 1 and one head: for more choose form stack")

    def describe(self) -> str:
        units = f" {self.depth}×{self.num_heads}" if self.form == "stack" else ""
        return f"softmax layer {self.form}{units}"

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractDocumentModel:
        """Attention starts near the labels (q = .7 e_y, K = .7 I), values at zero, each plus init.scale · N(0, 1).

        Layer B starts from W = .15 (I, 0) and v = 3 e_y likewise: from v = 0 it stays further from the gradient step.
        For the arguments see `AbstractModelSpec.initial`.
        """
        reads = task.prompt_type is Document
        require(reads, f"a {self.kind} reads softmax regression documents, not prompts of {task.kind}")
        require(init.scheme != "given", "this recipe starts from given weights: pass them as weights=")
        dim, entry = task.dim, task.dim + 1
        label, square = _DIAGONAL * jnp.eye(entry)[-1], _DIAGONAL * jnp.eye(entry)
        if self.form == "query":
            start = {"kq": _QUERY_START[0] * jnp.eye(dim, entry), "value": _QUERY_START[1] * jnp.eye(entry)[-1]}
        elif self.form == "stack":
            stack = (self.depth, self.num_heads, entry, entry)
            start = {"state": label, "kq": jnp.broadcast_to(square, stack), "value": jnp.zeros(stack)}
        else:
            start = {"query": label, "key": square, "value": jnp.zeros((dim, entry))}
        noise = standard_normals(stream(seed, "init"), tuple(a.shape for a in start.values()))
        noisy = {name: a + init.scale * z for (name, a), z in zip(start.items(), noise, strict=True)}
        return self.rebuild(dim, {name: jnp.asarray(a, dtype) for name, a in noisy.items()})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractDocumentModel:
        cls: Any = {"query": QueryAttention, "stack": StackedAttention}.get(self.form, LabelAttention)
        static: Any = {"labels": "log" if self.form == "log_label" else "raw"} if cls is LabelAttention else {}
        return cls(**checked_weights(cls.axes, weights, f"a {self.form} layer"), **static)
