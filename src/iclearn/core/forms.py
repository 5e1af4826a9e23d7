"""Quadratic forms: the squared loss of a model that is linear in fixed features of the prompt.

With coefficients T the loss is c − 2⟨b, T⟩ + ⟨T, M T⟩: the data enters through the moments c = E y², b = E[y φ] and
M = E[φφᵀ] only. A form may keep M in a structure that makes it cheap.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from . import jax_settings as jax_settings

TreeT = TypeVar("TreeT")


@jax.custom_jvp
def quadratic(t: Array, second: Array, cross: Array, constant: Array) -> Array:
    """c + mean over outputs of T·(M T − 2 b), for symmetric M, differentiable in T.

    The derivative 2(M T − b) is written out so that one product M T serves the loss and its gradient. M, b and c
    are data: no derivative flows to them.
    """
    return constant + jnp.sum(t * (second @ t - 2 * cross)) / t.shape[1]


@quadratic.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    t, second, cross, constant = primals
    product = second @ t
    value = constant + jnp.sum(t * (product - 2 * cross)) / t.shape[1]
    return value, 2 * jnp.sum(tangents[0] * (product - cross)) / t.shape[1]


class AbstractForm(eqx.Module):
    """A quadratic form of a model's coefficients: its loss."""

    @abstractmethod
    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        """The loss, a mean over outputs."""

    @abstractmethod
    def minimum(self) -> Any:
        """The loss of the best coefficients, reachable or not by a model of few heads."""


class Moments(AbstractForm):
    """Second moments of features and targets over a set of prompts. Additive: the moments of parts sum up."""

    second: Float[Array, "feature feature"]
    cross: Float[Array, "feature output"]
    constant: Float[Array, ""]

    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        return quadratic(coefficients, self.second, self.cross, self.constant)

    def minimum(self) -> Any:
        """c − b M⁺ b."""
        xp = numpy_of(self.constant)
        second, cross = xp.asarray(self.second, float), xp.asarray(self.cross, float)
        values, vectors = xp.linalg.eigh(second)
        keep = values > values[-1] * len(values) * np.finfo(float).eps * 10
        projected = (vectors.T @ cross) ** 2 / xp.where(keep, values, 1.0)[:, None]
        return xp.asarray(self.constant, float) - xp.where(keep[:, None], projected, 0.0).sum() / cross.shape[1]


def average(trees: Sequence[TreeT], dtype: Any) -> TreeT:
    """The mean of arrays that lie alike in several trees, in this precision."""
    if len(trees) == 1:
        return jax.tree.map(lambda a: a.astype(dtype), trees[0])
    return jax.tree.map(lambda *parts: (functools.reduce(jnp.add, parts) / len(parts)).astype(dtype), *trees)


def numpy_of(array: Array) -> Any:
    """jax.numpy where the array is traced, numpy where it is a number: which compiles nothing."""
    return jnp if isinstance(array, Tracer) else np
