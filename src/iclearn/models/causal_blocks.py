"""The forward pass of a `CausalTransformer`: many sequences at once, in few and large products.

What makes it quick and changes no number but by rounding: scale and offset of a norm are folded into the matrix that
follows; the last block answers at input tokens only, half of them all.
"""

from __future__ import annotations

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.checks import require
from ..core.model import AbstractModel
from ..core.prompt import Prompt

Positions = Literal["learned", "rotary", "none"]
Norm = Literal["layer", "rms", "none"]
Products = Literal["full", "tf32", "bfloat16"]

NORM_EPS = 1e-5
ROTARY_BASE = 10_000.0
_UNIT, _ROW = ("layer", "entry"), ("entry",)
AXES: dict[str, tuple[str, ...]] = {
    "embed": ("token_entry", "entry"), "embed_bias": _ROW, "position": ("position", "entry"),
    "first_scale": _UNIT, "first_offset": _UNIT, "qkv": ("layer", "entry", "qkv_entry"),
    "qkv_bias": ("layer", "qkv_entry"), "merge": ("layer", "head_entry", "entry"), "merge_bias": _UNIT,
    "second_scale": _UNIT, "second_offset": _UNIT, "expand": ("layer", "entry", "hidden"),
    "expand_bias": ("layer", "hidden"), "contract": ("layer", "hidden", "entry"), "contract_bias": _UNIT,
    "final_scale": _ROW, "final_offset": _ROW, "read_out": ("entry", "output"), "read_bias": ("output",),
}  # fmt: skip


