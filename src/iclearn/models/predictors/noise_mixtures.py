"""The Bayes predictor where the noise of a prompt has one of several levels, to be told from its labels."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from .shrinkage import context, kept_directions, refuse_negative, scalar

LEAST = 1e-24  # variance of a noiseless component, relative to the mean square of the labels


def _levels(values: Sequence[float] | np.ndarray | Array) -> Float[Array, " level"]:
    return jnp.atleast_1d(jnp.asarray(values, float))


class MixedNoise(AbstractModel):
    """Posterior mean of w·x_q for w ~ N(0, τ²I) and one noise variance σ_k² a prompt, with chances p_k (bai2023).

    Σ_k π_k ridge(σ_k²/τ²), π_k ∝ p_k N(y; 0, τ²XXᵀ + σ_k²I). One level is `Ridge`. A level 0 takes all of the weight
    once more pairs than dimensions are fitted to rounding, and none once they are not.

    Args:
        noise: (level) σ_k², 0 allowed.
        chances: (level) p_k, up to a factor (None: equal).
        scale: τ², above 0.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((3, 1)), jnp.array([[2.0], [2.0], [2.0]]), jnp.ones(1))
    >>> round(float(jax.jit(lambda p: MixedNoise([0.01, 1.0]).predict(p)[0])(prompt)), 4)  # 1.9934 and 1.5 alone
    1.9864
    """

    noise: Float[Array, " level"]
    chances: Float[Array, " level"]
    scale: Float[Array, ""]

    def __init__(
        self,
        noise: Sequence[float] | np.ndarray | Array,
        chances: Sequence[float] | np.ndarray | Array | None = None,
        scale: float | Array = 1.0,
    ) -> None:
        self.noise = _levels(noise)
        given = jnp.ones_like(self.noise) if chances is None else _levels(chances)
        require(self.noise.ndim == 1 and self.noise.size >= 1, "a mixture of noise levels needs a list of variances")
        fits = given.shape == self.noise.shape
        require(fits, f"{given.size} chances for {self.noise.size} noise levels: one for each is needed")
        refuse_negative("a noise variance", self.noise)
        refuse_negative("the chance of a noise level", given)
        self.chances, self.scale = given / given.sum(), scalar(scale)

    def posterior(self, prompt: Prompt) -> Float[Array, " level"]:
        """π: how probable each noise level is given the context.

        Args:
            prompt: the prompt, without a batch axis.

        Returns:
            (level) probabilities; the chances where there is no context.
        """
        return self._parts(prompt)[0]

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        weights, answers = self._parts(prompt)
        return (weights @ answers).astype(prompt.query.dtype)

    def _parts(self, prompt: Prompt) -> tuple[Float[Array, " level"], Float[Array, "level output"]]:
        x, y = (part.astype(jnp.float64) for part in context(prompt))
        left, inverse, right = kept_directions(x)
        kept = inverse > 0
        sizes = jnp.where(kept, 1 / jnp.where(kept, inverse, 1), 0)
        seen = left.T @ y  # the labels in the span of the inputs
        rest = jnp.sum((y - left @ seen) ** 2)
        outputs = y.shape[1]
        extra = (prompt.num_context().astype(jnp.float64) - kept.sum()) * outputs
        least = LEAST * jnp.sum(y**2) / jnp.maximum(prompt.num_context() * outputs, 1)

        def level(noise: Array) -> tuple[Array, Array]:
            floor = jnp.maximum(noise, jnp.where(least > 0, least, 1.0))
            spread = self.scale * sizes**2 + jnp.where(kept, floor, 1.0)
            fit = jnp.sum(jnp.where(kept, jnp.sum(seen**2, 1) / spread, 0.0))
            volume = outputs * jnp.sum(jnp.where(kept, jnp.log(spread), 0.0))
            evidence = -0.5 * (fit + volume + jnp.where(extra > 0, rest / floor + extra * jnp.log(floor), 0.0))
            gains = jnp.where(kept, self.scale * sizes / spread, 0.0)
            return evidence, prompt.query @ (right.T @ (gains[:, None] * seen))

        evidence, answers = jax.vmap(level)(self.noise)
        return jax.nn.softmax(evidence + jnp.log(self.chances)), answers
