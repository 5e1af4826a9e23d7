"""Initial weights, each with its formula. E = dim + out_dim is the size of a token.

``entries`` (the public code until January 2025, which made the published Figure 3): every entry N(0, init²), so that
‖k‖ and ‖q‖ of a separate head are of order √(R E) init.
``per_head`` (the README's commands): merged entries N(0, init²); separate keys and queries N(0, init²/(R E)), values
N(0, init²), so that |v|, ‖k‖ and ‖q‖ of a head are all of order init.
``stacked`` (the newest public code): each separate matrix is divided by the root of its size over all heads together:
keys and queries N(0, init²/(H R E)), values N(0, init²/(H E²)); merged as before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Array, Key

from ..core.forms import as_array, numpy_of
from ..core.recipe import Init
from ..core.rng import standard_normals
from .attention_models import MergedAttention, SeparateAttention
from .reduced import CubicMLP


def draw_merged(key: Key[Array, ""], dim: int, out_dim: int, heads: int, init: Init) -> MergedAttention:
    """Merged attention with initial weights.

    Args:
        key: from which they are drawn.
        dim: dimension of the inputs.
        out_dim: number of outputs.
        heads: H.
        init: scale and scheme.

    Returns:
        The model, linear and not normalized.
    """
    entry = dim + out_dim
    value, kq = standard_normals(key, ((heads, out_dim, entry), (heads, dim, entry)))
    value, kq = _scaled((value, init.scale), (kq, init.scale))
    if init.zero_blocks:
        value, kq = _keep(value, entry, dim, None), _keep(kq, entry, 0, dim)
    return MergedAttention(as_array(value), as_array(kq))


def draw_separate(key: Key[Array, ""], dim: int, out_dim: int, heads: int, rank: int, init: Init) -> SeparateAttention:
    """Separate attention of rank `rank` with initial weights; for the other arguments see `draw_merged`."""
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
    value, keys, queries = _scaled((value, value_std), (keys, key_std), (queries, key_std))
    if init.zero_blocks:
        value, keys = _keep(value, entry, dim, None), _keep(keys, entry, 0, dim)
    return SeparateAttention(as_array(value), as_array(keys), as_array(queries))


def draw_mlp(key: Key[Array, ""], dim: int, out_dim: int, width: int, init: Init) -> CubicMLP:
    """A network of `width` hidden units with weights N(0, init²); for the other arguments see `draw_merged`."""
    second, first = standard_normals(key, ((out_dim, width), (width, out_dim * dim**2)))
    first, second = _scaled((first, init.scale), (second, init.scale))
    return CubicMLP(as_array(first), as_array(second), dim)


def _scaled(*pairs: tuple[Any, Any]) -> list[Any]:
    """Each array times its factor, by numpy where neither is traced, so that nothing is compiled for it."""
    with np.errstate(all="ignore"):  # a scale beyond floating point is told by the loss
        return [factor * numpy_of(weights, factor).asarray(weights) for weights, factor in pairs]


def _keep(weights: Any, entry: int, start: int, stop: int | None) -> Any:
    """The weights of a slice of a token's entries, and zero for its other entries."""
    kept = np.zeros(entry, bool)
    kept[start:stop] = True
    return numpy_of(weights).where(kept, weights, 0)
