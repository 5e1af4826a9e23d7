"""From a Recipe to its starting point: the model, and the engine that is exact and cheapest for it.

The only place that decides which engine a run gets, from what its task, model and features declare.
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core.dataset import Dataset
from ..core.errors import IclearnError, MissingClosedForm
from ..core.hashing import digest_arrays
from ..core.model import AbstractModel
from ..core.recipe import Recipe
from ..core.task import AbstractTask
from ..models.base import AbstractFeatureModel
from ..models.features import AbstractFeatureMap
from .base import AbstractEngine
from .quadratic import moments_engine, population_engine, remembered_moments_engine
from .samples import samples_engine

MAX_FEATURES = 6000  # beyond this the moment matrix (288 MB in float64) costs more than the prompts
EXACT = ("population", "moments")


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
    spec = recipe.model
    if recipe.task.gives_features and not spec.reads_features:
        raise IclearnError(
            "this dataset holds cubic features, which only the mlp model reads: choose model mlp, or bring tokens"
        )
    task = recipe.task.bind(dataset)
    model = initial_model(recipe, task, weights)
    if model.prompt_type is not task.prompt_type:
        raise IclearnError(
            f"{task.kind} gives prompts of type {task.prompt_type.__name__}; the model {spec.kind} reads "
            f"{model.prompt_type.__name__}: choose a model and a task that fit"
        )
    features = model.feature_map if isinstance(model, AbstractFeatureModel) else None
    name = recipe.engine if recipe.engine != "auto" else _cheapest(recipe, task, features)
    engine = _build(name, recipe, task, model, features)
    if engine.stochastic and recipe.optimizer.rule in ("gd", "flow"):
        raise IclearnError(f"{recipe.optimizer.rule} needs the whole training set: drop the batch size")
    return Setup(model, engine, name, task)


def initial_model(recipe: Recipe, task: AbstractTask, weights: Mapping[str, np.ndarray] | None) -> AbstractModel:
    """The model with the weights the recipe draws, or with those given."""
    dtype = jnp.dtype(recipe.dtype)
    if recipe.init.scheme != "given":
        if weights is not None:
            raise IclearnError("weights were given, but the recipe draws its own: set init scheme='given'")
        return recipe.model.initial(task, recipe.init, recipe.seed, dtype)
    if weights is None:
        raise IclearnError("this recipe starts from given weights: pass them as weights=")
    digest = digest_arrays(sorted(weights.items()))
    if recipe.init.digest and digest != recipe.init.digest:
        raise IclearnError(f"the weights given have digest {digest[:12]}, the recipe wants {recipe.init.digest[:12]}")
    return recipe.model.from_arrays(task, weights, dtype)


def _cheapest(recipe: Recipe, task: AbstractTask, features: AbstractFeatureMap | None) -> str:
    if features is None or recipe.optimizer.batch_size is not None:
        return "samples"
    if task.num_prompts is None:
        return "population"
    return "moments" if features.size <= MAX_FEATURES else "samples"


def _build(
    name: str, recipe: Recipe, task: AbstractTask, model: AbstractModel, features: AbstractFeatureMap | None
) -> AbstractEngine:
    batch_size = recipe.optimizer.batch_size
    if name == "samples":
        return samples_engine(task, batch_size, recipe.seed, jnp.dtype(recipe.dtype))
    if features is None or not isinstance(model, AbstractFeatureModel):
        raise MissingClosedForm(f"engine {name} needs a linear model: for softmax attention use engine samples")
    if batch_size is not None:
        raise IclearnError(
            f"engine {name} uses every prompt at each step; with batch size {batch_size} use engine samples"
        )
    if name == "moments" and task.num_prompts is None:
        raise IclearnError(
            "engine moments needs a number of prompts; for infinitely many use engine population or samples"
        )
    if name == "population":
        check_reduced(task, model, recipe.seed)
    elif not task.needs_dataset:  # runs of one process that read the same prompts share their moments
        return remembered_moments_engine(task, features, recipe.seed, recipe.dtype)
    return exact_engine(name, task, model, recipe.seed, recipe.dtype)


def exact_engine(
    name: str, task: AbstractTask, model: AbstractFeatureModel, seed: int | Array, dtype: str
) -> AbstractEngine:
    """An exact engine of a combination that was checked before; it can be vmapped over seeds and numbers."""
    if name == "population":
        return population_engine(task, model, seed, jnp.dtype(dtype))
    assert model.feature_map is not None
    return moments_engine(task, model.feature_map, seed, dtype)


def check_reduced(task: AbstractTask, model: AbstractFeatureModel, seed: int) -> None:
    """Refuse a model whose zero blocks would not stay zero under infinitely many prompts."""
    blocks = model.zero_blocks()
    if not blocks:
        return
    # Means other than zero break the symmetry w → −w that keeps the zero blocks of full attention at zero.
    laws = task.label_laws(seed)
    if len(laws) > 1 or np.any(np.asarray(laws[0].mean)):
        raise MissingClosedForm(
            "under a task prior with a non-zero mean (or an in-context mix) full attention leaves the reduced "
            "model, and its population loss has no closed form here: use engine moments or samples with a finite "
            "number of prompts, or a *_reduced model"
        )
    if any(bool(np.any(np.asarray(block) != 0)) for block in blocks):
        raise MissingClosedForm(
            "the population loss has a closed form only while the zero blocks are zero: set init zero_blocks, or "
            "use engine moments or samples"
        )
