"""Feature maps: the small tensors in which a linear attention model is linear.

Every linear model is ŷ = coefficients(weights)ᵀ features(prompt). The data enters the squared loss only through the
second moments of the features, which is what makes training exact and cheap.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import MissingClosedForm
from ..core.forms import AbstractForm, average
from ..core.prompt import Prompt
from ..core.task import AbstractTask
from ..tasks.expectations import quadratic_form

Normalize = Literal["none", "context", "tokens"]


def attention_scale(normalize: Normalize, num_context: Float[Array, ""] | float) -> Float[Array, ""] | float:
    """Factor on the sum over tokens: 1 (public code), 1/N (the paper) or 1/(N+1) (public code with --vary_len)."""
    match normalize:
        case "none":
            return 1.0
        case "context":
            return 1 / num_context
        case "tokens":
            return 1 / (num_context + 1)


@dataclass(frozen=True)
class AbstractFeatureMap(ABC):
    """A hashable description of the features of one prompt."""

    dim: int
    out_dim: int
    normalize: Normalize

    @property
    @abstractmethod
    def size(self) -> int:
        """How many features there are."""

    @abstractmethod
    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        """The features of one prompt."""

    def population_form(self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> AbstractForm:
        """The loss over infinitely many prompts of the task, as a form of the coefficients of these features."""
        raise MissingClosedForm(
            f"features {type(self).__name__} have no closed-form population loss: use engine moments or samples"
        )


@dataclass(frozen=True)
class GramQuery(AbstractFeatureMap):
    """φ = sym(G) ⊗ x_q with G = Σ_tokens [x; y][x; y]ᵀ, each symmetric pair once: what full attention reads.

    Order: entries (a ≤ b) of G row by row, then the entry of x_q.
    """

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        return np.triu_indices(self.dim + self.out_dim)

    @property
    def size(self) -> int:
        return len(self.pairs[0]) * self.dim

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        tokens = prompt.tokens()
        gram = tokens.T @ tokens * attention_scale(self.normalize, prompt.num_context())
        return jnp.outer(gram[self.pairs], prompt.query).ravel()

    def fold(self, tensor: Float[Array, "entry entry dim output"]) -> Float[Array, "feature output"]:
        """Coefficients of φ for a tensor T that acts on G_ab x_j: T_ab + T_ba off the diagonal."""
        rows, cols = self.pairs
        both = tensor + jnp.swapaxes(tensor, 0, 1)
        once = jnp.where(rows == cols, 0.5, 1.0).astype(tensor.dtype)
        return (both[rows, cols] * once[:, None, None]).reshape(self.size, -1)


@dataclass(frozen=True)
class Cubic(AbstractFeatureMap):
    """z = vec(β x_qᵀ), columns stacked (index j·dim + i for β_i x_j), per output label, β = Σ y_n x_n."""

    @property
    def size(self) -> int:
        return self.out_dim * self.dim**2

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        labels = prompt.y * prompt.mask[:, None]
        beta = jnp.einsum("no,ni->oi", labels, prompt.x) * attention_scale(self.normalize, prompt.num_context())
        return jnp.einsum("oi,j->oji", beta, prompt.query).ravel()

    def population_form(self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> AbstractForm:
        cov, laws = task.covariance_matrix(seed), task.label_laws(seed, which)
        forms = [
            quadratic_form(
                laws, cov, jnp.asarray(float(n)), jnp.asarray(float(attention_scale(self.normalize, float(n))))
            )
            for n in task.context_lengths(which)
        ]
        return average(forms, dtype)
