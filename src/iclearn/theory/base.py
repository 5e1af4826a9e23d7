"""What a theory offers to runs: whether it covers a recipe, the levels it expects, and the whole run it predicts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..core.registry import THEORIES
from ..core.trace import Trace

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Levels:
    """Losses at which a theory expects plateaus or ends, in decreasing order.

    Args:
        heights: every level.
        names: of the levels, as mathematics for figures.
        visited: indices of the levels that a run of this recipe is expected to visit.
    """

    heights: np.ndarray
    names: tuple[str, ...]
    visited: tuple[int, ...]


class AbstractTheory(ABC):
    """The theory of one paper, asked about a recipe. Registered in `core.registry.THEORIES`.

    `Options` is a dataclass of sizes whose fields are the flags of ``iclearn theory NAME``.
    """

    name: ClassVar[str]
    Options: ClassVar[type]

    @abstractmethod
    def refusal(self, recipe: Recipe) -> str | None:
        """Why this recipe is outside the theory, in one line; None where it is covered."""

    @abstractmethod
    def levels(self, recipe: Recipe) -> Levels:
        """The levels of a recipe that is covered."""

    @abstractmethod
    def predict(self, recipe: Recipe, weights: dict[str, Any] | None, **options: Any) -> xr.Dataset:
        """The run of a covered recipe, with the names and axes of a Trace; `weights` are its initial ones."""

    @abstractmethod
    def summary(self, options: Any) -> dict[str, Any]:
        """The theory's numbers for one set of sizes (an `Options`), as values that go into JSON."""

    def require(self, recipe: Recipe) -> None:
        """Refuse a recipe that is not covered."""
        if (reason := self.refusal(recipe)) is not None:
            raise IclearnError(reason)


def theory_of(recipe: Recipe) -> AbstractTheory | None:
    """The first theory that covers a recipe."""
    found = (THEORIES.get(name) for name in THEORIES.names())
    return next((theory for theory in found if theory.refusal(recipe) is None), None)


def levels_of(recipe: Recipe, name: str) -> Levels:
    """The levels that the theory `name` expects; a recipe that it does not cover is refused."""
    theory: AbstractTheory = THEORIES.get(name)
    theory.require(recipe)
    return theory.levels(recipe)


def predict(run: Trace | Recipe, theory: str | None = None, **options: Any) -> xr.Dataset:
    """The theory of this very run, under the names and axes of its Trace, so that one lies over the other.

    Args:
        run: a Trace (its initial weights and covariance are used), or a Recipe (they are drawn from its seed).
        theory: the name of a theory (None: the one that covers the run).
        options: passed on, e.g. ``method="flow"`` for zhang2025.

    Returns:
        A Dataset with ``loss`` over ``step`` and what else the theory knows.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> recipe = icl.Recipe(task=task, model=icl.Attention("separate", num_heads=2), init=icl.Init(0.1), steps=50)
    >>> icl.predict(recipe)["loss"].sizes["step"]
    50
    """
    recipe = run.recipe if isinstance(run, Trace) else run
    found: AbstractTheory | None = theory_of(recipe) if theory is None else THEORIES.get(theory)
    if found is None:
        reasons = "; ".join(f"{name}: {THEORIES.get(name).refusal(recipe)}" for name in THEORIES.names())
        raise IclearnError(f"no theory covers this run ({reasons})")
    found.require(recipe)
    start = None
    if isinstance(run, Trace) and "record" in run.data and int(run.data["record"][0]) == 0:
        start = run.weights(0)
    return found.predict(recipe, start, **options)
