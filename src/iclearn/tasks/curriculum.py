"""Curricula: prompts that grow in dimensions and points while a model is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Int

from ..core import jax_settings as jax_settings
from ..core.checks import check_int, require
from ..core.spec import Spec


@dataclass(frozen=True)
class Curriculum(Spec, kind="curriculum"):
    """Dimensions and points of the prompts of step t: min(end, start + increment · ⌊t/interval⌋) (Garg et al. 2022).

    Coordinates from the number of dimensions on are 0, and the loss is over the positions below the number of points.
    The defaults are those for linear functions of 20 dimensions: full size from step 30,000 on.

    Args:
        dims_start: dimensions at step 0.
        dims_end: dimensions in the end.
        dims_increment: dimensions more after each interval.
        dims_interval: steps.
        points_start: points at step 0.
        points_end: points in the end.
        points_increment: points more after each interval.
        points_interval: steps.

    >>> [tuple(map(int, Curriculum().at(step))) for step in (0, 2000, 30_000)]
    [(5, 11), (6, 13), (20, 41)]
    """

    dims_start: int = 5
    dims_end: int = 20
    dims_increment: int = 1
    dims_interval: int = 2000
    points_start: int = 11
    points_end: int = 41
    points_increment: int = 2
    points_interval: int = 2000

    def __post_init__(self) -> None:
        for what in ("dims", "points"):
            for name, least in (("start", 1), ("end", 1), ("increment", 0), ("interval", 1)):
                check_int(f"{what}_{name}", getattr(self, f"{what}_{name}"), least)
            start, end = getattr(self, f"{what}_start"), getattr(self, f"{what}_end")
            require(start <= end, f"a curriculum grows: {what} from {start} to {end}")

    def at(self, step: Any) -> tuple[Int[Array, "*step"], Int[Array, "*step"]]:
        """Dimensions and points at a step of training.

        Args:
            step: the step, from 0 on, or many; may be traced.

        Returns:
            Dimensions and points, of the shape of `step`.
        """
        grown = (
            jnp.minimum(
                getattr(self, f"{what}_end"),
                getattr(self, f"{what}_start")
                + getattr(self, f"{what}_increment") * (jnp.asarray(step) // getattr(self, f"{what}_interval")),
            )
            for what in ("dims", "points")
        )
        dims, points = grown
        return dims, points
