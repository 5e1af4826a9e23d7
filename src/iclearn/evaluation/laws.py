"""The law that a run was trained on: a class of functions whose shifts can be drawn, or a task that is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import IclearnError, MissingClosedForm
from ..core.prompt import Prompt
from ..core.recipe import Recipe
from ..core.task import AbstractTask
from ..models.predictors import Bayes
from ..tasks.function_class import FunctionClass
from ..tasks.function_laws import LinearFunctions
from ..tasks.function_points import Points
from ..tasks.pooled_regression import PooledRegression
from ..tasks.prompt_shifts import Shift
from ..tasks.regression import LinearRegression
from ..tasks.varied_regression import VariedRegression
from ..theory.functions import linear_law

ANYWAY = "evaluate it on standard inputs and tasks anyway with --standard (in Python: task=FunctionClass(…))"


@dataclass(frozen=True, eq=False)
class EvaluationLaw:
    """A class of functions and, where inputs are not N(0, I), their covariance; or any other task.

    Args:
        task: the class, with its noise and length.
        covariance: (dim, dim) of the inputs (None: identity, or what the class says).
        own: a task that is no class of functions: its prompts are asked for their query, without shifts. Then `task`
            says no more than their sizes, and that there may be noise.
    """

    task: FunctionClass
    covariance: Float[np.ndarray, "dim dim"] | None = None
    own: AbstractTask | None = None

    @property
    def normalizer(self) -> float:
        """What squared errors are divided by: about 1 for answering 0; nothing where the law is not known."""
        if self.own is not None:
            return 1.0
        spread = 1.0 if self.covariance is None else float(np.trace(self.covariance)) / self.task.dim
        return self.task.normalizer * spread

    def points(self, shift: Shift | None, num_prompts: int, seed: int | Array) -> Points:
        """Prompts under a shift; from the same draws whatever the shift.

        Args:
            shift: the shift (None: the law itself).
            num_prompts: how many.
            seed: the root seed.

        Returns:
            The prompts, in double precision.
        """
        if self.own is not None:
            drawn = _prompts(self.own, num_prompts, seed)
            x = jnp.concatenate([drawn.prompt.x, drawn.prompt.query[:, None]], 1)
            y = jnp.concatenate([drawn.prompt.y, drawn.target[:, None]], 1)
            return Points(x, y, y, {})
        factor = None
        if self.covariance is not None:
            values, vectors = np.linalg.eigh(self.covariance)
            factor = (vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T
        return self.task.evaluation(shift, num_prompts=num_prompts, seed=seed, factor=factor)

    def bayes(self, shift: Shift | None = None) -> Bayes | None:
        """The Bayes predictor of the labels under a shift, which is a closed form for linear functions.

        Args:
            shift: what it knows of (None: it knows the law itself).

        Returns:
            The predictor; None where the labels are not Gaussian given the inputs.
        """
        if self.own is not None:
            return None
        try:
            law = linear_law(self.task, shift)
        except MissingClosedForm:
            return None
        return Bayes(law.mean, law.covariance, law.noise)

    def describe(self) -> str:
        """One line."""
        if self.own is not None:
            return self.own.describe()
        noise = f", noise variance {self.task.noise:g}" if self.task.noise else ", no noise"
        inputs = "" if self.covariance is None else ", inputs with the covariance of training"
        points = f"{self.task.context_len} pairs and a query in {self.task.dim} dimensions"
        return f"{self.task.functions.describe()}: {points}{noise}{inputs}"


def standard_task(dim: int, context_len: int, noise: float = 0.0) -> FunctionClass:
    """Linear functions w·x of inputs N(0, I) with w ~ N(0, I).

    Args:
        dim: dimension of the inputs.
        context_len: pairs before the last query.
        noise: variance of the noise on labels.

    Returns:
        The class of functions.
    """
    return FunctionClass(dim=dim, context_len=context_len, noise=noise)


def law_of(recipe: Recipe, name: str = "the run") -> EvaluationLaw:
    """The law of evaluation for a trained run: its own, with a new function in every prompt.

    Args:
        recipe: of the run.
        name: of the run, for messages.

    Returns:
        The law; see `law_of_task`.
    """
    return law_of_task(recipe.task, recipe.seed, name)


def law_of_task(task: AbstractTask, seed: int, name: str) -> EvaluationLaw:
    """The law of evaluation for a task, with a new function in every prompt.

    Args:
        task: the task.
        seed: of the directions of its covariance.
        name: of the task or of the run that was trained on it, for messages.

    Returns:
        The law. Regression that is no class of functions with a standard prior is refused, and so are tasks whose
        prompts are no pairs with one label each.
    """
    if isinstance(task, FunctionClass):
        plain = {"num_prompts": None, "num_tasks": None, "test_prompts": 0, "test_shifts": (), "curriculum": None}
        return EvaluationLaw(task.replace(**plain))
    size = standard_task(task.dim, task.context_len)
    if isinstance(task, PooledRegression):
        spread = task.task_covariance.values(task.dim)
        _check(np.allclose(spread, spread[0]), name, "tasks that are not isotropic")
        functions = LinearFunctions(scale=float(np.sqrt(spread[0])))
        target = "shown" if task.target_noise else "clean"
        drawn = size.replace(functions=functions, noise=task.noise, target=target)
        return EvaluationLaw(drawn, _unless_identity(task.covariance_matrix(seed)))
    if isinstance(task, LinearRegression):
        _check(task.out_dim == 1, name, f"{task.out_dim} outputs")
        _check(task.in_context == 1, name, "task vectors that prompts share")
        _check(task.prior_mean is None and task.prior_covariance is None, name, "a prior of its own")
        if isinstance(task, VariedRegression):
            plain = task.inputs == "gaussian" and not task.inverse_prior
            _check(plain and not task.noise_levels and task.noise_range is None, name, f"the law {task.describe()}")
        drawn = size.replace(noise=task.noise, target="clean")
        return EvaluationLaw(drawn, _unless_identity(task.covariance_matrix(seed)))
    pairs = task.prompt_type is Prompt and not task.gives_features and not task.needs_dataset
    _check(pairs, name, f"prompts of {task.kind}")
    _check(task.out_dim == 1, name, f"{task.out_dim} outputs")
    _check(bool(_prompts(task, 2, seed).prompt.mask.all()), name, "prompts with masked pairs")
    return EvaluationLaw(size.replace(noise=1.0), own=task)


def _prompts(task: AbstractTask, count: int, seed: int | Array) -> Any:
    return task.unchecked(num_prompts=count).source(seed, "float64").everything()


def _check(fits: bool, name: str, what: str) -> None:
    if not fits:
        raise IclearnError(f"{name} has {what}, which no class of functions has: {ANYWAY}")


def _unless_identity(covariance: object) -> np.ndarray | None:
    matrix = np.asarray(covariance, float)
    return None if np.allclose(matrix, np.eye(len(matrix)), atol=1e-12) else matrix
