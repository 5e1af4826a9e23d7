"""The exact engine: the loss is a quadratic form of the model's coefficients, so the data enters through moments, once.

The form is one of three: the second moments of the features over P prompts, streamed here in bounded memory
(`core.forms.Moments`), or their expectation over infinitely many prompts, which feature maps give
(`tasks.expectations.KroneckerForm`, `tasks.gram_moments.GramForm`). A step costs the same for any P.
"""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.forms import AbstractForm, Moments, as_array
from ..core.kept_programs import compile_ahead, kept
from ..core.prompt import Batch, FeatureBatch
from ..core.sharding import sum_blocks
from ..core.task import AbstractSource, AbstractTask
from ..models.base import AbstractFeatureModel
from ..models.features import AbstractFeatureMap
from .base import AbstractEngine, stack_losses


class QuadraticEngine(AbstractEngine[AbstractFeatureModel]):
    """Exact full-batch training of a model whose loss is a quadratic form, test losses included.

    For an example see `AbstractEngine`.

    Args:
        train: the form of the training set.
        tests: the forms of the test sets.
        reduced: whether they act on the coefficients of the model without its zero blocks.
    """

    train: AbstractForm
    tests: tuple[AbstractForm, ...]
    reduced: bool = eqx.field(static=True, default=False)

    @property
    def stochastic(self) -> bool:
        return False

    def _coefficients(self, model: AbstractFeatureModel) -> Float[Array, "feature output"]:
        return (model.reduced() if self.reduced else model).coefficients()

    def loss(self, model: AbstractFeatureModel, key: Key[Array, ""]) -> Float[Array, ""]:
        return self.train(self._coefficients(model))

    def test_losses(self, model: AbstractFeatureModel) -> Float[Array, " test_set"]:
        coefficients = self._coefficients(model)
        return stack_losses([test(coefficients) for test in self.tests])

    def minimum(self) -> Any:
        return self.train.minimum()


def batch_moments(features: AbstractFeatureMap, batch: Batch | FeatureBatch) -> Moments:
    """The moments of one batch, accumulated in double precision.

    Args:
        features: the feature map.
        batch: prompts (or their features) with targets and weights.

    Returns:
        M = Σ_p weight_p φ_p φ_pᵀ, b = Σ_p weight_p φ_p y_pᵀ and c = Σ_p weight_p ‖y_p‖²/outputs.
    """
    phi = batch.features if isinstance(batch, FeatureBatch) else jax.vmap(features)(batch.prompt)
    phi, target = phi.astype(jnp.float64), batch.target.astype(jnp.float64)
    weighted = phi * batch.weight.astype(jnp.float64)[:, None]
    energy = jnp.sum(batch.weight[:, None] * target**2) / target.shape[1]
    return Moments(weighted.T @ phi, weighted.T @ target, energy)


@kept
def _streamed(source: AbstractSource, features: AbstractFeatureMap, out_dim: int, contexts: int | range) -> Moments:
    """`stream_moments` as a program."""
    zero = Moments(jnp.zeros((features.size, features.size)), jnp.zeros((features.size, out_dim)), jnp.zeros(()))

    def part(index: Array) -> Moments:
        if contexts == 0:
            return batch_moments(features, source.block(index))

        def add_prefix(context: Array, sums: Moments) -> Moments:
            one = batch_moments(features, source.prefix_block(index, context))
            return jax.tree.map(jnp.add, sums, one)

        lengths = range(1, contexts + 1) if isinstance(contexts, int) else contexts
        total = jax.lax.fori_loop(lengths.start, lengths.stop, add_prefix, zero)
        return jax.tree.map(lambda a: a / len(lengths), total)

    return sum_blocks(part, source.num_blocks, zero)


def stream_moments(
    source: AbstractSource, features: AbstractFeatureMap, out_dim: int, contexts: int | range
) -> Moments:
    """The moments over all prompts of a source, block by block in bounded memory.

    Args:
        source: the prompts.
        features: the feature map.
        out_dim: number of outputs.
        contexts: 0 for the prompts as they are; above 0 for the mean over their prefixes of 1..contexts pairs; a range
            for that over their prefixes of these numbers of pairs.

    Returns:
        The moments, in double precision.

    >>> import iclearn as icl
    >>> from iclearn.models import Cubic
    >>> source = icl.LinearRegression(dim=2, context_len=4, num_prompts=50).source(0, "float64")
    >>> stream_moments(source, Cubic(2, 1, "context"), 1, 0).second.shape
    (4, 4)
    """
    host = host_moments(source, features, out_dim, contexts)
    return _streamed(source, features, out_dim, contexts) if host is None else host


def host_moments(
    source: AbstractSource, features: AbstractFeatureMap, out_dim: int, contexts: int | range
) -> Moments | None:
    """`stream_moments` by numpy, for which nothing is compiled.

    Args:
        source: the prompts.
        features: the feature map.
        out_dim: number of outputs.
        contexts: as `stream_moments` has them.

    Returns:
        The moments of arrays of JAX, equal to those of the program to rounding; None where source or features have no
        form for numpy (`AbstractSource.host_blocks`, `AbstractFeatureMap.on_host`).
    """
    blocks = source.host_blocks()
    if blocks is None:
        return None
    second, cross, energy = np.zeros((features.size, features.size)), np.zeros((features.size, out_dim)), 0.0
    prompts = 0
    for block in blocks:
        tokens = block.x.shape[1]
        lengths = range(1, contexts + 1) if isinstance(contexts, int) and contexts else contexts or [tokens - 1]
        prompts += len(block.x) * len(lengths)
        for length in lengths:
            found = features.on_host(block.x[:, :length], block.y[:, :length], block.x[:, length])
            if found is None:
                return None
            phi, target = found.astype(np.float64, copy=False), block.truth[:, length].astype(np.float64)
            second += phi @ phi.T
            cross += phi @ target
            energy += float(np.sum(target**2)) / out_dim
    return Moments(as_array(second / prompts), as_array(cross / prompts), as_array(energy / prompts))


def moments_engine(task: AbstractTask, features: AbstractFeatureMap, seed: int | Array, dtype: str) -> QuadraticEngine:
    """The engine of a fixed training set: it and every test set are streamed once.

    Args:
        task: the task.
        features: the feature map of the model.
        seed: the root seed; may be traced.
        dtype: name of the precision.

    Returns:
        The engine.
    """

    def collect(which: str) -> Moments:
        contexts = task.context_lengths() if task.prefixes and which == "train" else 0
        like = task.like_source(seed, dtype, which)
        if like is not None and like.host_blocks() is None:
            compile_ahead(_streamed, like, features, task.out_dim, contexts)
        moments = stream_moments(task.source(seed, dtype, which), features, task.out_dim, contexts)
        return jax.tree.map(lambda a: a.astype(dtype), moments)

    return QuadraticEngine(collect("train"), tuple(collect(which) for which in task.tests))


remembered_moments_engine = functools.lru_cache(maxsize=8)(moments_engine)


def population_engine(
    task: AbstractTask, model: AbstractFeatureModel, seed: int | Array, dtype: Any
) -> QuadraticEngine:
    """The engine of infinitely many prompts, for weights of which it is known that they stay in the reduced model.

    Args:
        task: the task.
        model: the model, whose features count and whose weights do not.
        seed: the root seed; may be traced.
        dtype: the precision.

    Returns:
        The engine.
    """
    features = model.reduced().feature_map
    assert features is not None
    forms = [features.population_form(task, seed, dtype, which) for which in ("train", *task.tests)]
    return QuadraticEngine(forms[0], tuple(forms[1:]), bool(model.zero_blocks()))
