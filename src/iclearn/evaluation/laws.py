"""The law that a run was trained on, as a class of functions whose shifts can be drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float

from ..core.errors import IclearnError, MissingClosedForm
from ..core.recipe import Recipe
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
    """A class of functions and, where inputs are not N(0, I), their covariance.

    Args:
        task: the class, with its noise and length.
        covariance: (dim, dim) of the inputs (None: identity, or what the class says).
    """

    task: FunctionClass
    covariance: Float[np.ndarray, "dim dim"] | None = None

    @property
    def normalizer(self) -> float:
        """What squared errors are divided by: about 1 for answering 0."""
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
        try:
            law = linear_law(self.task, shift)
        except MissingClosedForm:
            return None
        return Bayes(law.mean, law.covariance, law.noise)

    def describe(self) -> str:
        """One line."""
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
        The law. Tasks that are no class of functions with a standard prior are refused.
    """
    task = recipe.task
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
        return EvaluationLaw(drawn, _unless_identity(task.covariance_matrix(recipe.seed)))
    if isinstance(task, LinearRegression):
        _check(task.out_dim == 1, name, f"{task.out_dim} outputs")
        _check(task.in_context == 1, name, "task vectors that prompts share")
        _check(task.prior_mean is None and task.prior_covariance is None, name, "a prior of its own")
        if isinstance(task, VariedRegression):
            plain = task.inputs == "gaussian" and not task.inverse_prior
            _check(plain and not task.noise_levels and task.noise_range is None, name, f"the law {task.describe()}")
        drawn = size.replace(noise=task.noise, target="clean")
        return EvaluationLaw(drawn, _unless_identity(task.covariance_matrix(recipe.seed)))
    raise IclearnError(f"{name} was trained on {task.kind}, which is no class of functions: {ANYWAY}")


def _check(fits: bool, name: str, what: str) -> None:
    if not fits:
        raise IclearnError(f"{name} was trained with {what}, which no class of functions has: {ANYWAY}")


def _unless_identity(covariance: object) -> np.ndarray | None:
    matrix = np.asarray(covariance, float)
    return None if np.allclose(matrix, np.eye(len(matrix)), atol=1e-12) else matrix
