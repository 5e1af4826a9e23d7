"""Models that are linear in fixed features of the prompt, and what they declare about themselves."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

from jaxtyping import Array, Float

from ..core.model import AbstractModel
from .features import AbstractFeatureMap


class HeadFactors(NamedTuple):
    """A linear model with one output, head by head: ŷ = Σ_h v_h βᵀ U_h x_q with U_h = Σ_r k_hr q_hrᵀ, or U_h itself.

    Full attention has vectors p_h in place of v_h, ŷ = Σ_h p_hᵀ G U_h x_q, and keys that are as long as a token. Either
    `key` and `query` are there, or `kq`.

    Args:
        value: (head) v_h, or (head, entry) p_h.
        key: (head, rank, dim or entry) k_hr.
        query: (head, rank, dim) q_hr.
        kq: (head, dim, dim or entry) U_hᵀ.

    >>> import jax.numpy as jnp
    >>> from iclearn.models import ConvSum
    >>> ConvSum(jnp.ones(3), jnp.ones((3, 1, 2)), jnp.ones((3, 1, 2))).head_factors().value.shape
    (3,)
    """

    value: Float[Array, "head *entry"]
    key: Float[Array, "head rank row"] | None = None
    query: Float[Array, "head rank dim"] | None = None
    kq: Float[Array, "head dim row"] | None = None


class AbstractFeatureModel(AbstractModel):
    """A model that is linear in fixed features of the prompt: ŷ = coefficientsᵀ · features.

    With `feature_map` and `coefficients` it trains exactly on any fixed set of prompts (engine ``moments``), and on
    infinitely many (engine ``population``) if the feature map of its `reduced` form knows its expectation.

    >>> import jax.numpy as jnp
    >>> from iclearn.core.prompt import full_prompt
    >>> from iclearn.models import CubicMLP
    >>> model = CubicMLP(jnp.ones((3, 4)), jnp.ones((1, 3)), dim=2)
    >>> prompt = full_prompt(jnp.ones((5, 2)), jnp.ones((5, 1)), jnp.ones(2))
    >>> float(model.predict(prompt)[0]), float((model.feature_map(prompt) @ model.coefficients())[0])
    (60.0, 60.0)
    """

    @property
    @abstractmethod
    def feature_map(self) -> AbstractFeatureMap | None:
        """The features, or None where the weights make the model no longer linear in any (softmax)."""

    @abstractmethod
    def coefficients(self) -> Float[Array, "feature output"]:
        """Coefficients of the features, differentiable in the weights.

        Returns:
            (feature, output) the coefficients, in the order of `feature_map`.
        """

    def reduced(self) -> AbstractFeatureModel:
        """The model without the blocks that must be zero under infinitely many prompts; itself where it has none.

        Blocks that are left out get no gradient through it, as they get none under infinitely many prompts.
        """
        return self

    def zero_blocks(self) -> tuple[Array, ...]:
        """The blocks that must vanish for `reduced` to be the whole model."""
        return ()

    def head_factors(self) -> HeadFactors | None:
        """The weights head by head, where the model is one of those that `HeadFactors` describes.

        They must be the weight arrays themselves or parts of them, in another shape or order.
        """
        return None
