"""What every model offers: a prediction for ONE prompt, and named weights."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
from jaxtyping import Array, Float

from ..core.prompt import Prompt
from .features import FeatureMap


class AbstractModel(eqx.Module):
    """A frozen pytree of weights with a prediction for one prompt; the caller vmaps.

    `axes` names the axes of every weight array: the dimensions under which a Trace stores it.
    """

    axes: ClassVar[dict[str, tuple[str, ...]]] = {}

    @abstractmethod
    def predict(self, prompt: Prompt) -> Float[Array, " output"]: ...

    def weights(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in self.axes}


class AbstractFeatureModel(AbstractModel):
    """A model that is linear in fixed features of the prompt: ŷ = coefficientsᵀ · features."""

    @property
    @abstractmethod
    def feature_map(self) -> FeatureMap | None:
        """The features, or None where the weights make the model no longer linear in any (softmax)."""

    @abstractmethod
    def coefficients(self) -> Float[Array, "feature output"]: ...

    @abstractmethod
    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        """W[o, j, i, t] with ŷ_t = Σ W β_{i,o} x_j while the zero blocks are zero ("reduced model").

        Blocks that must be zero do not enter, so their gradient is zero, as it is under infinitely many prompts.
        """

    @abstractmethod
    def zero_blocks(self) -> tuple[Array, ...]:
        """The blocks that must vanish for `cubic_coefficients` to be the whole model."""
