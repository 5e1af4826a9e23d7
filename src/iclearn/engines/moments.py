"""The exact finite-P engine: the data enters through the second moments of the features, once.

loss = c − 2⟨b, T⟩ + ⟨T, M T⟩ with T the model's coefficients, c = mean y², b = mean y φ, M = mean φφᵀ (zhang2025 spec,
section 3). The moments are streamed over blocks of prompts in bounded memory; a step then costs the same for any P.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.prompt import Batch, FeatureBatch
from ..core.sharding import sum_blocks
from ..models.base import AbstractFeatureModel
from ..models.features import FeatureMap
from ..tasks.base import AbstractSource, AbstractTask
from ..tasks.given import GivenData
from .base import AbstractEngine, numpy_of

MAX_FEATURES = 6000  # beyond this the moment matrix (288 MB in float64) costs more than the prompts


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
    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]: ...

    @abstractmethod
    def minimum(self) -> Any:
        """The loss of the best coefficients, reachable or not by a model of few heads."""


class Moments(AbstractForm):
    """Second moments of features and targets over a set of prompts. Additive: sums of parts are wholes."""

    second: Float[Array, "feature feature"]
    cross: Float[Array, "feature output"]
    constant: Float[Array, ""]

    def __call__(self, coefficients: Float[Array, "feature output"]) -> Float[Array, ""]:
        return quadratic(coefficients, self.second, self.cross, self.constant)

    def minimum(self) -> Any:
        """c − b M⁺ b: the loss of the best coefficients, reachable or not by a model of few heads."""
        xp = numpy_of(self.constant)
        second, cross = xp.asarray(self.second, float), xp.asarray(self.cross, float)
        values, vectors = xp.linalg.eigh(second)
        keep = values > values[-1] * len(values) * np.finfo(float).eps * 10
        projected = (vectors.T @ cross) ** 2 / xp.where(keep, values, 1.0)[:, None]
        return xp.asarray(self.constant, float) - xp.where(keep[:, None], projected, 0.0).sum() / cross.shape[1]

    @staticmethod
    def of_batch(features: FeatureMap | None, batch: Batch | FeatureBatch) -> Moments:
        """Weighted sums over one batch, accumulated in double precision."""
        if isinstance(batch, FeatureBatch):
            phi = batch.features
        else:
            assert features is not None
            phi = jax.vmap(features)(batch.prompt)
        phi, target = phi.astype(jnp.float64), batch.target.astype(jnp.float64)
        weighted = phi * batch.weight.astype(jnp.float64)[:, None]
        energy = jnp.sum(batch.weight[:, None] * target**2) / target.shape[1]
        return Moments(weighted.T @ phi, weighted.T @ target, energy)


@eqx.filter_jit
def stream_moments(source: AbstractSource, features: FeatureMap, out_dim: int, contexts: int) -> Moments:
    """Moments over all blocks of a source; with ``contexts`` > 0 averaged over the prefixes of 1..contexts pairs."""
    zero = Moments(jnp.zeros((features.size, features.size)), jnp.zeros((features.size, out_dim)), jnp.zeros(()))

    def part(index: Array) -> Moments:
        if contexts == 0:
            return Moments.of_batch(features, source.block(index))

        def add_prefix(context: Array, sums: Moments) -> Moments:
            one = Moments.of_batch(features, source.prefix_block(index, context))
            return jax.tree.map(jnp.add, sums, one)

        total = jax.lax.fori_loop(1, contexts + 1, add_prefix, zero)
        return jax.tree.map(lambda a: a / contexts, total)

    return sum_blocks(part, source.num_blocks, zero)


class MomentsEngine(AbstractEngine[AbstractFeatureModel]):
    """Exact full-batch training of a linear model whose loss is a quadratic form, test losses included.

    The form holds the moments of a fixed set of prompts, or of all prompts where they are known (`gram`).
    """

    train: AbstractForm
    tests: tuple[AbstractForm, ...]

    @property
    def stochastic(self) -> bool:
        return False

    def loss(self, model: AbstractFeatureModel, key: Key[Array, ""]) -> Float[Array, ""]:
        return self.train(model.coefficients())

    def test_losses(self, model: AbstractFeatureModel) -> Float[Array, " test_set"]:
        coefficients = model.coefficients()
        losses = [test(coefficients) for test in self.tests]
        return jnp.stack(losses) if losses else jnp.zeros((0,), coefficients.dtype)

    def minimum(self) -> Any:
        return self.train.minimum()


def moments_engine(task: AbstractTask, features: FeatureMap, seed: int, dtype: Any) -> MomentsEngine:
    """Stream the training set and every test set once; models that read the same prompts share the moments."""
    build = stream_sets if isinstance(task, GivenData) else _remembered_sets
    return build(task, features, seed, jnp.dtype(dtype).name)


def stream_sets(task: AbstractTask, features: FeatureMap, seed: int | Array, dtype: str) -> MomentsEngine:
    def collect(which: str) -> Moments:
        contexts = task.context_len if task.prefixes and which == "train" else 0
        source = task.source(seed, dtype, which)
        moments = stream_moments(source, features, task.out_dim, contexts)
        return jax.tree.map(lambda a: a.astype(dtype), moments)

    return MomentsEngine(collect("train"), tuple(collect(which) for which in task.tests))


_remembered_sets = functools.lru_cache(maxsize=8)(stream_sets)
