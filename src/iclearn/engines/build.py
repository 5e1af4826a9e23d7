"""From a Recipe to its starting point: the model, and the engine that is exact and cheapest for it.

The only place that decides which engine a run gets, from what its task, model and features declare.
"""

from __future__ import annotations

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..core.checks import check_type, require
from ..core.dataset import Dataset
from ..core.errors import IclearnError, MissingClosedForm
from ..core.hashing import digest_arrays
from ..core.model import AbstractModel
from ..core.recipe import Recipe
from ..core.task import AbstractTask
from ..models.base import AbstractFeatureModel
from ..models.features import MAX_FEATURES, AbstractFeatureMap
from .base import AbstractEngine
from .cost import refuse_what_cannot_be
from .integrated import exact_loss_engine, spectra_engine
from .quadratic import moments_engine, population_engine, remembered_moments_engine
from .samples import samples_engine

EXACT = ("population", "moments")


class Setup(eqx.Module):
    """Where a run starts; `prepare` makes it.

    Args:
        model: with its initial weights.
        engine: how its loss is obtained.
        engine_name: ``population``, ``moments``, ``samples`` or ``gram``.
        task: with its arrays, where it needs any.
    """

    model: AbstractModel
    engine: AbstractEngine
    engine_name: str = eqx.field(static=True)
    task: AbstractTask = eqx.field(static=True)


def prepare(
    recipe: Recipe, *, dataset: Dataset | None = None, weights: Mapping[str, np.ndarray] | None = None
) -> Setup:
    """Build the task, the initial weights and the engine of a recipe; every impossible combination is refused here.

    Args:
        recipe: the experiment.
        dataset: the arrays a `GivenData` task describes.
        weights: the arrays an ``init`` of scheme ``given`` describes.

    Returns:
        Where the run starts.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=4, num_prompts=50)
    >>> [prepare(icl.Recipe(task=task, model=icl.Attention(softmax=s))).engine_name for s in (False, True)]
    ['moments', 'samples']
    """
    spec = recipe.model
    readable = spec.reads_features or not recipe.task.gives_features
    features_only = "this dataset holds cubic features, which only the mlp model reads"
    require(readable, f"{features_only}: choose model mlp, or bring tokens")
    task = recipe.task.bind(dataset)
    spec.check_engine(task, recipe.engine)
    refuse_what_cannot_be(recipe, task)
    model = _initial_model(recipe, task, weights)
    given, read = task.prompt_type.__name__, model.prompt_type.__name__
    pair = f"{task.kind} gives prompts of type {given}; the model {spec.kind} reads {read}"
    require(model.prompt_type is task.prompt_type, f"{pair}: choose a model and a task that fit")
    features = model.feature_map if isinstance(model, AbstractFeatureModel) else None
    name = recipe.engine if recipe.engine != "auto" else _cheapest(recipe, task, model, features)
    engine = _build(name, recipe, task, model, features)
    rule = recipe.optimizer.rule
    whole = not engine.stochastic or rule not in ("gd", "flow")
    require(whole, f"{rule} needs the whole training set: drop the batch size")
    return Setup(model, engine, name, task)


def _initial_model(recipe: Recipe, task: AbstractTask, weights: Mapping[str, np.ndarray] | None) -> AbstractModel:
    """The model with the weights the recipe draws, or with those given."""
    dtype = jnp.dtype(recipe.dtype)
    if recipe.init.scheme != "given":
        require(weights is None, "weights were given, but the recipe draws its own: set init scheme='given'")
        return recipe.model.initial(task, recipe.init, recipe.seed, dtype)
    if weights is None:
        raise IclearnError("this recipe starts from given weights: pass them as weights=")
    check_type("weights", weights, Mapping, "a table from names to arrays")
    digest, wanted = digest_arrays(sorted(weights.items())), recipe.init.digest
    same = not wanted or digest == wanted
    require(same, f"the weights given have digest {digest[:12]}, the recipe wants {wanted[:12]}")
    return recipe.model.from_arrays(task, weights, dtype)


