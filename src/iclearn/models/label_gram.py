"""Reduced linear attention as one matrix Γ, ŷ = ⟨Γ, H⟩, with the features H of lu2025.

H = x_q [β̂, (1/√d) mean y²] for inputs N(0, I) and tasks with E‖w‖² = 1, which is lu2025's
x_q [(d/ℓ) Σ y x, (1/ℓ) Σ y²] for inputs N(0, I/d) and tasks with E‖w‖² = d, number for number. The factor on mean y² is
part of the model: with a ridge, and for fewer prompts than features, it changes the trained Γ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.checks import require
from ..core.errors import MissingClosedForm
from ..core.forms import AbstractForm, average
from ..core.model import AbstractModelSpec, checked_weights
from ..core.prompt import Prompt
from ..core.recipe import Init
from ..core.rng import standard_normals, stream
from ..core.task import AbstractTask
from ..tasks.expectations import quadratic_form
from .base import AbstractFeatureModel
from .features import AbstractFeatureMap, attention_scale


@dataclass(frozen=True)
class LabelGram(AbstractFeatureMap):
    """φ = x_q ⊗ [β̂, (1/√d) mean y²] with β̂ = (1/N) Σ y x: index j·(dim + 1) + e for x_j and entry e of the context.

    Args:
        dim: dimension of the inputs.
        out_dim: 1.
        normalize: factor on sums over tokens; lu2025 has ``context``.
        label_square: with the entry for mean y².
        unit_trace: for inputs N(0, I/d): φ = x_q ⊗ [d β̂, mean y²].

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((5, 1)), 2 * jnp.ones((5, 1)), jnp.array([3.0]))
    >>> LabelGram(1, 1, "context")(prompt)
    Array([ 6., 12.], dtype=float64)
    """

    label_square: bool = True
    unit_trace: bool = False

    def __post_init__(self) -> None:
        require(self.out_dim == 1, f"the features of label_gram are for one output, not {self.out_dim}")

    @property
    def entries(self) -> int:
        """How many numbers of the context there are."""
        return self.dim + self.label_square

    @property
    def size(self) -> int:
        return self.dim * self.entries

    def context_part(self, prompt: Prompt) -> Float[Array, " entry"]:
        """[β̂, (1/√d) mean y²] of one prompt.

        Args:
            prompt: the prompt, without a batch axis.

        Returns:
            (entry) the context's features.
        """
        labels = prompt.y[:, 0] * prompt.mask
        scale = attention_scale(self.normalize, prompt.num_context())
        reach, last = (self.dim, 1.0) if self.unit_trace else (1.0, self.dim**-0.5)
        beta = reach * scale * (labels @ prompt.x)
        return jnp.append(beta, last * scale * (labels @ labels)) if self.label_square else beta

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        return jnp.outer(prompt.query, self.context_part(prompt)).ravel()

    def population_form(self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> AbstractForm:
        if self.label_square:
            raise MissingClosedForm(
                "features LabelGram with label_square have no closed-form population loss: use engine moments or "
                "samples, or label_square=False"
            )
        laws, cov = task.label_laws(seed, which), task.covariance_matrix(seed)
        assert cov is not None  # known where the laws are
        reach = self.dim if self.unit_trace else 1.0
        lengths = [float(n) for n in task.context_lengths(which)]
        scales = [jnp.asarray(float(reach * attention_scale(self.normalize, n))) for n in lengths]
        return average(
            [quadratic_form(laws, cov, jnp.asarray(n), s) for n, s in zip(lengths, scales, strict=True)], dtype
        )


class GammaAttention(AbstractFeatureModel):
    """ŷ = x_qᵀ Γ [β̂, (1/√d) mean y²] (lu2025): linear in its weights, so gradient flow from 0 ends at least norm.

    Args:
        gamma: (input, entry) Γ, with dim + 1 entries, or dim without the column for mean y².
        unit_trace: as in `LabelGram`.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((5, 1)), 2 * jnp.ones((5, 1)), jnp.array([3.0]))
    >>> float(GammaAttention(jnp.array([[1.0, 0.5]])).predict(prompt)[0])
    12.0
    """

    gamma: Float[Array, "input entry"]
    unit_trace: bool = eqx.field(static=True, default=False)

    axes: ClassVar[dict[str, tuple[str, ...]]] = {"gamma": ("input", "entry")}

    @property
    def feature_map(self) -> LabelGram:
        dim, entries = self.gamma.shape
        return LabelGram(dim, 1, "context", entries > dim, self.unit_trace)

    def coefficients(self) -> Float[Array, "feature output"]:
        return self.gamma.reshape(-1, 1)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        return (prompt.query @ self.gamma @ self.feature_map.context_part(prompt))[None]


@dataclass(frozen=True)
class MatrixAttention(AbstractModelSpec, kind="matrix_attention"):
    """Reduced linear attention whose one weight is the matrix Γ (`GammaAttention`, lu2025).

    Args:
        label_square: with the column of Γ for mean y², which matters where the mean of the tasks is not zero.
        unit_trace: for inputs N(0, I/d) instead of N(0, I).

    Γ starts N(0, scale²) with `Init.scale`; scale 0 starts at zero, from where gradient flow ends at the solution of
    least norm.

    >>> MatrixAttention().describe()
    'matrix attention'
    """

    label_square: bool = True
    unit_trace: bool = False

    def describe(self) -> str:
        return "matrix attention" + ("" if self.label_square else " without mean y²")

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> GammaAttention:
        require(task.out_dim == 1, f"the matrix_attention model has one output; this task has {task.out_dim}")
        drawn = "the matrix_attention model draws its weights N(0, scale²), which is init scheme per_head"
        require(init.scheme == "per_head", f"{drawn}, not {init.scheme}")
        (gamma,) = standard_normals(stream(seed, "init"), ((task.dim, task.dim + self.label_square),))
        return self.rebuild(task.dim, {"gamma": (init.scale * gamma).astype(dtype)})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> GammaAttention:
        return GammaAttention(**checked_weights(GammaAttention.axes, weights, "this model"), unit_trace=self.unit_trace)
