"""Initial weights, each with its formula. E = dim + out_dim is the size of a token.

``entries`` (the public code until January 2025, which made the published Figure 3): every entry N(0, init²), so that
‖k‖ and ‖q‖ of a separate head are of order √(R E) init.
``per_head`` (the README's commands): merged entries N(0, init²); separate keys and queries N(0, init²/(R E)), values
N(0, init²), so that |v|, ‖k‖ and ‖q‖ of a head are all of order init.
``stacked`` (the newest public code): each separate matrix is divided by the root of its size over all heads together:
keys and queries N(0, init²/(H R E)), values N(0, init²/(H E²)); merged as before.
"""

from __future__ import annotations

from jaxtyping import Array, Key

from ..core.recipe import Init
from ..core.rng import standard_normals
from .attention_models import MergedAttention, SeparateAttention
from .features import Normalize
from .reduced import CubicMLP


def draw_merged(
    key: Key[Array, ""],
    dim: int,
    out_dim: int,
    heads: int,
    init: Init,
    *,
    softmax: bool,
    normalize: Normalize,
) -> MergedAttention:
    entry = dim + out_dim
    value, kq = standard_normals(key, ((heads, out_dim, entry), (heads, dim, entry)))
    value, kq = init.scale * value, init.scale * kq
    if init.zero_blocks:
        value, kq = value.at[..., :dim].set(0), kq.at[..., dim:].set(0)
    return MergedAttention(value, kq, softmax, normalize)


def draw_separate(
    key: Key[Array, ""],
    dim: int,
    out_dim: int,
    heads: int,
    rank: int,
    init: Init,
    *,
    softmax: bool,
    normalize: Normalize,
) -> SeparateAttention:
    entry = dim + out_dim
    if init.scheme == "stacked":
        key_std = init.scale / (heads * rank * entry) ** 0.5
        value_std = init.scale / (heads * entry**2) ** 0.5
    elif init.scheme == "entries":
        key_std = value_std = init.scale
    else:
        key_std, value_std = init.scale / (rank * entry) ** 0.5, init.scale
    shapes = ((heads, out_dim, entry), (heads, rank, entry), (heads, rank, dim))
    value, keys, queries = standard_normals(key, shapes)
    value, keys, queries = value_std * value, key_std * keys, key_std * queries
    if init.zero_blocks:
        value, keys = value.at[..., :dim].set(0), keys.at[..., dim:].set(0)
    return SeparateAttention(value, keys, queries, softmax, normalize)


def draw_mlp(key: Key[Array, ""], dim: int, out_dim: int, width: int, init: Init, normalize: Normalize) -> CubicMLP:
    second, first = standard_normals(key, ((out_dim, width), (width, out_dim * dim**2)))
    return CubicMLP(init.scale * first, init.scale * second, dim, normalize)
