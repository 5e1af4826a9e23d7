"""What a model is: a prediction for ONE prompt, named weights, and a spec that says how they begin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .errors import IclearnError
from .prompt import Batch, FeatureBatch, Prompt
from .spec import Spec
from .task import AbstractTask

if TYPE_CHECKING:
    from .recipe import Init


class AbstractModel(eqx.Module):
    """A frozen pytree of weights with a prediction for one prompt; the caller vmaps.

    `axes` names the axes of every weight array: the dimensions under which a Trace stores it. `prompt_type` is what
    `predict` reads. An in-context algorithm is a model too, with nothing to train.
    """

    axes: ClassVar[dict[str, tuple[str, ...]]] = {}
    prompt_type: ClassVar[type] = Prompt

    @abstractmethod
    def predict(self, prompt: Any) -> Float[Array, " output"]:
        """The answer to one prompt."""

    def weights(self) -> dict[str, Array]:
        """Name → weight array, the names of `axes`."""
        return {name: getattr(self, name) for name in self.axes}


class AbstractModelSpec(Spec):
    """Which model, how large, and how its weights begin: the ``model`` of a Recipe."""

    @abstractmethod
    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractModel:
        """The model at initialization, drawn from the seed's ``init`` stream."""

    @abstractmethod
    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractModel:
        """The model of this spec with these weight arrays, named as in its `axes`."""

    @property
    def reads_features(self) -> bool:
        """Whether the model can be trained on ready-made features instead of tokens."""
        return False

    def from_arrays(self, task: AbstractTask, arrays: Mapping[str, np.ndarray], dtype: Any) -> AbstractModel:
        """The model with weights brought by the user, names and shapes checked."""
        from .recipe import Init

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


def check_weight_names(axes: Iterable[str], weights: Mapping[str, Any], name: str) -> None:
    """Refuse weights that lack an array of the model."""
    if missing := [n for n in axes if n not in weights]:
        raise IclearnError(f"weights of {name} are {', '.join(axes)}; missing {', '.join(missing)}")


def mean_loss(model: AbstractModel, batch: Batch | FeatureBatch) -> Float[Array, ""]:
    """Weighted mean over prompts of the squared error, a mean over outputs in the batch's unit."""
    if isinstance(batch, FeatureBatch):
        if not hasattr(model, "coefficients"):
            raise IclearnError(f"{type(model).__name__} cannot read ready-made features")
        predictions, unit = batch.features @ model.coefficients(), 1.0
    else:
        predictions, unit = jax.vmap(model.predict)(batch.prompt), batch.unit
    return unit * jnp.sum(batch.weight * jnp.mean((batch.target - predictions) ** 2, -1))
