"""`Attention`: which model, how large, and how its weights begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from jaxtyping import Array

from ..core.checks import check_int, require
from ..core.forms import as_array
from ..core.model import AbstractModelSpec, checked_weights
from ..core.recipe import Init
from ..core.rng import stream
from ..core.task import AbstractTask
from .attention_models import MergedAttention, SeparateAttention
from .base import AbstractFeatureModel
from .features import Normalize
from .initialize import draw_merged, draw_mlp, draw_separate
from .reduced import ConvSum, CubicMLP, ReducedMerged, ReducedSeparate

Family = Literal["merged", "separate", "merged_reduced", "separate_reduced", "mlp", "conv"]
_CLASSES: dict[str, type[AbstractFeatureModel]] = {
    "merged": MergedAttention,
    "separate": SeparateAttention,
    "merged_reduced": ReducedMerged,
    "separate_reduced": ReducedSeparate,
    "mlp": CubicMLP,
    "conv": ConvSum,
}


@dataclass(frozen=True)
class Attention(AbstractModelSpec, kind="attention"):
    """An attention model (zhang2025), or a linear network on cubic features that is equivalent to one.

    Args:
        family: ``merged`` (`MergedAttention`) and ``separate`` (`SeparateAttention`) are the full models that the
            public code trains; ``*_reduced`` leave out the zero blocks; ``mlp`` (`CubicMLP`) and ``conv`` (`ConvSum`)
            are the linear networks on the cubic features.
        num_heads: H, for ``mlp`` the width.
        rank: R of the separate key-query weights; 1 otherwise.
        softmax: softmax over the tokens instead of linear attention (full models only).
        normalize: ``none``: the sum over tokens (public code), ``context``: divided by N (the paper), ``tokens``:
            divided by the number of tokens, query included (public code with --vary_len).

    >>> Attention("separate", num_heads=3, rank=2).describe()
    'separate H=3 R=2'
    """

    family: Family = "merged"
    num_heads: int = 1
    rank: int = 1
    softmax: bool = False
    normalize: Normalize = "none"

    def __post_init__(self) -> None:
        check_int("num_heads", self.num_heads, 1)
        check_int("rank", self.rank, 1)
        needs_tokens = f"softmax needs the tokens; the {self.family} model reads cubic features: "
        reads_tokens = self.family in ("merged", "separate")
        require(reads_tokens or not self.softmax, needs_tokens + "drop softmax or choose merged or separate")
        ranked = self.rank == 1 or self.family not in ("merged", "merged_reduced", "mlp")
        require(ranked, f"the {self.family} model has no rank: rank must be 1, not {self.rank}")

    @property
    def reads_features(self) -> bool:
        return self.family == "mlp"

    def describe(self) -> str:
        softmax = " softmax" if self.softmax else ""
        return f"{self.family}{softmax} H={self.num_heads} R={self.rank}"

    def check(self, dim: int, out_dim: int) -> None:
        """Refuse a model that does not fit a task.

        Args:
            dim: dimension of its inputs.
            out_dim: number of its outputs.
        """
        entries = f"{dim + out_dim} entries of a token (dim {dim} + out_dim {out_dim}): choose at most {dim + out_dim}"
        require(self.rank <= dim + out_dim, f"rank {self.rank} is larger than the {entries}")
        single = self.family != "conv" or out_dim == 1
        require(single, f"the conv model has one output; this task has {out_dim}")

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractFeatureModel:
        """The model at initialization, drawn from the seed's ``init`` stream (`models.initialize`).

        A reduced model, an mlp with one output or a conv net starts from the weights that the full model of the same
        seed has. For the arguments see `AbstractModelSpec.initial`.
        """
        self.check(task.dim, task.out_dim)
        require(init.scheme != "given", "this recipe starts from given weights: pass them as weights=")
        key, sizes = stream(seed, "init"), (task.dim, task.out_dim, self.num_heads)
        model: AbstractFeatureModel
        if self.family == "mlp" and task.out_dim > 1:
            model = draw_mlp(key, *sizes, init)
        elif self.family in ("merged", "merged_reduced", "mlp"):
            model = draw_merged(key, *sizes, init)
        else:
            model = draw_separate(key, *sizes, self.rank, init)
        if self.family not in ("merged", "separate"):
            model = model.reduced()
        if self.family == "mlp" and isinstance(model, ReducedMerged):
            model = model.as_mlp()
        if self.family == "conv" and isinstance(model, ReducedSeparate):
            model = model.as_conv()
        return self.rebuild(task.dim, {name: as_array(w, dtype) for name, w in model.weights().items()})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractFeatureModel:
        cls = _CLASSES[self.family]
        static = {"normalize": self.normalize, "softmax": self.softmax, "dim": dim}
        own = {name: value for name, value in static.items() if name in cls.__dataclass_fields__}
        return cls(**checked_weights(cls.axes, weights, f"a {self.family} model"), **own)
