"""Losses that models integrate themselves: over all prompts (``population``), or given second moments (``gram``).

``gram`` draws S = (1/N) Σ x xᵀ of fresh prompts by Bartlett's triangle, d(d+1)/2 numbers whatever N is, and takes the
loss given S of models that have one (`conditional_loss`): task vector, query and noise are integrated out, so that
gradients have far less variance than those of prompts.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import require
from ..core.errors import MissingClosedForm
from ..core.model import AbstractModel
from ..core.task import AbstractTask
from ..models.exact_losses import law_of
from .base import AbstractEngine, stack_losses


class IntegratedEngine(AbstractEngine[AbstractModel]):
    """The population loss that a model knows in closed form.

    Args:
        train: maps a model to its loss (`AbstractModel.exact_loss`).
        tests: as `train`, for the test sets.

    >>> import iclearn as icl
    >>> from iclearn.engines import prepare
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None, covariance=icl.Covariance.white())
    >>> model = icl.LinearTransformer(layers=2, scalar=True)
    >>> setup = prepare(icl.Recipe(task=task, model=model, init=icl.Init(0.0)))
    >>> setup.engine_name, round(float(setup.engine.loss(setup.model, None)), 12)
    ('population', 1.0)
    """

    train: Any
    tests: tuple[Any, ...]

    @property
    def stochastic(self) -> bool:
        return False

    def loss(self, model: AbstractModel, key: Any) -> Float[Array, ""]:
        return self.train(model)

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        return stack_losses([test(model) for test in self.tests])

    def minimum(self) -> None:
        return None

    @property
    def seedless(self) -> bool:
        """Whether the loss is the same for every seed, as it is where there is no direction to draw."""
        return not any(getattr(loss, "of_seed", True) for loss in (self.train, *self.tests))


def exact_loss_engine(task: AbstractTask, model: AbstractModel, seed: int, dtype: Any) -> IntegratedEngine:
    """The engine of a model that knows its population loss.

    Args:
        task: the task.
        model: the model.
        seed: the root seed.
        dtype: the precision.

    Returns:
        The engine.
    """
    losses = [model.exact_loss(task, seed, dtype, which) for which in ("train", *task.tests)]
    return IntegratedEngine(losses[0], tuple(losses[1:]))


class SpectraEngine(AbstractEngine[AbstractModel]):
    """Fresh S at every step, and the loss given S.

    Args:
        factor: (dim, dim) F with Σ = F Fᵀ.
        prior: (dim, dim) Σ_w.
        noise: () σ².
        context_len: N.
        batch_size: how many S a step draws.
    """

    factor: Float[Array, "dim dim"]
    prior: Float[Array, "dim dim"]
    noise: Float[Array, ""]
    context_len: int = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    @property
    def stochastic(self) -> bool:
        return True

    def loss(self, model: Any, key: Key[Array, ""]) -> Float[Array, ""]:
        second = draw_second_moments(key, self.factor, self.context_len, self.batch_size)
        cov, share = self.factor @ self.factor.T, self.noise / self.context_len
        return jnp.mean(jax.vmap(lambda s: model.conditional_loss(s, cov, self.prior, share))(second))

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        return stack_losses([])

    def minimum(self) -> None:
        return None


def draw_second_moments(
    key: Key[Array, ""], factor: Float[Array, "dim dim"], context_len: int, count: int
) -> Float[Array, "count dim dim"]:
    """S = (1/N) Σ x xᵀ of `count` contexts with Gaussian inputs, by Bartlett's triangle where N ≥ d.

    Args:
        key: from which they are drawn.
        factor: (dim, dim) F with Σ = F Fᵀ.
        context_len: N.
        count: how many.

    Returns:
        (count, dim, dim) S.
    """
    dim, dtype = factor.shape[0], factor.dtype
    if context_len < dim:
        x = jax.random.normal(key, (count, context_len, dim), dtype) @ factor.T
        return jnp.einsum("cni,cnj->cij", x, x) / context_len
    normal_key, chi_key = jax.random.split(key)
    lower = jnp.tril(jax.random.normal(normal_key, (count, dim, dim), dtype), -1)
    squares = 2 * jax.random.gamma(chi_key, (context_len - np.arange(dim)) / 2.0, (count, dim), dtype)
    triangle = lower + jnp.sqrt(squares)[:, :, None] * jnp.eye(dim, dtype=dtype)
    root = factor @ triangle
    return root @ jnp.swapaxes(root, 1, 2) / context_len


def spectra_engine(
    task: AbstractTask, model: AbstractModel, batch_size: int | None, seed: int, dtype: Any
) -> SpectraEngine:
    """The engine ``gram`` of a recipe; combinations it is not made for are refused.

    Args:
        task: with Gaussian inputs, infinitely many prompts and task vectors of mean zero.
        model: with a `conditional_loss`.
        batch_size: how many S a step draws.
        seed: the root seed.
        dtype: the precision.

    Returns:
        The engine.
    """
    if not model.offers_conditional_loss:
        linear = "is linear in the labels and divides by the length of the context (normalize='context')"
        raise MissingClosedForm(f"engine gram is for a deep linear transformer that {linear}: use engine samples")
    fixed = "engine gram draws fresh second moments at every step: choose num_prompts=None (--prompts inf) and a batch"
    require(task.num_prompts is None and batch_size is not None, f"{fixed} size, or engine samples")
    require(not task.prefixes and not task.tests, "engine gram has no prefixes and no test sets: use engine samples")
    law = law_of(task, seed, "train")
    factor = jnp.linalg.cholesky(law.cov)
    prior, noise = law.prior.astype(dtype), law.noise.astype(dtype)
    assert batch_size is not None
    return SpectraEngine(factor.astype(dtype), prior, noise, task.context_len, batch_size)
