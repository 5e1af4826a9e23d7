"""Deep attention that is not linear: softmax, LayerNorm, MLP, interleaved tokens (the public code of oswald2023).

Row vectors, h ← h + λ Attn(LN₁(h)), then h ← h + λ MLP(LN₂(h)); every token asks, only the context answers. The
prediction is minus the last channel of the last token. Options left at their defaults give the linear transformer with
blocks ``full``, token by token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import check_int, require
from ..core.model import AbstractModel, AbstractModelSpec, checked_weights
from ..core.prompt import Prompt
from ..core.recipe import Init
from ..core.rng import cut_normals, standard_normals, stream
from ..core.task import AbstractTask

NORM_EPS = 1e-5
LIMIT = 10.0  # to which activations are clipped where there are more than three layers
_WIDE, _BIAS, _NARROW = ("layer", "entry", "key_entry"), ("layer", "key_entry"), ("layer", "entry")
AXES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("query", "key", "value"), _WIDE), "output": ("layer", "key_entry", "entry"),
    **dict.fromkeys(("query_bias", "key_bias", "value_bias"), _BIAS), "output_bias": _NARROW,
    **dict.fromkeys(("norm_scale", "norm_offset"), ("later_layer", "entry")),
    "wide": ("mlp", "entry", "hidden"), "wide_bias": ("mlp", "hidden"),
    "narrow": ("mlp", "hidden", "entry"), "narrow_bias": ("mlp", "entry"),
    **dict.fromkeys(("mlp_norm_scale", "mlp_norm_offset"), ("mlp", "entry")),
}  # fmt: skip


@dataclass(frozen=True)
class DeepAttention(AbstractModelSpec, kind="deep_attention"):
    """Layers of softmax or linear attention with LayerNorm and an MLP where asked for, as in oswald2023's public code.

    Args:
        layers: L.
        num_heads: H.
        key_size: width of a head (None: the width of a token).
        tied: one set of weights for all layers.
        softmax: softmax over the context, of scores divided by √key_size, in every layer.
        first_softmax: in the first layer only.
        layer_norm: LayerNorm before every attention but the first, and before the MLP.
        mlp: an MLP (4 × wide, gelu in its tanh form) after every attention.
        share_mlp: one MLP, and one LayerNorm before it, for all layers, as the names in the public code make it.
        bias: whether the projections of attention have biases.
        interleaved: tokens x_1, (0, …, 0, y_1), x_2, …, x_q instead of [x; y].
        positions: channels of sinusoidal positions appended to every token (0: none).
        dampening: λ.
        clip: clip activations to ±10 after every sum where there are more than three layers, as the public code does.

    Weights start from a normal cut off at ±2 with standard deviation √(scale/fan_in)/.8796 (`Init.scale`; the public
    code's is .002/L, .02/L for interleaved tokens), biases at 0, LayerNorms at 1 and 0.

    >>> DeepAttention(layers=2, num_heads=2, softmax=True, mlp=True).describe()
    'deep attention L=2 H=2 softmax mlp'
    """

    layers: int = 1
    num_heads: int = 1
    key_size: int | None = None
    tied: bool = False
    softmax: bool = False
    first_softmax: bool = False
    layer_norm: bool = False
    mlp: bool = False
    share_mlp: bool = True
    bias: bool = False
    interleaved: bool = False
    positions: int = 0
    dampening: float = 1.0
    clip: bool = True

    def __post_init__(self) -> None:
        check_int("layers", self.layers, 1)
        check_int("num_heads", self.num_heads, 1)
        check_int("positions", self.positions, 0)
        if self.key_size is not None:
            check_int("key_size", self.key_size, 1)
        require(0 < self.dampening <= 1, f"dampening must be in (0, 1], not {self.dampening}")

    def describe(self) -> str:
        flags = ("tied", "softmax", "first_softmax", "layer_norm", "mlp", "interleaved")
        words = " ".join(name for name in flags if getattr(self, name))
        return f"deep attention L={self.layers} H={self.num_heads} {words}".strip()

    def shapes(self, dim: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights that this model has.

        Args:
            dim: dimension of the inputs.

        Returns:
            Name → shape.
        """
        entry = dim + self.positions + (0 if self.interleaved else 1)
        key, sets, hidden = self.num_heads * (self.key_size or entry), 1 if self.tied else self.layers, 4 * entry
        units = 1 if self.share_mlp or self.tied else self.layers
        found: dict[str, tuple[int, ...]] = dict.fromkeys(("query", "key", "value"), (sets, entry, key))
        found["output"] = (sets, key, entry)
        if self.bias:
            found |= dict.fromkeys(("query_bias", "key_bias", "value_bias"), (sets, key))
            found["output_bias"] = (sets, entry)
        if self.layer_norm and self.layers > 1:
            found |= dict.fromkeys(("norm_scale", "norm_offset"), (1 if self.tied else self.layers - 1, entry))
        if self.mlp:
            found |= {"wide": (units, entry, hidden), "wide_bias": (units, hidden)}
            found |= {"narrow": (units, hidden, entry), "narrow_bias": (units, entry)}
            if self.layer_norm:
                found |= dict.fromkeys(("mlp_norm_scale", "mlp_norm_offset"), (units, entry))
        return found

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> DeepAttentionModel:
        require(task.out_dim == 1, f"deep attention has one output; this task has {task.out_dim}")
        scheme = "deep attention draws its weights as init scheme per_head"
        require(init.scheme in ("per_head", "given"), f"{scheme}, not {init.scheme}")
        shapes = self.shapes(task.dim)
        weights = {}
        normals = standard_normals(stream(seed, "init"), tuple(shapes.values()))
        for (name, shape), z in zip(shapes.items(), normals, strict=True):
            if name.endswith(("bias", "offset")):
                weights[name] = jnp.zeros(shape, dtype)
            elif name.endswith("scale"):
                weights[name] = jnp.ones(shape, dtype)
            else:
                weights[name] = jnp.asarray(cut_normals(z) * jnp.sqrt(init.scale / shape[-2]), dtype)
        return self.rebuild(task.dim, weights)

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> DeepAttentionModel:
        arrays = checked_weights(self.shapes(dim), weights, "this deep attention")
        return DeepAttentionModel(**arrays, spec=self, depth=self.layers)


class DeepAttentionModel(AbstractModel):
    """The weights of a `DeepAttention`; those that its options leave out are None.

    Args:
        query: (layer, entry, heads · key) W_q; heads are consecutive blocks of columns, as of `key` and `value`.
        key: W_k.
        value: W_v.
        output: (layer, heads · key, entry) W_o.
        spec: the options.
        depth: layers that are applied.
        query_bias: (layer, heads · key), as `key_bias` and `value_bias`.
        key_bias: see `query_bias`.
        value_bias: see `query_bias`.
        output_bias: (layer, entry).
        norm_scale: (layer − 1, entry) of the LayerNorms before attention.
        norm_offset: as `norm_scale`.
        wide: (mlp, entry, hidden) first matrix of the MLP.
        wide_bias: (mlp, hidden).
        narrow: (mlp, hidden, entry) its second matrix.
        narrow_bias: (mlp, entry).
        mlp_norm_scale: (mlp, entry) of the LayerNorm before the MLP.
        mlp_norm_offset: as `mlp_norm_scale`.
    """

    query: Float[Array, "layer entry key"]
    key: Float[Array, "layer entry key"]
    value: Float[Array, "layer entry key"]
    output: Float[Array, "layer key entry"]
    spec: DeepAttention = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    query_bias: Float[Array, "layer key"] | None = None
    key_bias: Float[Array, "layer key"] | None = None
    value_bias: Float[Array, "layer key"] | None = None
    output_bias: Float[Array, "layer entry"] | None = None
    norm_scale: Float[Array, "later entry"] | None = None
    norm_offset: Float[Array, "later entry"] | None = None
    wide: Float[Array, "mlp entry hidden"] | None = None
    wide_bias: Float[Array, "mlp hidden"] | None = None
    narrow: Float[Array, "mlp hidden entry"] | None = None
    narrow_bias: Float[Array, "mlp entry"] | None = None
    mlp_norm_scale: Float[Array, "mlp entry"] | None = None
    mlp_norm_offset: Float[Array, "mlp entry"] | None = None

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:  # type: ignore[override]
        return {name: axes for name, axes in AXES.items() if getattr(self, name) is not None}

    def tokens(self, prompt: Prompt) -> tuple[Float[Array, "tokens entry"], Array]:
        """The tokens as the first layer reads them, and which of them answer.

        Args:
            prompt: one prompt.

        Returns:
            (tokens, entry) the tokens, the query last, and (tokens) whether each is a source of attention.
        """
        if not self.spec.interleaved:
            tokens, source = prompt.tokens(), jnp.append(prompt.mask, False)
        else:
            labels = jnp.zeros_like(prompt.x).at[:, -1].set(prompt.y[:, 0])
            pairs = jnp.stack([prompt.x, labels], 1) * prompt.mask[:, None, None]
            tokens = jnp.concatenate([pairs.reshape(-1, prompt.x.shape[1]), prompt.query[None]])
            source = jnp.append(jnp.repeat(prompt.mask, 2), False)
        if self.spec.positions:
            code = jnp.asarray(position_code(tokens.shape[0], self.spec.positions), tokens.dtype)
            tokens = jnp.concatenate([tokens, code], -1)
        return tokens, source

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        h, source = self.tokens(prompt)
        for index in range(self.depth):
            h = self.layer(h, source, index)
        return -h[-1, -1:]

    def layer(self, h: Float[Array, "tokens entry"], source: Array, index: int) -> Float[Array, "tokens entry"]:
        """One layer.

        Args:
            h: (tokens, entry) the tokens.
            source: (tokens) which of them answer.
            index: of the layer.

        Returns:
            (tokens, entry) the tokens after it.
        """
        spec, at = self.spec, index % self.query.shape[0]
        read = h
        if self.norm_scale is not None and self.norm_offset is not None and index > 0:
            later = (index - 1) % self.norm_scale.shape[0]
            read = layer_norm(h, self.norm_scale[later], self.norm_offset[later])
        h = self._kept(h + spec.dampening * self._attention(read, source, at, spec.softmax or _first(spec, index)))
        if self.wide is None:
            return h
        assert self.wide_bias is not None
        assert self.narrow is not None
        assert self.narrow_bias is not None
        unit, read = index % self.wide.shape[0], h
        if self.mlp_norm_scale is not None and self.mlp_norm_offset is not None:
            read = layer_norm(h, self.mlp_norm_scale[unit], self.mlp_norm_offset[unit])
        hidden = jax.nn.gelu(read @ self.wide[unit] + self.wide_bias[unit], approximate=True)
        return self._kept(h + spec.dampening * (hidden @ self.narrow[unit] + self.narrow_bias[unit]))

    def _kept(self, h: Float[Array, "tokens entry"]) -> Float[Array, "tokens entry"]:
        return jnp.clip(h, -LIMIT, LIMIT) if self.spec.clip and self.depth > 3 else h

    def _attention(
        self, h: Float[Array, "tokens entry"], source: Array, at: int, softmax: bool
    ) -> Float[Array, "tokens entry"]:
        def project(weight: Array, bias: Array | None) -> Float[Array, "tokens head key"]:
            rows = h @ weight[at] + (0 if bias is None else bias[at])
            return rows.reshape(h.shape[0], self.spec.num_heads, -1)

        q, k = project(self.query, self.query_bias), project(self.key, self.key_bias)
        v = project(self.value, self.value_bias)
        scores = jnp.einsum("nhk,mhk->hnm", q, k)
        if softmax:
            scores = jax.nn.softmax(jnp.where(source, scores / k.shape[-1] ** 0.5, -jnp.inf), axis=-1)
        read = jnp.einsum("hnm,mhk->nhk", scores * source, v).reshape(h.shape[0], -1)
        return read @ self.output[at] + (0 if self.output_bias is None else self.output_bias[at])


def _first(spec: DeepAttention, index: int) -> bool:
    return spec.first_softmax and index == 0


def layer_norm(
    h: Float[Array, "tokens entry"], scale: Float[Array, " entry"], offset: Float[Array, " entry"]
) -> Float[Array, "tokens entry"]:
    """Every token with mean 0 and (biased) variance 1 over its entries, times `scale` plus `offset`.

    Args:
        h: (tokens, entry) the tokens.
        scale: (entry).
        offset: (entry).

    Returns:
        (tokens, entry) the normalized tokens.
    """
    centered = h - h.mean(-1, keepdims=True)
    return centered / jnp.sqrt((centered**2).mean(-1, keepdims=True) + NORM_EPS) * scale + offset


def position_code(tokens: int, channels: int) -> np.ndarray:
    """Sinusoidal positions: sin (even channels) and cos (odd) of t·10000^(−2i/channels), i counting pairs of channels.

    Args:
        tokens: how many.
        channels: their width.

    Returns:
        (tokens, channels) the code.

    >>> position_code(2, 2).round(3)
    array([[0.   , 1.   ],
           [0.841, 0.54 ]])
    """
    channel = np.arange(channels)
    angle = np.arange(tokens)[:, None] * 10000.0 ** (-2 * (channel // 2) / channels)
    return np.where(channel % 2 == 0, np.sin(angle), np.cos(angle))
