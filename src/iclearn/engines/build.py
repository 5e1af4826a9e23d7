"""From a Recipe to its starting point: the model, and the engine that is exact and cheapest for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..core.errors import IclearnError, MissingClosedForm
from ..core.prompt import Dataset, weights_digest
from ..core.recipe import Recipe
from ..models.base import AbstractFeatureModel, AbstractModel, AbstractModelSpec, AbstractReducibleModel
from ..models.features import FeatureMap
from ..models.lsa import GuessGramQuery
from ..models.softmax_layers import AbstractDocumentModel
from ..tasks.base import AbstractTask
from ..tasks.given import GivenData
from ..tasks.softmax_regression import SoftmaxRegression
from .base import AbstractEngine
from .gram import gram_engine
from .moments import MAX_FEATURES, moments_engine
from .population import population_engine
from .samples import samples_engine


class Setup(eqx.Module):
    """Where a run starts."""

    model: AbstractModel
    engine: AbstractEngine
    engine_name: str = eqx.field(static=True)
    task: AbstractTask = eqx.field(static=True)


def prepare(
    recipe: Recipe, *, dataset: Dataset | None = None, weights: Mapping[str, np.ndarray] | None = None
) -> Setup:
    """Build the task, the initial weights and the engine of a recipe. Every impossible combination ends here."""
    task, spec = recipe.task, recipe.model
    if not isinstance(task, AbstractTask):
        raise IclearnError(f"a recipe's task must be a task, not {type(task).__name__}")
    if not isinstance(spec, AbstractModelSpec):
        raise IclearnError(f"a recipe's model must be a model spec, not {type(spec).__name__}")
    if isinstance(task, GivenData):
        if task.context_len == 0 and getattr(spec, "family", "") != "mlp":
            raise IclearnError(
                "this dataset holds cubic features, which only the mlp model reads: choose model mlp, or bring tokens"
            )
        task = task.bind(dataset)
    elif dataset is not None:
        raise IclearnError("a dataset was given, but the recipe's task draws its own: use GivenData.of(dataset)")
    dtype = jnp.dtype(recipe.dtype)
    if recipe.init.scheme == "given":
        if weights is None:
            raise IclearnError("this recipe starts from given weights: pass them as weights=")
        if recipe.init.digest and (digest := weights_digest(weights)) != recipe.init.digest:
            raise IclearnError(
                f"the weights given have digest {digest[:12]}, the recipe wants {recipe.init.digest[:12]}"
            )
        model = spec.from_arrays(task, weights, dtype)
    elif weights is not None:
        raise IclearnError("weights were given, but the recipe draws its own: set init scheme='given'")
    else:
        model = spec.initial(task, recipe.init, recipe.seed, dtype)
    if isinstance(task, SoftmaxRegression) and not isinstance(model, AbstractDocumentModel):
        raise IclearnError(f"softmax regression documents need a softmax_layer model, not {spec.kind}")
    features = model.feature_map if isinstance(model, AbstractFeatureModel) else None
    name = recipe.engine if recipe.engine != "auto" else _cheapest(recipe, task, features)
    engine = _build(name, recipe, task, model, features, dtype)
    if engine.stochastic and recipe.optimizer.rule in ("gd", "flow"):
        raise IclearnError(f"{recipe.optimizer.rule} needs the whole training set: drop the batch size")
    return Setup(model, engine, name, task)


def _cheapest(recipe: Recipe, task: AbstractTask, features: FeatureMap | None) -> str:
    if features is None or recipe.optimizer.batch_size is not None:
        return "samples"
    if task.num_prompts is None:
        return "population"
    return "moments" if features.size <= MAX_FEATURES else "samples"


def _build(
    name: str,
    recipe: Recipe,
    task: AbstractTask,
    model: AbstractModel,
    features: FeatureMap | None,
    dtype: Any,
) -> AbstractEngine:
    batch_size = recipe.optimizer.batch_size
    if name == "samples":
        return samples_engine(task, batch_size, recipe.seed, dtype)
    if features is None or not isinstance(model, AbstractFeatureModel):
        raise MissingClosedForm(f"engine {name} needs a linear model: for softmax attention use engine samples")
    if batch_size is not None:
        raise IclearnError(
            f"engine {name} uses every prompt at each step; with batch size {batch_size} use engine samples"
        )
    if name == "moments":
        if task.num_prompts is None:
            raise IclearnError(
                "engine moments needs a number of prompts; for infinitely many use engine population or samples"
            )
        return moments_engine(task, features, recipe.seed, dtype)
    if isinstance(features, GuessGramQuery):
        return gram_engine(task, recipe.seed, dtype)
    if not isinstance(model, AbstractReducibleModel):
        raise MissingClosedForm(f"{type(model).__name__} has no closed-form population loss: use moments or samples")
    return population_engine(task, model, features.normalize, recipe.seed, dtype)
