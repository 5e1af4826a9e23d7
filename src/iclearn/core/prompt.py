"""Prompts and batches of them: the arrays every model reads."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from . import jax_settings as jax_settings


class Prompt(eqx.Module):
    """One prompt: context pairs and a query.

    Functions take one prompt and are vmapped by the caller; a batch is the same object with a leading axis.

    Args:
        x: (context, dim) the inputs of the context.
        y: (context, output) their labels.
        query: (dim) the input whose label is asked for.
        mask: (context) which pairs are there: a prefix of a prompt is the prompt with the later pairs masked out.

    >>> prompt = full_prompt(jnp.ones((3, 2)), jnp.zeros((3, 1)), jnp.ones(2))
    >>> prompt.tokens().shape, float(prompt.num_context())
    ((4, 3), 3.0)
    """

    x: Float[Array, "*batch context dim"]
    y: Float[Array, "*batch context output"]
    query: Float[Array, "*batch dim"]
    mask: Bool[Array, "*batch context"]

    def tokens(self) -> Float[Array, "*batch tokens entry"]:
        """The prompt as attention reads it.

        Returns:
            (context + 1, dim + output) one row [x; y] for each context pair (zeros where it is masked out), and
            [query; 0] last.
        """
        context = jnp.concatenate([self.x, self.y], -1) * self.mask[..., None]
        label = jnp.zeros((*self.query.shape[:-1], self.y.shape[-1]), self.query.dtype)
        last = jnp.concatenate([self.query, label], -1)[..., None, :]
        return jnp.concatenate([context, last], -2)

    def num_context(self) -> Float[Array, "*batch"]:
        """How many context pairs there are, as a number of the precision of the prompt."""
        return self.mask.sum(-1).astype(self.query.dtype)


class Document(eqx.Module):
    """One document of softmax regression: context words with their probabilities, and query words without.

    A prediction is a probability for each query word.

    Args:
        context: (word, dim) embeddings of the words of the context.
        target: (word) their probabilities, positive and summing to one.
        query: (query_word, dim) embeddings of the words whose probabilities are asked for.
    """

    context: Float[Array, "*batch word dim"]
    target: Float[Array, "*batch word"]
    query: Float[Array, "*batch query_word dim"]


PromptT = TypeVar("PromptT")  # Prompt, Document, or what a model makes of one (`AbstractModel.summarize`)


class Batch(eqx.Module, Generic[PromptT]):
    """Prompts with their targets and weights. The loss is the weighted sum over prompts of their squared errors.

    Args:
        prompt: prompts with a leading axis.
        target: (prompts, output) the labels of the queries.
        weight: (prompts) weights that sum to one over the set of which the loss is the mean.
        unit: factor on the mean over outputs of the squared error of a prompt.
    """

    prompt: PromptT
    target: Float[Array, "prompts output"]
    weight: Float[Array, " prompts"]
    unit: float = eqx.field(static=True, default=1.0)


class SequenceBatch(eqx.Module):
    """Whole sequences, of which every prefix is a prompt, for models that answer all of them in one pass.

    The loss is the weighted sum over sequences of the mean squared error over their prefixes.

    Args:
        x: (prompts, tokens, dim) the inputs, the last one that of the longest prefix's query.
        y: (prompts, tokens, output) the labels as shown; the last one is not read.
        target: (prompts, tokens, output) what the answer to each input is measured against.
        weight: (prompts) weights that sum to one over the set of which the loss is the mean.
        first: pairs of the shortest prefix.
        share: (tokens) shares of inputs in the mean over prefixes, adding up to one (None: alike from `first` on).
    """

    x: Float[Array, "prompts tokens dim"]
    y: Float[Array, "prompts tokens output"]
    target: Float[Array, "prompts tokens output"]
    weight: Float[Array, " prompts"]
    first: int = eqx.field(static=True, default=0)
    share: Float[Array, " tokens"] | None = None


class FeatureBatch(eqx.Module):
    """As `Batch`, where only the features of each prompt are known (the public code's cubic features).

    Args:
        features: (prompts, feature) the features.
        target: (prompts, output) the labels of the queries.
        weight: (prompts) weights that sum to one over the set of which the loss is the mean.
    """

    features: Float[Array, "prompts feature"]
    target: Float[Array, "prompts output"]
    weight: Float[Array, " prompts"]


class HostBlock(NamedTuple):
    """Prompts of a set as arrays of numpy, the prompts last: what is summed over prompts without a compiled program.

    Args:
        tokens: (token, dim + output, prompt) inputs and labels as shown, the query included as the last token.
        truth: (token, output, prompt) the true labels.
    """

    tokens: np.ndarray
    truth: np.ndarray


def full_prompt(
    x: Float[Array, "*batch context dim"], y: Float[Array, "*batch context output"], query: Float[Array, "*batch dim"]
) -> Prompt:
    """The prompt (or batch of prompts) with all of its context pairs; see `Prompt`.

    Args:
        x: (context, dim) the inputs of the context.
        y: (context, output) their labels.
        query: (dim) the input whose label is asked for.

    Returns:
        The prompt, with a mask that is true everywhere.
    """
    return Prompt(x, y, query, jnp.ones(x.shape[:-1], bool))


def prefix_prompt(
    x: Float[Array, "prompts tokens dim"], y: Float[Array, "prompts tokens output"], context: Array | int
) -> Prompt:
    """Prompts cut after `context` pairs, the input of the next token being the query.

    Args:
        x: (prompts, tokens, dim) the inputs of all tokens, the last one never being a context pair.
        y: (prompts, tokens, output) their labels.
        context: how many pairs each prompt keeps; may be traced.

    Returns:
        A batch of prompts whose arrays have room for tokens − 1 pairs, of which the first `context` are there.
    """
    mask = jnp.broadcast_to(jnp.arange(x.shape[1] - 1) < context, (x.shape[0], x.shape[1] - 1))
    return Prompt(x[:, :-1], y[:, :-1], x[:, context], mask)


class WhiteDocuments(NamedTuple):
    """Documents of white Gaussian words, the context centered, as many query words as the context has.

    Drawn from one key, which is split in two: the words by `normal_pair` from the first, (document, word,
    dim) of the context and of the query; from the second standard normals (document, dim), x in this direction.

    Args:
        words: n of the context, and of the query.
        scale: ‖x‖; may be traced.
    """

    words: int
    scale: Any


class DocumentReader(NamedTuple):
    """A model of documents that attends once, with softmax, to the words e_i = (a_i, y_i) of the context.

    Either a learned token attends, x̂ = M Σ_i softmax_i(v·e_i) e_i with logits A_q x̂; or each query word a_q does, with
    the logit v·Σ_i softmax_i(a_qᵀM e_i) e_i.

    Args:
        vector: (entry) v.
        matrix: (dim, entry) M.
        labels: ``log`` where y_i = log b_i − mean, ``raw`` where y_i = n b_i − 1.
        query: whether the query words attend.
    """

    vector: Any
    matrix: Any
    labels: str
    query: bool


class WhitePrompts(NamedTuple):
    """Fresh prompts of white Gaussian inputs and labels w·x without noise, drawn by `core.rng.paired_normals`.

    A block of prompts is drawn from the keys `split(fold_in(key, 0))`: standard normal inputs (prompt, token, dim) from
    the first, standard normal vectors (prompt, dim) from the second, to which `mean` is added to give w.

    Args:
        context: pairs of a prompt.
        mean: (dim) of the task vectors w.
    """

    context: int
    mean: np.ndarray
