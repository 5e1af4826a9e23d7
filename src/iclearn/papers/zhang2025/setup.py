"""What the figures of zhang2025 share: the public code's task, units, eigenbasis, and the theory's lines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...core.crossing import first_below
from ...core.recipe import Init, Optimizer, Recipe
from ...core.trace import Trace
from ...models import Attention
from ...tasks import Covariance, LinearRegression
from ...theory.zhang2025 import gain_of, saddle_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..lab import Lab

Group = TypeVar("Group")
Found = TypeVar("Found")

CONTEXT = 31  # the public code's 32 tokens, less the query
GAIN = gain_of("none", CONTEXT)  # its sum over tokens is not divided by N


def public_task(dim: int = 4, prompts: int | None = 5000, *, white: bool = False, **changes: Any) -> LinearRegression:
    """The data the public command lines mean: λ ∝ d rotated (or white), centered inputs, whitened task vectors."""
    fixed = prompts is not None
    task = LinearRegression(
        dim=dim,
        context_len=CONTEXT,
        covariance=Covariance.white() if white else Covariance.linear(),
        num_prompts=prompts,
        center=fixed,
        whiten=fixed,
    )
    return task.replace(**changes) if changes else task


def merged_recipe(seed: int, task: LinearRegression, family: str = "merged", **changes: Any) -> Recipe:
    """attnM as in Figure 1: H = 8, init 1e-6, lr 1e-3, 6001 steps."""
    recipe = Recipe(
        task=task,
        model=Attention(family, num_heads=8),  # type: ignore[arg-type]
        init=Init(1e-6),
        optimizer=Optimizer(lr=1e-3),
        steps=6001,
        seed=seed,
    )
    return recipe.replace(**changes) if changes else recipe


def separate_recipe(
    seed: int, task: LinearRegression, *, heads: int, rank: int = 1, init: float, steps: int, **changes: Any
) -> Recipe:
    """attnS as in Figures 3 and 4: lr 0.02."""
    recipe = Recipe(
        task=task,
        model=Attention("separate", num_heads=heads, rank=rank),
        init=Init(init),
        optimizer=Optimizer(lr=0.02),
        steps=steps,
        seed=seed,
    )
    return recipe.replace(**changes) if changes else recipe


def eigenvalues(dim: int, *, white: bool = False) -> np.ndarray:
    return (Covariance.white() if white else Covariance.linear()).values(dim)


def levels(dim: int, *, white: bool = False) -> np.ndarray:
    """L(M_0), …, L(M_D) (19)."""
    return np.asarray(saddle_losses(eigenvalues(dim, white=white), CONTEXT))


def time_scales(dim: int) -> np.ndarray:
    """Each plateau's own unit of time, τ/(gain·λ_{m+1}²), in t/τ."""
    return 1 / (GAIN * eigenvalues(dim) ** 2)


def basis(trace: Trace) -> np.ndarray:
    """Eigenvectors of the run's Λ as columns, largest eigenvalue first."""
    return np.linalg.eigh(trace.data.variables["covariance"].values)[1][:, ::-1]


def once_a_run(function: Callable[[Trace], Found]) -> Callable[[Trace], Found]:
    """The function, which keeps what it finds with the run: claims and drawings ask for it again and again.

    Args:
        function: of a run alone.

    Returns:
        The same function; of the same `Trace` it returns the same object.
    """

    @functools.wraps(function)
    def found(trace: Trace) -> Found:
        kept = trace.__dict__.setdefault("kept", {})  # it goes with the run, and a changed run has none
        if function not in kept:
            kept[function] = function(trace)
        return kept[function]

    return found


def draw_levels(axes: Axes, heights: Sequence[float] | np.ndarray, *, names: bool = True) -> None:
    """Dotted lines at the theory's levels, named at the right edge."""
    for m, height in enumerate(heights):
        axes.axhline(height, color="0.5", ls=":", lw=1.2, zorder=0)
        if names:
            axes.annotate(
                rf"$L(M_{{{m}}})$",
                (1.01, height),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=9,
                color="0.3",
            )


def run_groups(lab: Lab, plans: Mapping[Group, Sequence[Recipe]]) -> dict[Group, list[Trace]]:
    """The traces of each group of recipes, in the order of its recipes.

    The first recipes of all groups are run before the second ones, so that runs of one seed share their moments.
    """
    order = sorted(((i, group) for group, plan in plans.items() for i in range(len(plan))), key=lambda place: place[0])
    traces = lab.run([plans[group][i] for i, group in order])
    found: dict[Group, list[Trace]] = {group: [] for group in plans}
    for (_, group), trace in zip(order, traces, strict=True):
        found[group].append(trace)
    return found


def half_step(loss: np.ndarray) -> float:
    """The step, interpolated, at which half of a curve's whole fall is done."""
    return float(first_below(loss, np.arange(float(len(loss))), (loss[0] + loss[-1]) / 2))