class CausalModel(AbstractModel):
    """The weights of a `CausalTransformer`; those that its options leave out are None. Matrices are (in, out).

    Args:
        embed: (token_entry, entry) embedding; its first row is that of labels.
        qkv: (layer, entry, 3 · entry) queries, keys and values in this order, heads in consecutive columns.
        qkv_bias: (layer, 3 · entry).
        merge: (layer, entry, entry) output matrix of attention.
        merge_bias: (layer, entry).
        expand: (layer, entry, hidden) first matrix of the MLP.
        expand_bias: (layer, hidden).
        contract: (layer, hidden, entry) its second matrix.
        contract_bias: (layer, entry).
        read_out: (entry, output).
        num_heads: heads.
        precision: of the products.
        rotary: whether queries and keys are turned by their positions.
        centered: whether norms take the mean off (LayerNorm).
        shared_entries: whether labels and inputs share entries of a token.
        embed_bias: (entry).
        position: (position, entry) learned positions.
        first_scale: (layer, entry) of the norms before attention.
        first_offset: (layer, entry).
        second_scale: (layer, entry) of the norms before the MLP.
        second_offset: (layer, entry).
        final_scale: (entry) of the last norm.
        final_offset: (entry).
        read_bias: (output).

    >>> import iclearn as icl
    >>> task = icl.tasks.PooledRegression(dim=2, context_len=3)
    >>> model = icl.CausalTransformer(layers=1, width=8).initial(task, icl.Init(0.02), 0, "float64")
    >>> model.predict_prefixes(jnp.ones((4, 2)), jnp.ones((4, 1))).shape
    (4, 1)
    """

    embed: Float[Array, "token_entry entry"]
    qkv: Float[Array, "layer entry qkv_entry"]
    qkv_bias: Float[Array, "layer qkv_entry"]
    merge: Float[Array, "layer head_entry entry"]
    merge_bias: Float[Array, "layer entry"]
    expand: Float[Array, "layer entry hidden"]
    expand_bias: Float[Array, "layer hidden"]
    contract: Float[Array, "layer hidden entry"]
    contract_bias: Float[Array, "layer entry"]
    read_out: Float[Array, "entry output"]
    num_heads: int = eqx.field(static=True)
    precision: str = eqx.field(static=True)
    rotary: bool = eqx.field(static=True)
    centered: bool = eqx.field(static=True)
    shared_entries: bool = eqx.field(static=True)
    embed_bias: Float[Array, " entry"] | None = None
    position: Float[Array, "position entry"] | None = None
    first_scale: Float[Array, "layer entry"] | None = None
    first_offset: Float[Array, "layer entry"] | None = None
    second_scale: Float[Array, "layer entry"] | None = None
    second_offset: Float[Array, "layer entry"] | None = None
    final_scale: Float[Array, " entry"] | None = None
    final_offset: Float[Array, " entry"] | None = None
    read_bias: Float[Array, " output"] | None = None

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:  # type: ignore[override]
        return {name: axes for name, axes in AXES.items() if getattr(self, name) is not None}

    @property
    def one_pass(self) -> bool:
        return True

    @property
    def large_products(self) -> bool:
        return True

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        count = prompt.mask.sum()  # the pairs that are there come first, the query after them
        x = jnp.concatenate([prompt.x, prompt.query[None]]).at[count].set(prompt.query)
        y = jnp.concatenate([prompt.y, jnp.zeros_like(prompt.y[:1] if len(prompt.y) else x[:1, :1])])
        return self.predict_prefixes(x, y)[count]

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        return self.predict_sequences(x[None], y[None])[0]

    def predict_sequences(
        self, x: Float[Array, "prompts tokens dim"], y: Float[Array, "prompts tokens output"]
    ) -> Float[Array, "prompts tokens output"]:
        h = self.embedded(x, y)
        for index in range(self.qkv.shape[0]):
            h = self.block(h, index, last=index == self.qkv.shape[0] - 1)
        matrix, bias = self._folded(self.read_out, self.read_bias, self.final_scale, self.final_offset)
        answers = jnp.matmul(self._normalized(h), matrix, precision="highest")
        return answers if bias is None else answers + bias

    def embedded(
        self, x: Float[Array, "prompts tokens dim"], y: Float[Array, "prompts tokens output"]
    ) -> Float[Array, "prompts positions entry"]:
        """The tokens x_1, y_1, x_2, … as the first block reads them; the last label is left out.

        Args:
            x: (prompts, tokens, dim) the inputs.
            y: (prompts, tokens, 1) the labels.

        Returns:
            (prompts, 2 · tokens, entry) the embedded tokens with their positions.
        """
        prompts, tokens = x.shape[:2]
        inputs = jnp.matmul(x, self.embed if self.shared_entries else self.embed[1:], precision="highest")
        labels = y.at[:, -1].set(0) * self.embed[0]
        h = jnp.stack([inputs, labels], 2).reshape(prompts, 2 * tokens, -1)
        h = h if self.embed_bias is None else h + self.embed_bias
        if self.position is None:
            return h
        room = self.position.shape[0]
        fits = f"positions were learned for {room // 2} inputs, and these sequences have {tokens}"
        require(2 * tokens <= room, f"{fits}: choose positions rotary or none for longer ones")
        return h + self.position[: 2 * tokens]

    def block(
        self, h: Float[Array, "prompts positions entry"], index: int, *, last: bool = False
    ) -> Float[Array, "prompts asked entry"]:
        """One block: attention and MLP, each added to what it reads.

        Args:
            h: (prompts, positions, entry) the tokens.
            index: of the block.
            last: whether only input tokens (0, 2, 4, …) are asked for.

        Returns:
            (prompts, positions, entry) the tokens after it, or (prompts, positions / 2, entry) the input tokens.
        """
        stride, width = 2 if last else 1, h.shape[-1]
        at = lambda weight: None if weight is None else weight[index]  # noqa: E731
        read = self._normalized(h)
        matrix, bias = self._folded(self.qkv[index], self.qkv_bias[index], at(self.first_scale), at(self.first_offset))
        if last:
            queries = self._product(read[:, ::2], matrix[:, :width], bias[:width])
            keys, values = jnp.split(self._product(read, matrix[:, width:], bias[width:]), 2, -1)
        else:
            queries, keys, values = jnp.split(self._product(read, matrix, bias), 3, -1)
        mixed = self._attention(queries, keys, values, stride)
        h = h[:, ::stride] + self._product(mixed, self.merge[index], self.merge_bias[index], wide=True)
        scale, offset = at(self.second_scale), at(self.second_offset)
        matrix, bias = self._folded(self.expand[index], self.expand_bias[index], scale, offset)
        hidden = jax.nn.gelu(self._product(self._normalized(h), matrix, bias), approximate=True)
        return h + self._product(hidden, self.contract[index], self.contract_bias[index], wide=True)

    def _attention(self, queries: Array, keys: Array, values: Array, stride: int) -> Array:
        """Softmax attention of every token (or every second one) to itself and those before it."""
        heads, size = self.num_heads, queries.shape[-1] // self.num_heads
        split = lambda rows: rows.reshape(*rows.shape[:2], heads, size)  # noqa: E731
        q, k, v = split(queries), split(keys), split(values)
        asked, asking = jnp.arange(k.shape[1]), stride * jnp.arange(q.shape[1])
        if self.rotary:
            q, k = turned(q, asking), turned(k, asked)
        options = self._options(wide=True)
        scores = jnp.einsum("pqhd,pkhd->phqk", q, k, **options) * size**-0.5
        before = asked <= asking[:, None]
        weights = jax.nn.softmax(jnp.where(before, scores, -jnp.inf), axis=-1).astype(v.dtype)
        return jnp.einsum("phqk,pkhd->pqhd", weights, v, **self._options()).reshape(queries.shape)

    def _normalized(self, h: Array) -> Array:
        if self.final_scale is None:
            return h
        if self.centered:
            h = h - h.mean(-1, keepdims=True)
        return h * jax.lax.rsqrt((h * h).mean(-1, keepdims=True) + NORM_EPS)

    def _folded(self, matrix: Array, bias: Any, scale: Array | None, offset: Array | None) -> tuple[Array, Any]:
        """The matrix and bias that do to a normalized row what norm and product do together."""
        if offset is not None:
            carried = jnp.matmul(offset, matrix, precision="highest")
            bias = carried if bias is None else bias + carried
        return matrix if scale is None else scale[:, None] * matrix, bias

    def _options(self, wide: bool = False) -> dict[str, Any]:
        """How products are computed; `wide` where bfloat16 factors are to give a float32 product."""
        if self.precision == "bfloat16":
            return {"precision": "default", "preferred_element_type": jnp.float32 if wide else jnp.bfloat16}
        return {"precision": "default" if self.precision == "tf32" else "highest"}

    def _product(self, rows: Array, matrix: Array, bias: Array, *, wide: bool = False) -> Array:
        if self.precision == "bfloat16":
            rows, matrix = rows.astype(jnp.bfloat16), matrix.astype(jnp.bfloat16)
        found = jnp.matmul(rows, matrix, **self._options(wide))
        return found + bias.astype(found.dtype)


def turned(
    rows: Float[Array, "prompts positions head entry"], positions: Array
) -> Float[Array, "prompts positions head entry"]:
    """Rotary positions: entries j and j + half of a head are turned by the angle position · base^(−j/half).

    Args:
        rows: (prompts, positions, head, entry) queries or keys.
        positions: (positions) where they stand.

    Returns:
        The same shape, such that products of two rows depend on the difference of their positions.

    >>> one = jnp.ones((1, 2, 1, 2))
    >>> a, b = turned(one, jnp.array([0, 3])), turned(one, jnp.array([4, 7]))
    >>> bool(jnp.allclose(a[0, 0] @ a[0, 1].T, b[0, 0] @ b[0, 1].T))
    True
    """
    half = rows.shape[-1] // 2
    angle = positions[:, None] * ROTARY_BASE ** (-jnp.arange(half) / half)
    cos, sin = (f(angle)[:, None].astype(rows.dtype) for f in (jnp.cos, jnp.sin))
    first, second = rows[..., :half], rows[..., half:]
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], -1)
