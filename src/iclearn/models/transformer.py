"""`LinearTransformer`: which deep linear transformer, how large, and how its weights begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array

from ..core.checks import check_int, require
from ..core.model import AbstractModelSpec, checked_weights
from ..core.recipe import Init
from ..core.rng import cut_normals, standard_normals, stream
from ..core.task import AbstractTask
from .chain_features import full_features, gd_features, sparse_features
from .features import MAX_FEATURES, Normalize
from .step_transformers import DescentTransformer, SparseTransformer
from .transformer_forms import AbstractLinearTransformer, DiagonalTransformer, FullTransformer

Blocks = Literal["gd", "sparse", "full", "diag"]


@dataclass(frozen=True)
class LinearTransformer(AbstractModelSpec, kind="linear_transformer"):
    """A deep linear transformer in Gram form: `layers` layers of linear attention that only the context feeds.

    Args:
        layers: L.
        num_heads: H.
        blocks: ``gd`` (`DescentTransformer`), ``sparse`` (`SparseTransformer`: the model of ahn2023), ``full``
            (`FullTransformer`: the model of oswald2023) or ``diag`` (`DiagonalTransformer`: vladymyrov2024).
        tied: one set of weights for all layers (a looped, or recurrent, transformer).
        scalar: A_l and B_l of ``gd`` and ``sparse`` are multiples of the identity: gradient descent and GD++.
        normalize: ``context``: G divided by N (ahn2023), ``none``: not (oswald2023).
        key_size: width of a head of ``full`` (None: dim + 1).

    All weights start N(0, scale²) with `Init.scale`, which is what ahn2023's code does (its `var` is this standard
    deviation). Weights of ``full`` start from a normal cut off at ±2 instead, with standard deviation
    √(scale/fan_in)/.8796, as oswald2023's code does (haiku's variance scaling; its scale is .002/L).

    >>> LinearTransformer(layers=3, blocks="sparse").describe()
    'linear transformer L=3 sparse H=1'
    """

    layers: int = 1
    num_heads: int = 1
    blocks: Blocks = "sparse"
    tied: bool = False
    scalar: bool = False
    normalize: Normalize = "context"
    key_size: int | None = None

    def __post_init__(self) -> None:
        check_int("layers", self.layers, 1)
        check_int("num_heads", self.num_heads, 1)
        source = "the query is no source of attention here"
        require(self.normalize != "tokens", f"{source}: normalize is context or none, not tokens")
        matrices = self.blocks in ("gd", "sparse") or not self.scalar
        require(matrices, f"scalar weights are those of blocks gd and sparse, not of {self.blocks}")
        single = self.blocks != "diag" or self.num_heads == 1
        require(single, f"blocks diag have one head, not {self.num_heads}")
        if self.key_size is not None:
            check_int("key_size", self.key_size, 1)
            require(self.blocks == "full", f"key_size is the width of a head of blocks full, not of {self.blocks}")

    def describe(self) -> str:
        words = [f"L={self.layers}", self.blocks, "scalar" * self.scalar, "tied" * self.tied, f"H={self.num_heads}"]
        return " ".join(["linear transformer", *filter(None, words)])

    def shapes(self, dim: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights.

        Args:
            dim: dimension of the inputs.

        Returns:
            Name → shape.
        """
        sets, entry = 1 if self.tied else self.layers, dim + 1
        if self.blocks == "diag":
            return {"omega": (sets, 4)}
        if self.blocks == "full":
            wide = (sets, self.num_heads, entry, self.key_size or entry)
            return {**dict.fromkeys(("query", "key", "value"), wide), "output": (*wide[:2], wide[3], wide[2])}
        one = (sets, self.num_heads, *(() if self.scalar else (dim, dim)))
        return dict.fromkeys(("a",) if self.blocks == "gd" else ("a", "b"), one)

    def check_engine(self, task: AbstractTask, engine: str) -> None:
        if engine != "moments":
            return
        count = {"gd": gd_features, "sparse": sparse_features}.get(self.blocks, full_features)(task.dim, self.layers)
        reads = f"blocks {self.blocks} with {self.layers} layers at dim {task.dim} read {count} features"
        other = "use engine samples, whose cost does not depend on the context either"
        require(self.blocks != "diag", f"{reads} of which few are used, and these are not built: {other}")
        require(count <= MAX_FEATURES, f"{reads}, more than {MAX_FEATURES}: {other}")

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractLinearTransformer:
        require(task.out_dim == 1, f"a linear transformer has one output; this task has {task.out_dim}")
        drawn = "a linear transformer draws its weights as init scheme per_head"
        require(init.scheme in ("per_head", "given"), f"{drawn}, not {init.scheme}")
        shapes = self.shapes(task.dim)
        normals = dict(zip(shapes, standard_normals(stream(seed, "init"), tuple(shapes.values())), strict=True))
        if self.blocks == "full":
            for name, z in normals.items():
                wide = shapes[name][2] if name != "output" else self.num_heads * shapes[name][2]
                normals[name] = cut_normals(z) * jnp.sqrt(init.scale / wide)
        else:
            normals = {name: init.scale * z for name, z in normals.items()}
        return self.rebuild(task.dim, {name: jnp.asarray(w, dtype) for name, w in normals.items()})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractLinearTransformer:
        arrays = checked_weights(self.shapes(dim), weights, f"a linear transformer with blocks {self.blocks}")
        if self.blocks == "full":
            return FullTransformer(**arrays, depth=self.layers, normalize=self.normalize)
        classes = {"gd": DescentTransformer, "sparse": SparseTransformer, "diag": DiagonalTransformer}
        cls: Any = classes[self.blocks]
        return cls(**arrays, dim=dim, depth=self.layers, normalize=self.normalize)
