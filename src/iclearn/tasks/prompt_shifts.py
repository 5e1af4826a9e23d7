"""Shifts of a law of prompts: other inputs, tasks, labels, queries, lengths and noise, as specs.

The shifts of Garg et al. 2022 ("G"), Akyürek et al. 2023 ("A") and Campbell et al. 2024 ("C") are listed by name
(`garg_shifts`, `akyurek_shifts`, `campbell_shifts`); `SWEEPS` has grids of amounts for those that are continuous. C's
are as they were meant: in its public code scaled inputs are not scaled, and the context and the query of its test by
quadrants follow different functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..core import jax_settings as jax_settings
from ..core.checks import require
from ..core.spec import Spec

Name = Literal[
    "half_subspace", "skewed", "scale_x", "condition_number", "input_mean", "input_tails", "input_noise",
    "prior_mean", "prior_scale",
    "scale_y", "noise", "noise_tails", "noisyLR",
    "random_quadrants", "opposite_quadrants", "orthogonal_train_test", "overlapping_train_test", "orthogonal_line",
    "length",
]  # fmt: skip
# Least amounts of the shifts that have one; those of tails are exclusive.
_LEAST = {
    "scale_x": 0.0, "condition_number": 1.0, "input_mean": -np.inf, "input_tails": 2.0, "input_noise": 0.0,
    "prior_mean": -np.inf, "prior_scale": 0.0, "scale_y": 0.0, "noise": 0.0, "noise_tails": 2.0, "length": 0.0,
}  # fmt: skip
OF_INPUTS = frozenset(
    {"half_subspace", "skewed", "scale_x", "condition_number", "input_mean", "input_tails", "input_noise"}
)
OF_PRIOR = frozenset({"prior_mean", "prior_scale"})
OF_QUERIES = frozenset(
    {"random_quadrants", "opposite_quadrants", "orthogonal_train_test", "overlapping_train_test", "orthogonal_line"}
)
ROTATED = frozenset({"half_subspace", "skewed", "condition_number"})


@dataclass(frozen=True)
class Shift(Spec, kind="shift"):
    """One change of a law of prompts: ``Shift("scale_x", 2.0)``.

    Args:
        name: what changes. Of the inputs, context and query alike, g standing for N(0, I) and d for the dimension:
            ``half_subspace`` (in a subspace of ⌊d/2⌋ dimensions), ``skewed`` (standard deviations ∝ 1/j, j = 1..d) and
            ``condition_number`` (⌊d/2⌋ directions have `amount` times the variance of the others): each keeps
            E‖x‖² = d and has one random rotation for the whole set; ``scale_x`` (amount · g), ``input_mean``
            (g + amount), ``input_tails`` (coordinates of Student's law with `amount` degrees of freedom, of variance
            1), ``input_noise`` (inputs are shown with noise of standard deviation `amount`, which labels do not see).
            Of the tasks: ``prior_mean`` (w + amount), ``prior_scale`` (amount · w). Of the labels: ``scale_y``
            (amount · y), ``noise`` (its standard deviation), ``noise_tails`` (the task's noise of Student's law, of
            the same variance), ``noisyLR`` (noise of standard deviation 1, then labels are renormalized). Of the
            queries: ``random_quadrants`` (the context in one random orthant a prompt, queries anywhere),
            ``opposite_quadrants`` (queries in the opposite one), ``orthogonal_train_test`` (queries orthogonal to the
            context, of the same norm; 0 from d pairs on), ``overlapping_train_test`` (the query is a pair of the
            context), ``orthogonal_line`` (C: context in a random hyperplane, query on the line orthogonal to it).
            ``length``: `amount` times as many points.
        amount: how much, for the shifts that say so above; None for the others.

    >>> Shift("scale_x", 2.0).label, Shift("skewed").label
    ('scale_x=2', 'skewed')
    """

    shorthand: ClassVar[str] = "name"

    name: Name = "skewed"
    amount: float | None = None

    def __post_init__(self) -> None:
        if self.name not in _LEAST:
            require(self.amount is None, f"the shift {self.name} has no amount, and {self.amount} was given")
            return
        if self.amount is None:
            require(False, f"the shift {self.name} needs an amount")
        least, value = _LEAST[self.name], self.size
        above = value > least if self.name in ("input_tails", "noise_tails", "length") else value >= least
        require(above and np.isfinite(value), f"the amount of {self.name} must be finite and above {least:g}: {value}")

    @property
    def size(self) -> float:
        """The amount; 1 where there is none."""
        return 1.0 if self.amount is None else float(self.amount)

    @property
    def label(self) -> str:
        """A name for test sets, tables and figures."""
        return self.name if self.amount is None else f"{self.name}={self.amount:g}"

    def describe(self) -> str:
        return self.label

    def deviations(self, dim: int) -> np.ndarray | None:
        """Standard deviations of the inputs along the axes of the random rotation, E‖x‖² being dim.

        Args:
            dim: dimension of the inputs.

        Returns:
            (dim) the deviations; None for shifts without a rotation.
        """
        if self.name not in ROTATED:
            return None
        first = np.arange(dim) < dim // 2
        shapes = {
            "half_subspace": first.astype(float),
            "skewed": 1 / (1.0 + np.arange(dim)),
            "condition_number": np.where(first, np.sqrt(self.size), 1.0),
        }
        shape = shapes[self.name]
        return shape * np.sqrt(dim / np.sum(shape**2))


def garg_shifts() -> tuple[Shift, ...]:
    """The 14 shifted evaluations of Garg et al. 2022, and ``opposite_quadrants``, which is in its code but in no list.

    >>> len(garg_shifts())
    15
    """
    scaled = [Shift(name, s) for name in ("scale_x", "scale_y") for s in (0.333, 0.5, 2.0, 3.0)]
    names = ("random_quadrants", "orthogonal_train_test", "overlapping_train_test", "opposite_quadrants")
    return (Shift("half_subspace"), Shift("skewed"), *scaled, Shift("noisyLR"), *(Shift(name) for name in names))


def akyurek_shifts(dim: int) -> tuple[Shift, ...]:
    """Those of Akyürek et al. 2023: inputs or tasks scaled or moved by 2.5, and noise of standard deviation dim/20.

    Args:
        dim: dimension of the inputs.

    Returns:
        The shifts.
    """
    moved = [Shift(name, 2.5) for name in ("scale_x", "prior_scale", "input_mean", "prior_mean")]
    return (*moved, Shift("noise", dim / 20))


def campbell_shifts() -> tuple[Shift, ...]:
    """Those of Campbell et al. 2024, as meant: scales 1/8 to 8, noise of variance 1/16 to 1, and two of queries."""
    scaled = [Shift(name, 2.0**k) for name in ("scale_x", "scale_y") for k in (-3, -2, -1, 1, 2, 3)]
    noisy = [Shift(name, 2.0 ** (k / 2)) for name in ("noise", "input_noise") for k in (-4, -3, -2, -1, 0)]
    return (*scaled, *noisy, Shift("random_quadrants"), Shift("orthogonal_line"))


# Continuous shifts → amounts around the training law.
SWEEPS: dict[str, tuple[float, ...]] = {
    "scale_x": (0.25, 0.5, 1.0, 2.0, 4.0),
    "scale_y": (0.25, 0.5, 1.0, 2.0, 4.0),
    "condition_number": (1.0, 10.0, 100.0, 1000.0, 10_000.0),
    "prior_mean": (0.0, 0.5, 1.0, 2.0, 3.0),
    "prior_scale": (0.25, 0.5, 1.0, 2.0, 4.0),
    "noise": (0.0, 0.25, 0.5, 1.0, 2.0),
    "input_tails": (30.0, 10.0, 6.0, 4.0, 3.0),
    "input_mean": (0.0, 0.5, 1.0, 1.5, 2.0),
    "length": (1.0, 2.0, 3.0, 4.0),
}


def sweep_shifts() -> tuple[Shift, ...]:
    """All shifts of `SWEEPS`, one after the other."""
    return tuple(Shift(name, amount) for name, amounts in SWEEPS.items() for amount in amounts)  # type: ignore[arg-type]


def quadrant_inputs(
    gaussian: Float[Array, "*prompt point dim"], pattern: Float[Array, "*prompt 1 dim"]
) -> Float[Array, "*prompt point dim"]:
    """Inputs moved into the orthant of a sign pattern.

    Args:
        gaussian: (…, point, dim) inputs.
        pattern: (…, 1, dim) signs.

    Returns:
        |inputs| ∘ pattern.
    """
    return jnp.abs(gaussian) * pattern


def orthogonal_queries(x: Float[Array, "point dim"]) -> Float[Array, "point dim"]:
    """For every point its component orthogonal to all points before it, with the norm of the point.

    Args:
        x: (point, dim) the inputs.

    Returns:
        (point, dim) the queries; 0 from point dim on, where nothing is orthogonal.
    """
    points, dim = x.shape
    count = min(points, dim)
    basis, triangle = jnp.linalg.qr(x[:count].T)  # column i: the new direction of point i, up to its sign
    turned = (basis * jnp.sign(jnp.diagonal(triangle))).T
    lengths = jnp.linalg.norm(x[:count], axis=1, keepdims=True)
    return jnp.zeros_like(x).at[:count].set(turned * lengths)


def overlapping_queries(x: Float[Array, "point dim"], index: Int[Array, " point"]) -> Float[Array, "point dim"]:
    """Queries that are points of the context.

    Args:
        x: (point, dim) the inputs.
        index: (point) which earlier point is asked; at point 0, which has none, it must be 0.

    Returns:
        (point, dim) the queries.
    """
    return x[index]


def line_inputs(
    gaussian: Float[Array, "point dim"], direction: Float[Array, " dim"]
) -> tuple[Float[Array, "point dim"], Float[Array, "point dim"]]:
    """Inputs split into a hyperplane and the line orthogonal to it.

    Args:
        gaussian: (point, dim) inputs.
        direction: (dim) of the line; any length.

    Returns:
        The context in the hyperplane, and the queries on the line.
    """
    unit = direction / jnp.linalg.norm(direction)
    along = jnp.outer(gaussian @ unit, unit)
    return gaussian - along, along


def renormalizing_factor(
    labels: Float[Array, "prompt point"], dim: int, present: Float[Array, " prompt"] | None = None
) -> Float[Array, ""]:
    """√dim over the standard deviation (n − 1) of all labels of a batch (G).

    Args:
        labels: (prompt, point) the labels.
        dim: dimension of the inputs.
        present: (prompt) 1 for prompts that count, else 0 (None: all).

    Returns:
        () the factor.
    """
    weight = jnp.ones_like(labels) if present is None else jnp.broadcast_to(present[:, None], labels.shape)
    count = weight.sum()
    mean = jnp.sum(weight * labels) / count
    variance = jnp.sum(weight * (labels - mean) ** 2) / jnp.maximum(count - 1, 1)
    return jnp.sqrt(dim / variance)
