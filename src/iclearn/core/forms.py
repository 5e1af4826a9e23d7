"""Quadratic forms: the squared loss of a model that is linear in fixed features of the prompt.

For a prediction ŷ = Tᵀφ of the features φ of a prompt with target y, the mean squared error is
E(y − Tᵀφ)² = c − 2⟨b, T⟩ + ⟨T, M T⟩ with c = E y², b = E[φ y] and M = E[φφᵀ]: the data enters only through these
moments. A form may keep M in a structure that makes it cheap.
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
    """c + (1/outputs) ⟨T, M T − 2b⟩ for symmetric M, differentiable in T.

    The derivative (2/outputs)(M T − b) is written out so that one product M T serves the loss and its gradient. M, b
    and c are data: no derivative flows to them.

    Args:
        t: (feature, output) T, the coefficients.
        second: (feature, feature) M.
        cross: (feature, output) b.
        constant: () c.

    Returns:
        () the loss.

    >>> float(quadratic(jnp.ones((2, 1)), jnp.eye(2), jnp.zeros((2, 1)), jnp.asarray(3.0)))
    5.0
    """
    return constant + jnp.sum(t * (second @ t - 2 * cross)) / t.shape[1]


@quadratic.defjvp
def _(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    t, second, cross, constant = primals
    product = second @ t
    value = constant + jnp.sum(t * (product - 2 * cross)) / t.shape[1]
    return value, 2 * jnp.sum(tangents[0] * (product - cross)) / t.shape[1]


class AbstractForm(eqx.Module):
    """The loss of a model as a quadratic form of its coefficients."""

    @abstractmethod
    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        """The loss of these coefficients, a mean over outputs.

        Args:
            coefficients: (feature, output) T.

        Returns:
            () the loss.
        """

    @abstractmethod
    def minimum(self) -> Any:
        """The loss of the best coefficients, whether or not a model of few heads can reach them.

        Returns:
            A number, or a traced scalar where the form is traced.
        """


class Moments(AbstractForm):
    """Second moments of features and targets over a set of prompts; those of its parts add up to those of the whole.

    Args:
        second: (feature, feature) M = E[φφᵀ].
        cross: (feature, output) b = E[φ y].
        constant: () c, the mean over outputs of E[y²].

    >>> form = Moments(2 * jnp.eye(2), jnp.ones((2, 1)), jnp.asarray(3.0))
    >>> float(form(jnp.zeros((2, 1)))), float(form.minimum())
    (3.0, 2.0)
    """

    second: Float[Array, "feature feature"]
    cross: Float[Array, "feature output"]
    constant: Float[Array, ""]

    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        return quadratic(coefficients, self.second, self.cross, self.constant)

    def minimum(self) -> Any:
        """c − ⟨b, M⁺ b⟩/outputs, at T = M⁺ b, where M⁺ leaves out eigenvalues of M that are zero to rounding.

        NaN where moments are infinite, as those of labels beyond floating point.
        """
        xp = numpy_of(self.constant)
        second, cross = xp.asarray(self.second, float), xp.asarray(self.cross, float)
        if xp is np and not np.isfinite(second).all():
            return np.nan
        values, vectors = xp.linalg.eigh(second)
        keep = values > values[-1] * len(values) * np.finfo(float).eps * 10
        projected = (vectors.T @ cross) ** 2 / xp.where(keep, values, 1.0)[:, None]
        return xp.asarray(self.constant, float) - xp.where(keep[:, None], projected, 0.0).sum() / cross.shape[1]


def average(trees: Sequence[TreeT], dtype: Any) -> TreeT:
    """The mean of several pytrees of the same structure, leaf by leaf.

    Args:
        trees: the pytrees.
        dtype: precision of the result.

    Returns:
        A pytree of the same structure.
    """
    if len(trees) == 1:
        return jax.tree.map(lambda a: a.astype(dtype), trees[0])
    return jax.tree.map(lambda *parts: (functools.reduce(jnp.add, parts) / len(parts)).astype(dtype), *trees)


def numpy_of(*arrays: Any) -> Any:
    """The module to compute with: ``jax.numpy`` where an array is traced, else ``numpy``, which compiles nothing.

    Args:
        arrays: what enters the computation.

    Returns:
        The module.
    """
    return jnp if any(isinstance(array, Tracer) for array in arrays) else np


def as_array(value: Any, dtype: Any = None) -> Any:
    """A number, a numpy array or a traced value as an array of JAX, without a compiled program for it.

    ``jnp.asarray`` compiles one for every shape; a run that takes a tenth of a second would wait longer for these.

    Args:
        value: what to convert.
        dtype: precision of the result (None: its own).

    Returns:
        The array.

    >>> as_array(0.5, "float32").dtype
    dtype('float32')
    """
    if isinstance(value, jax.Array):
        return value if dtype is None or value.dtype == dtype else value.astype(dtype)
    return jax.device_put(np.asarray(value, dtype))
