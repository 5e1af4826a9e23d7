"""Which runs have a compiled form, and which of its forms."""

from __future__ import annotations

from ...core.errors import IclearnError
from ...core.recipe import Recipe
from ..batch.rows import sizes_of_run
from ..build import Setup
from ..contractions import Sizes
from .programs import RULES
from .switch import SWITCH, available, choice

NO_FORM = (
    "it is for exact engines, linear attention with one output, no test sets, and gd, sgd, momentum, adam, adamw, flow"
)
MOST_NUMBERS = 4_000_000  # of a form; beyond, a step is a product with a matrix in memory, whoever makes it
MOST_PRODUCTS = 2_000_000  # of a step; beyond, nothing was measured
MOST_HEAD_PRODUCTS = 100_000  # of those, outside the form; beyond, matrix products of a library overtake loops


def compiled_sizes(recipe: Recipe, setup: Setup) -> Sizes | None:
    """The sizes of the compiled form of a run, whether or not compiled code may be used.

    Args:
        recipe: the experiment.
        setup: where it starts.

    Returns:
        The sizes, or None where the run has no such form. The form is diagonal where the loss is in the basis of the
        recipe, and ``kronecker`` where it would have to be rotated first.
    """
    if recipe.optimizer.rule not in RULES or recipe.optimizer.batch_size is not None or not recipe.optimizer.plain:
        return None
    sizes = sizes_of_run(setup.task, setup.model, setup.engine)
    if sizes is None or sizes.num_numbers > MOST_NUMBERS or sizes.products > MOST_PRODUCTS:
        return None
    if sizes.products - sizes.form_products > MOST_HEAD_PRODUCTS:
        return None
    if sizes.form == "diagonal" and not setup.task.diagonal_inputs:
        return sizes._replace(form="kronecker")
    return sizes


def batch_sizes(recipe: Recipe, setup: Setup) -> tuple[Sizes, bool] | None:
    """As `compiled_sizes`, for many runs.

    Args:
        recipe: of one of them.
        setup: of the same.

    Returns:
        The sizes, and whether runs are trained in the eigenbasis of their inputs, with which gradient descent and
        momentum commute and Adam does not.
    """
    sizes = compiled_sizes(recipe, setup)
    if sizes is None:
        return None
    rotate = sizes.form == "kronecker" and setup.task.isotropic and recipe.optimizer.rule in ("gd", "sgd", "momentum")
    return (sizes._replace(form="diagonal") if rotate else sizes), rotate


def run_sizes(recipe: Recipe, setup: Setup) -> Sizes | None:
    """The sizes of a single run that is trained by compiled code.

    It depends on the recipe alone, so that the same recipe gives the same numbers alone and side by side with others.

    Args:
        recipe: the experiment.
        setup: where it starts.

    Returns:
        The sizes, or None where the loop in JAX trains it.
    """
    if not available():
        return None
    sizes = compiled_sizes(recipe, setup)
    if sizes is None and choice() == "require":
        raise IclearnError(f"{SWITCH} is require, but this run has no compiled form: {NO_FORM}")
    return sizes