def _cheapest(recipe: Recipe, task: AbstractTask, model: AbstractModel, features: AbstractFeatureMap | None) -> str:
    if recipe.optimizer.batch_size is not None:
        return "samples"
    if task.num_prompts is None and (features is not None or model.offers_exact_loss):
        return "population"
    if features is None:
        return "samples"
    return "moments" if features.by_default and features.size <= MAX_FEATURES else "samples"


def _build(
    name: str, recipe: Recipe, task: AbstractTask, model: AbstractModel, features: AbstractFeatureMap | None
) -> AbstractEngine:
    size = recipe.optimizer.batch_size
    if name == "samples":
        return samples_engine(task, size, recipe.seed, jnp.dtype(recipe.dtype), model)
    if name == "gram":
        return spectra_engine(task, model, size, recipe.seed, jnp.dtype(recipe.dtype))
    if name == "population" and model.offers_exact_loss:
        _refuse_finite(task, size)
        return exact_loss_engine(task, model, recipe.seed, jnp.dtype(recipe.dtype))
    if features is None or not isinstance(model, AbstractFeatureModel):
        raise MissingClosedForm(f"engine {name} needs a linear model: for softmax attention use engine samples")
    _refuse_batch(name, size)
    if name == "population":
        _refuse_finite(task, size)
        _check_reduced(task, model, recipe.seed)
        return exact_engine(name, task, model, recipe.seed, recipe.dtype)
    finite = task.num_prompts is not None
    other = "for infinitely many use engine population or samples"
    require(finite, f"engine moments needs a number of prompts; {other}")
    # runs of one process that read the same prompts share their moments
    build = moments_engine if task.needs_dataset else remembered_moments_engine
    return build(task, features, recipe.seed, recipe.dtype)


def _refuse_batch(name: str, size: int | None) -> None:
    require(size is None, f"engine {name} uses every prompt at each step; with batch size {size} use engine samples")


def _refuse_finite(task: AbstractTask, size: int | None) -> None:
    _refuse_batch("population", size)
    infinite = "engine population integrates over infinitely many prompts"
    none = "num_prompts=None (--prompts inf)"
    drawn = f"{infinite}, and this task has {task.num_prompts}: choose {none}, or engine moments or samples"
    require(task.num_prompts is None or task.needs_dataset, drawn)


def exact_engine(
    name: str, task: AbstractTask, model: AbstractFeatureModel, seed: int | Array, dtype: str
) -> AbstractEngine:
    """An exact engine of a combination that was checked before; it can be vmapped over seeds and numbers.

    Args:
        name: ``population`` or ``moments``.
        task: the task.
        model: the model, whose features count and whose weights do not.
        seed: the root seed; may be traced.
        dtype: name of the precision.

    Returns:
        The engine.
    """
    if name == "population":
        return population_engine(task, model, seed, jnp.dtype(dtype))
    assert model.feature_map is not None
    return moments_engine(task, model.feature_map, seed, dtype)


def _check_reduced(task: AbstractTask, model: AbstractFeatureModel, seed: int) -> None:
    """Refuse a model whose zero blocks would not stay zero under infinitely many prompts."""
    blocks = model.zero_blocks()
    if not blocks:
        return
    # Means other than zero break the symmetry w → −w that keeps the zero blocks of full attention at zero.
    laws = task.label_laws(seed)
    if len(laws) > 1 or any(np.any(np.asarray(law.mean)) for law in laws):
        raise MissingClosedForm(
            "under a task prior with a non-zero mean (or an in-context mix) full attention leaves the reduced "
            "model, and its population loss has no closed form here: use engine moments or samples with a finite "
            "number of prompts, or a *_reduced model"
        )
    if any(np.asarray(block).any() for block in blocks):
        raise MissingClosedForm(
            "the population loss has a closed form only while the zero blocks are zero: set init zero_blocks, or "
            "use engine moments or samples"
        )
