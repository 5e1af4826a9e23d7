"""What a theory offers to runs: whether it covers a recipe, the levels it expects, and the whole run it predicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.checks import check_type
from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..core.registry import THEORIES
from ..core.trace import Trace


@dataclass(frozen=True)
class Levels:
    """Losses at which a theory expects plateaus or ends of training.

    Args:
        heights: (level) every level, in decreasing order.
        names: (level) their names, as mathematics for figures.
        visited: indices of the levels that a run of the recipe is expected to visit.

    >>> Levels(np.array([1.0, 0.2]), ("$L(M_0)$", "$L(M_1)$"), (0, 1)).visited
    (0, 1)
    """

    heights: np.ndarray
    names: tuple[str, ...]
    visited: tuple[int, ...]


class AbstractTheory(ABC):
    """The theory of one paper, asked about a recipe. Registered in `core.registry.THEORIES`.

    `Options` is a dataclass of sizes whose fields are the flags of ``iclearn theory NAME``.

    >>> THEORIES.get("zhang2025").summary(THEORIES.get("zhang2025").Options(eigenvalues=(1.0,)))["dim"]
    1
    """

    name: ClassVar[str]
    Options: ClassVar[type]

    @abstractmethod
    def refusal(self, recipe: Recipe) -> str | None:
        """Why this recipe is outside the theory, in one line; None where it is covered."""

    @abstractmethod
    def levels(self, recipe: Recipe) -> Levels:
        """The levels of a recipe that is covered."""

    def predict(self, recipe: Recipe, weights: dict[str, Any] | None, **options: Any) -> Any:
        """The run of a covered recipe; here, for theories without the course of training, its levels alone.

        Args:
            recipe: the recipe.
            weights: the initial weights, named as the model names them (None: drawn from the recipe's seed).
            options: what else this theory can be asked.

        Returns:
            An `xarray.Dataset` with the names and axes of a Trace, or ``saddle_loss`` over ``plateau``.
        """
        import xarray as xr

        levels, attrs = self.levels(recipe), {"paper": self.name}
        return xr.Dataset({"saddle_loss": ("plateau", levels.heights)}, {"plateau": list(levels.names)}, attrs)

    @abstractmethod
    def summary(self, options: Any) -> dict[str, Any]:
        """The theory's numbers for one set of sizes.

        Args:
            options: an instance of `Options`.

        Returns:
            Names and values that can be written as JSON.
        """

    def require(self, recipe: Recipe) -> None:
        """Raise `IclearnError`, with the reason that `refusal` gives, for a recipe that is not covered."""
        if (reason := self.refusal(recipe)) is not None:
            raise IclearnError(reason)


def theory_of(recipe: Recipe) -> AbstractTheory | None:
    """The first registered theory that covers a recipe.

    Args:
        recipe: the recipe.

    Returns:
        The theory; None if none covers the recipe.

    >>> from iclearn import LSA, LinearRegression
    >>> theory_of(Recipe(task=LinearRegression(dim=2), model=LSA())).name
    'xie2025'
    """
    found = (THEORIES.get(name) for name in THEORIES.names())
    return next((theory for theory in found if theory.refusal(recipe) is None), None)


def levels_of(recipe: Recipe, name: str) -> Levels:
    """The levels that one theory expects of a recipe.

    Args:
        recipe: the recipe; one that the theory does not cover is refused with `IclearnError`.
        name: of the theory, as in `core.registry.THEORIES`.

    Returns:
        The `Levels`.

    >>> from iclearn import Attention, LinearRegression
    >>> recipe = Recipe(task=LinearRegression(dim=2, context_len=8), model=Attention("merged"))
    >>> levels_of(recipe, "zhang2025").visited  # merged attention goes from M_0 to M_D in one drop
    (0, 2)
    """
    theory: AbstractTheory = THEORIES.get(name)
    theory.require(recipe)
    return theory.levels(recipe)


def predict(run: Trace | Recipe, theory: str | None = None, **options: Any) -> Any:
    """The theory of this very run, under the names and axes of its Trace, so that the two can be laid over each other.

    Args:
        run: a Trace (its initial weights and covariance are used), or a Recipe (they are drawn from its seed).
        theory: the name of a theory (None: the first that covers the run).
        options: passed on to the theory, e.g. ``method="flow"`` for zhang2025.

    Returns:
        An `xarray.Dataset` with ``loss`` over ``step`` and what else the theory knows.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> recipe = icl.Recipe(task=task, model=icl.Attention("separate", num_heads=2), init=icl.Init(0.1), steps=50)
    >>> icl.predict(recipe)["loss"].sizes["step"]
    50
    """
    recipe = run.recipe if isinstance(run, Trace) else run
    check_type("a run to predict", recipe, Recipe, "predict(trace) or predict(recipe)")
    found: AbstractTheory | None = theory_of(recipe) if theory is None else THEORIES.get(theory)
    if found is None:
        reasons = "; ".join(f"{name}: {THEORIES.get(name).refusal(recipe)}" for name in THEORIES.names())
        raise IclearnError(f"no theory covers this run ({reasons})")
    found.require(recipe)
    start = None
    if isinstance(run, Trace) and "record" in run.data and int(run.data["record"][0]) == 0:
        start = run.weights(0)
    return found.predict(recipe, start, **options)
