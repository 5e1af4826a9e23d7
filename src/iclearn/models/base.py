"""What every model offers: a prediction for ONE prompt, and named weights."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import IclearnError
from ..core.prompt import Prompt
from ..core.recipe import Init
from ..core.spec import Spec
from ..tasks.base import AbstractTask
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


class AbstractModelSpec(Spec):
    """Which model, how large, and how its weights begin: the ``model`` of a Recipe."""

    @abstractmethod
    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractModel:
        """The model at initialization, drawn from the seed's ``init`` stream."""

    @abstractmethod
    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractModel:
        """The model of this spec with these weight arrays, named as in its `axes`."""

    def from_arrays(self, task: AbstractTask, arrays: Mapping[str, np.ndarray], dtype: Any) -> AbstractModel:
        """The model with weights brought by the user, names and shapes checked."""
        template = self.initial(task, Init(), 0, dtype)
        for name, weight in template.weights().items():
            if name not in arrays:
                raise IclearnError(f"weights of this model are {', '.join(template.axes)}; missing {name}")
            given = np.asarray(arrays[name])
            if given.shape != weight.shape:
                raise IclearnError(
                    f"weight {name} has shape {given.shape}, this model and task need {tuple(weight.shape)} "
                    f"({', '.join(template.axes[name])})"
                )
            if not np.isfinite(given).all():
                raise IclearnError(f"weight {name} holds NaN or infinite values")
        return self.rebuild(task.dim, {name: np.asarray(arrays[name], dtype) for name in template.axes})


class AbstractFeatureModel(AbstractModel):
    """A model that is linear in fixed features of the prompt: ŷ = coefficientsᵀ · features."""

    @property
    @abstractmethod
    def feature_map(self) -> FeatureMap | None:
        """The features, or None where the weights make the model no longer linear in any (softmax)."""

    @abstractmethod
    def coefficients(self) -> Float[Array, "feature output"]: ...


class AbstractReducibleModel(AbstractFeatureModel):
    """A feature model that is linear in z = vec(β x_qᵀ) alone while some of its blocks are zero (zhang2025)."""

    @abstractmethod
    def cubic_coefficients(self) -> Float[Array, "output dim dim output"]:
        """W[o, j, i, t] with ŷ_t = Σ W β_{i,o} x_j while the zero blocks are zero ("reduced model").

        Blocks that must be zero do not enter, so their gradient is zero, as it is under infinitely many prompts.
        """

    @abstractmethod
    def zero_blocks(self) -> tuple[Array, ...]:
        """The blocks that must vanish for `cubic_coefficients` to be the whole model."""
