"""`Attention`: which model, how large, and how its weights begin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
from jaxtyping import Array

from ..core.checks import check_choice, check_int
from ..core.errors import IclearnError
from ..core.model import AbstractModelSpec, check_weight_names
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
    """An attention model, or one of its disguises.

    Args:
        family: ``merged`` (attnM) and ``separate`` (attnS) are the full models the public code trains;
            ``*_reduced`` leave out the zero blocks; ``mlp`` and ``conv`` are the linear networks on z.
        num_heads: H, for ``mlp`` the width.
        rank: R of the separate key-query weights; 1 otherwise.
        softmax: softmax over the tokens instead of linear attention (full models only).
        normalize: ``none``: the sum over tokens (public code), ``context``: divided by N (the paper), ``tokens``:
            divided by the number of tokens, query included (public code with --vary_len).
    """

    family: Family = "merged"
    num_heads: int = 1
    rank: int = 1
    softmax: bool = False
    normalize: Normalize = "none"

    def __post_init__(self) -> None:
        check_choice("model family", self.family, Family)
        check_choice("normalize", self.normalize, Normalize)
        check_int("num_heads", self.num_heads, 1)
        check_int("rank", self.rank, 1)
        if self.softmax and self.family not in ("merged", "separate"):
            raise IclearnError(
                f"softmax needs the tokens; the {self.family} model reads cubic features: "
                "drop softmax or choose merged or separate"
            )
        if self.rank > 1 and self.family in ("merged", "merged_reduced", "mlp"):
            raise IclearnError(f"the {self.family} model has no rank: rank must be 1, not {self.rank}")

    @property
    def reads_features(self) -> bool:
        return self.family == "mlp"

    def describe(self) -> str:
        softmax = " softmax" if self.softmax else ""
        return f"{self.family}{softmax} H={self.num_heads} R={self.rank}"

    def check(self, dim: int, out_dim: int) -> None:
        """Refuse what does not fit a task of these sizes."""
        if self.rank > dim + out_dim:
            raise IclearnError(
                f"rank {self.rank} is larger than the {dim + out_dim} entries of a token "
                f"(dim {dim} + out_dim {out_dim}): choose at most {dim + out_dim}"
            )
        if self.family == "conv" and out_dim != 1:
            raise IclearnError(f"the conv model has one output; this task has {out_dim}")

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractFeatureModel:
        """The model at initialization, drawn from the seed's ``init`` stream.

        A reduced model, an mlp or a conv net starts from the weights that the full model of the same seed has.
        """
        self.check(task.dim, task.out_dim)
        if init.scheme == "given":
            raise IclearnError("this recipe starts from given weights: pass them as weights=")
        key = stream(seed, "init")
        if self.family == "mlp" and task.out_dim > 1:
            model: AbstractFeatureModel = draw_mlp(key, task.dim, task.out_dim, self.num_heads, init, self.normalize)
        elif self.family in ("merged", "merged_reduced", "mlp"):
            merged = draw_merged(
                key,
                task.dim,
                task.out_dim,
                self.num_heads,
                init,
                softmax=self.softmax,
                normalize=self.normalize,
            )
            reduced = merged.reduced()
            model = {"merged": lambda: merged, "merged_reduced": lambda: reduced, "mlp": reduced.as_mlp}[self.family]()
        else:
            separate = draw_separate(
                key, task.dim, task.out_dim, self.num_heads, self.rank, init,
                softmax=self.softmax, normalize=self.normalize,
            )  # fmt: skip
            smaller = separate.reduced()
            model = {
                "separate": lambda: separate, "separate_reduced": lambda: smaller, "conv": smaller.as_conv
            }[self.family]()  # fmt: skip
        return self.rebuild(task.dim, {name: jnp.asarray(w, dtype) for name, w in model.weights().items()})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractFeatureModel:
        """The model of this spec with these weight arrays, named as in its `axes`."""
        cls = _CLASSES[self.family]
        check_weight_names(cls.axes, weights, f"a {self.family} model")
        static: dict[str, Any] = {"normalize": self.normalize}
        if self.family in ("merged", "separate"):
            static["softmax"] = self.softmax
        if self.family == "mlp":
            static["dim"] = dim
        return cls(**{name: jnp.asarray(weights[name]) for name in cls.axes}, **static)
