"""Deep linear transformers in Gram form: L layers of linear attention without ever building an attention map.

Tokens are e = [x; y], sources of attention the N context tokens only, G = c Σ_i e_i e_iᵀ over them with c = 1/N or 1.
One layer maps every token, the query [x_q; 0] included, by

    e ← T e,   T = I + Σ_h V_h G K_h,   then   G ← T G Tᵀ,   and after the last layer   ŷ = −(label entry of the query):

the skip connection carries residuals, so the label slot ends at minus the prediction (von Oswald et al. 2023,
arXiv 2212.07677; Ahn et al. 2023, arXiv 2306.00297). A forward pass needs (G, x_q) and L products of small matrices,
whatever N is. `predict_tokens` is the same layer by layer on the tokens, as the check.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.model import AbstractModel
from ..core.prompt import Prompt
from .base import AbstractFeatureModel
from .chain_features import GramMonomials, full_features
from .features import MAX_FEATURES, Normalize, attention_scale
from .matrix_polynomials import constant, symmetric_matrix

FormT = TypeVar("FormT", bound="AbstractLinearTransformer")
LayerChange = Callable[[Float[Array, "entry entry"]], Float[Array, "entry entry"]]


class Layer(NamedTuple):
    """The maps of one layer, T = I + Σ_h V_h G K_h.

    Args:
        value: (head, entry, entry) V_h.
        key: (head, entry, entry) K_h.
    """

    value: Float[Array, "head entry entry"]
    key: Float[Array, "head entry entry"]


class GramPrompt(eqx.Module):
    """What a linear transformer reads of a prompt.

    Args:
        gram: (entry, entry) G over the context, with its factor c.
        query: (dim) x_q.
    """

    gram: Float[Array, "*batch entry entry"]
    query: Float[Array, "*batch dim"]


class AbstractLinearTransformer(AbstractModel):
    """Layers of linear attention; subclasses say what V_h and K_h are made of.

    `depth` layers are applied. Where there are weights for fewer (a tied model has one set), layer l takes the set
    l mod (number of sets), so that a looped model can be run for more loops than it was trained for.
    """

    multiplies_out: ClassVar[bool] = False  # G of every layer, also where applying it to vectors would be cheaper

    if TYPE_CHECKING:  # fields of every subclass, which has them after its weights
        depth: int
        normalize: Normalize

    @abstractmethod
    def layer_maps(self) -> list[Layer]:
        """The maps of every set of weights."""

    def layer_changes(self) -> list[LayerChange]:
        """For every set of weights the map from G to T − I = Σ_h V_h G K_h."""

        def change(layer: Layer, gram: Float[Array, "entry entry"]) -> Float[Array, "entry entry"]:
            return jnp.einsum("hij,jk,hkl->il", layer.value, gram, layer.key)

        return [partial(change, layer) for layer in self.layer_maps()]

    def looped(self: FormT, depth: int) -> FormT:
        """The same weights applied for another number of layers.

        Args:
            depth: how many.

        Returns:
            The model.
        """
        return dataclasses.replace(self, depth=depth)  # type: ignore[type-var]

    def summarize(self, prompt: Prompt) -> GramPrompt:
        """(G, x_q) of a prompt: all that a prediction depends on.

        Args:
            prompt: one prompt; masked pairs are left out, and c = 1/N counts those that are there.

        Returns:
            G and x_q.
        """
        tokens = jnp.concatenate([prompt.x, prompt.y], -1) * prompt.mask[:, None]
        scale = attention_scale(self.normalize, jnp.maximum(prompt.num_context(), 1))
        return GramPrompt(tokens.T @ tokens * scale, prompt.query)

    def predict(self, prompt: Prompt | GramPrompt) -> Float[Array, " output"]:
        return self.readouts(prompt)[-1:]

    def readouts(self, prompt: Prompt | GramPrompt) -> Float[Array, " layer"]:
        """The prediction after every layer.

        Args:
            prompt: one prompt, or what `summarize` makes of it.

        Returns:
            (depth) the predictions; the last one is `predict`'s.
        """
        read = prompt if isinstance(prompt, GramPrompt) else self.summarize(prompt)
        sets, changes = self.layer_maps(), self.layer_changes()
        gram, query = read.gram, jnp.append(read.query, 0.0).astype(read.query.dtype)
        layers = [sets[index % len(sets)] for index in range(self.depth)]
        whole = self.depth - 1 if self.multiplies_out else products_first(self.depth, len(gram), len(sets[0].value))
        answers = []
        for index, layer in enumerate(layers):
            first = min(index, whole)
            query = query + _attend(gram, layers[first:index], layer, query)
            answers.append(-query[-1])
            if index < whole:
                change = changes[index % len(changes)](gram)
                gram = gram + change @ gram
                gram = gram + gram @ change.T
        return jnp.stack(answers)

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"], *, causal: bool = False
    ) -> Float[Array, "tokens output"]:
        """The answers to every prefix of a sequence in one pass, from the Grams of all prefixes.

        Args:
            x: (tokens, dim) the inputs of all tokens.
            y: (tokens, 1) their labels as shown; the last one is not read.
            causal: whether context tokens are sources only for themselves and later ones, in every layer, as in a
                transformer with a causal mask. Else each prefix is a prompt of its own, whose tokens all attend to
                each other, as `predict` has it. With one layer these are the same.

        Returns:
            (tokens, 1) the prediction for each token from those before it; the first is from none.
        """
        tokens = jnp.concatenate([x, y], -1)
        if not causal:
            grams = _grams_before(tokens, self.normalize)[:-1]
            return jax.vmap(lambda gram, query: self.predict(GramPrompt(gram, query)))(grams, x)
        query, changes = tokens.at[:, -1].set(0.0), self.layer_changes()
        for index in range(self.depth):
            change = jax.vmap(changes[index % len(changes)])(_grams_before(tokens, self.normalize))
            query = query + jnp.einsum("tij,tj->ti", change[:-1], query)
            tokens = tokens + jnp.einsum("tij,tj->ti", change[1:], tokens)
        return -query[:, -1:]

    def predict_tokens(self, prompt: Prompt) -> Float[Array, " output"]:
        """As `predict`, token by token with the whole attention map: slow, and the check of the Gram form.

        Args:
            prompt: one prompt.

        Returns:
            (1) the prediction.
        """
        tokens, sets = prompt.tokens(), self.layer_maps()
        source = jnp.append(prompt.mask, False)
        scale = attention_scale(self.normalize, jnp.maximum(prompt.num_context(), 1))
        for index in range(self.depth):
            layer = sets[index % len(sets)]
            scores = jnp.einsum("mi,hij,nj->hnm", tokens, layer.key, tokens) * source
            tokens = tokens + scale * jnp.einsum("hnm,hij,mj->ni", scores, layer.value, tokens)
        return -tokens[-1, -1:]


def _grams_before(
    tokens: Float[Array, "tokens entry"], normalize: Normalize
) -> Float[Array, "tokens_and_end entry entry"]:
    """G over the tokens before each one, with its factor; the last one is over all tokens."""
    sums = jnp.cumsum(jnp.einsum("ti,tj->tij", tokens, tokens), 0)
    grams = jnp.concatenate([jnp.zeros_like(sums[:1]), sums])
    counts = jnp.maximum(jnp.arange(len(grams)), 1).astype(tokens.dtype)
    return grams / counts[:, None, None] if normalize == "context" else grams


def products_first(depth: int, entry: int, heads: int) -> int:
    """For how many layers G is multiplied out; from there on it is only applied to vectors.

    With H heads G_{l+1} = T_l G_l T_lᵀ takes 2H + 2 products of matrices. Applied to a vector, it takes 2H + 1
    applications of G_l, so that the last n layers cost ((2H+1)ⁿ − 1)/2 products of a matrix with a vector, each counted
    four times, because it reads a whole matrix for few multiplications (d = 10, one head, on a processor: 3 layers take
    8.4 ms a step without products and 14.5 ms with those of one layer, 5 layers 59, 35 and 35 ms with 1, 2 and 3).

    Args:
        depth: L.
        entry: rows of G.
        heads: H.

    Returns:
        The number of layers.

    >>> [products_first(depth, 11, 1) for depth in (1, 2, 4, 5, 6)]
    [0, 0, 1, 2, 3]
    """
    return min(range(depth), key=lambda m: (2 * heads + 2) * m * (entry + 1) + 2 * ((2 * heads + 1) ** (depth - m) - 1))


def _attend(
    gram: Float[Array, "entry entry"], before: Sequence[Layer], layer: Layer, token: Float[Array, " entry"]
) -> Float[Array, " entry"]:
    """Σ_h V_h G K_h e of a token e, with G as the layers `before` have left it."""
    read = [_apply(gram, before, key @ token) for key in layer.key]
    return sum((value @ seen for value, seen in zip(layer.value, read, strict=True)), jnp.zeros_like(token))


def _apply(
    gram: Float[Array, "entry entry"], before: Sequence[Layer], vector: Float[Array, " entry"]
) -> Float[Array, " entry"]:
    """G v, with G as the layers `before` have left it: T G Tᵀ v for the last of them."""
    if not before:
        return gram @ vector
    earlier, layer = before[:-1], before[-1]
    turned = Layer(jnp.swapaxes(layer.key, -1, -2), jnp.swapaxes(layer.value, -1, -2))  # Tᵀ = I + Σ_h K_hᵀ G V_hᵀ
    middle = _apply(gram, earlier, vector + _attend(gram, earlier, turned, vector))
    return middle + _attend(gram, earlier, layer, middle)


class FullTransformer(AbstractLinearTransformer, AbstractFeatureModel):
    """Blocks ``full``: V_h = (W_v W_o)ᵀ, K_h = W_k W_qᵀ with row vectors h·W, as in oswald2023's code.

    Args:
        query: (layer, head, entry, key) W_q.
        key: (layer, head, entry, key) W_k.
        value: (layer, head, entry, key) W_v.
        output: (layer, head, key, entry) W_o.
        depth: layers that are applied.
        normalize: factor on G.
    """

    query: Float[Array, "layer head entry key"]
    key: Float[Array, "layer head entry key"]
    value: Float[Array, "layer head entry key"]
    output: Float[Array, "layer head key entry"]
    depth: int = eqx.field(static=True)
    normalize: Normalize = eqx.field(static=True, default="none")

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        **dict.fromkeys(("query", "key", "value"), ("layer", "head", "entry", "key_entry")),
        "output": ("layer", "head", "key_entry", "entry"),
    }

    def layer_maps(self) -> list[Layer]:
        value = jnp.einsum("lhik,lhkj->lhji", self.value, self.output)
        key = jnp.einsum("lhik,lhjk->lhij", self.key, self.query)
        return [Layer(v, k) for v, k in zip(value, key, strict=True)]

    @property
    def feature_map(self) -> GramMonomials | None:
        dim = self.query.shape[2] - 1
        if full_features(dim, self.depth) > MAX_FEATURES:
            return None
        return GramMonomials(dim, 1, self.normalize, (3**self.depth - 1) // 2)

    def coefficients(self) -> Float[Array, "feature output"]:
        features, gram = self.feature_map, symmetric_matrix(self.query.shape[2], self.query.dtype)
        assert features is not None
        eye = constant(jnp.eye(self.query.shape[2], dtype=self.query.dtype), gram.variables)
        whole, sets = eye, self.layer_maps()
        for index in range(self.depth):  # as `readouts`, with polynomials of G
            layer = sets[index % len(sets)]
            changes = [gram.between(v, k) for v, k in zip(layer.value, layer.key, strict=True)]
            turn = eye + sum(changes[1:], changes[0])
            whole = turn @ whole
            if index + 1 < self.depth:
                gram = turn @ gram @ turn.T
        return features.unfold(whole)


class DiagonalTransformer(AbstractLinearTransformer):
    """Blocks ``diag``: x ← x + ω_xx S x + ω_xy y α, y ← y + ω_yx α·x + ω_yy λ y, four numbers a layer.

    S, α and λ are the blocks of G: inputs with inputs, inputs with labels, labels with labels (Vladymyrov et al. 2024,
    arXiv 2402.14180). ω_yx = −η and ω_xx = −γ are GD++; ω_xy and ω_yy let the steps depend on the noise.

    Args:
        omega: (layer, 4) ω_xx, ω_xy, ω_yx, ω_yy.
        dim: dimension of the inputs.
        depth: layers that are applied.
        normalize: factor on G.
    """

    omega: Float[Array, "layer four"]
    dim: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    normalize: Normalize = eqx.field(static=True, default="context")

    axes: ClassVar[dict[str, tuple[str, ...]]] = {"omega": ("layer", "block")}
    multiplies_out = True  # its V_h G K_h are products of numbers

    def layer_maps(self) -> list[Layer]:
        label = jnp.zeros((self.dim + 1, self.dim + 1), self.omega.dtype).at[-1, -1].set(1.0)
        inputs = jnp.eye(self.dim + 1, dtype=self.omega.dtype) - label
        value = jnp.stack([inputs, label])
        return [
            Layer(value, jnp.stack([xx * inputs + xy * label, yx * inputs + yy * label]))
            for xx, xy, yx, yy in self.omega
        ]

    def layer_changes(self) -> list[LayerChange]:
        """As of any linear transformer; here every entry of G is multiplied by the ω of its block."""
        rows = jnp.arange(self.dim + 1) == self.dim

        def change(four: Float[Array, " four"], gram: Float[Array, "entry entry"]) -> Float[Array, "entry entry"]:
            xx, xy, yx, yy = four
            return jnp.where(rows[:, None], jnp.where(rows, yy, yx), jnp.where(rows, xy, xx)) * gram

        return [partial(change, four) for four in self.omega]
