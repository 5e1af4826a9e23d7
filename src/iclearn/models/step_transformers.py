"""Linear transformers whose layers are steps: ``gd`` (gradient descent) and ``sparse`` (GD++), linear in the labels.

With T_0 = R_0 = I, T_{l+1} = (I − B_l T_l S T_lᵀ A_l) T_l and R_{l+1} = (I − T_lᵀ A_lᵀ T_l S) R_l the error for labels
y = w·x is y_q − ŷ = x_q·(R_L w), S = (1/N) Σ x xᵀ. So task vector, query and noise can be integrated out, and some
models have a population loss in closed form (`exact_losses`).
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import MissingClosedForm
from ..core.task import AbstractTask
from .base import AbstractFeatureModel
from .chain_features import ChainFeatures, CurvedFeatures, sparse_features
from .exact_losses import DEEPEST, DEEPEST_MATRICES, ELSE, law_of, spectral_loss, words_loss
from .features import MAX_FEATURES, Normalize
from .matrix_polynomials import constant, symmetric_matrix
from .transformer_forms import AbstractLinearTransformer, Layer


def _padded(matrices: Float[Array, "head dim dim"], corner: float) -> Float[Array, "head entry entry"]:
    """Each matrix with a row and column of zeros more, and `corner` where they meet."""
    return jnp.pad(matrices, ((0, 0), (0, 1), (0, 1))).at[:, -1, -1].set(corner)


def _matrices(weight: Float[Array, "*sizes"], dim: int) -> Float[Array, "layer head dim dim"]:
    """A_l of a layer and head, from matrices or from the factors of identities."""
    return weight if weight.ndim == 4 else weight[:, :, None, None] * jnp.eye(dim, dtype=weight.dtype)


class AbstractStepTransformer(AbstractLinearTransformer):
    """Blocks ``gd`` and ``sparse``: linear in the labels, so task vector, query and noise can be integrated out."""

    if TYPE_CHECKING:
        a: Array
        dim: int

    @abstractmethod
    def pairs(self) -> list[tuple[Float[Array, "head dim dim"], Float[Array, "head dim dim"]]]:
        """A_lh and B_lh of every layer that is applied."""

    @property
    def offers_exact_loss(self) -> bool:
        return True

    def step_sizes(self) -> tuple[Float[Array, " layer"], Float[Array, " layer"]]:
        """Σ_h η_lh and γ_l = Σ_h η_lh b_lh of every layer that is applied, for scalar weights."""
        order = np.arange(self.depth) % self.a.shape[0]
        b = getattr(self, "b", None)
        curvature = jnp.zeros_like(self.a) if b is None else self.a * b
        return self.a.sum(1)[order], curvature.sum(1)[order]

    def step_matrices(self) -> list[Float[Array, "dim dim"]]:
        """Σ_h A_lh of every layer that is applied."""
        return [a.sum(0) for a, _ in self.pairs()]

    def exact_loss(
        self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train"
    ) -> Callable[[Any], Array]:
        if self.normalize != "context":
            raise MissingClosedForm("the population loss needs a mean over the context: normalize='context'")
        curved, scalar = hasattr(self, "b"), self.a.ndim == 2
        blocks, kind = "sparse" if curved else "gd", "scalar weights" if scalar else "matrices"
        most = (DEEPEST if scalar else DEEPEST_MATRICES)[blocks]
        if self.depth > most:
            closed = f"blocks {blocks} with {kind} have a closed-form population loss for up to {most} layers"
            raise MissingClosedForm(f"{closed}, not {self.depth}: {ELSE}")
        law = law_of(task, seed, which)
        if scalar:
            return spectral_loss(law, (3**self.depth - 1) // 2 if curved else self.depth, dtype)
        return words_loss(law, dtype)

    @property
    def offers_conditional_loss(self) -> bool:
        return self.normalize == "context"

    def conditional_loss(
        self, second: Float[Array, "dim dim"], cov: Array, prior: Array, noise: Array
    ) -> Float[Array, ""]:
        """The loss given S: tr(Σ R Σ_w Rᵀ) + (σ²/N) tr(Σ g S gᵀ), task vector, query and noise integrated out.

        T_{l+1} = (I − Σ_h B_h T S Tᵀ A_h) T and R_{l+1} = (I − Tᵀ Σ_h A_hᵀ T S) R, from I, and R = I − g S.

        Args:
            second: (dim, dim) S = (1/N) Σ x xᵀ over the context.
            cov: (dim, dim) Σ of the query.
            prior: (dim, dim) Σ_w.
            noise: () σ²/N.

        Returns:
            () the loss.
        """
        turn, gain = jnp.eye(self.dim, dtype=second.dtype), jnp.zeros_like(second)
        for a, b in self.pairs():
            step = turn.T @ a.sum(0).T @ turn
            gain = gain + step - step @ second @ gain
            turn = turn - jnp.einsum("hij,jk,hkl->il", b, turn @ second @ turn.T, a) @ turn
        left = jnp.eye(self.dim, dtype=second.dtype) - gain @ second
        return jnp.sum(cov * (left @ prior @ left.T)) + noise * jnp.sum(cov * (gain @ second @ gain.T))


class DescentTransformer(AbstractStepTransformer, AbstractFeatureModel):
    """Blocks ``gd``: V = diag(0, 1), K = −diag(A_l, 0), a step of preconditioned gradient descent in every layer.

    Args:
        a: (layer, head, input, input) A_l, or (layer, head) η_l with A_l = η_l I.
        dim: dimension of the inputs.
        depth: layers that are applied.
        normalize: factor on G.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2))
    >>> DescentTransformer(jnp.full((1, 1), 0.5), 2, 2).predict(prompt)  # two steps, y = x₁ + x₂, XᵀX/N = I/2
    Array([0.875], dtype=float64)
    """

    a: Float[Array, "layer head *inputs"]
    dim: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    normalize: Normalize = eqx.field(static=True, default="context")

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:  # type: ignore[override]
        return {"a": ("layer", "head", "input", "key_input")[: self.a.ndim]}

    def layer_maps(self) -> list[Layer]:
        return [Layer(_padded(jnp.zeros_like(a), 1.0), -_padded(a, 0.0)) for a in _matrices(self.a, self.dim)]

    def pairs(self) -> list[tuple[Float[Array, "head dim dim"], Float[Array, "head dim dim"]]]:
        sets = _matrices(self.a, self.dim)
        return [(sets[i % len(sets)], jnp.zeros_like(sets[0])) for i in range(self.depth)]

    @property
    def feature_map(self) -> ChainFeatures:
        return ChainFeatures(self.dim, 1, self.normalize, self.depth)

    def coefficients(self) -> Float[Array, "feature output"]:
        return self.feature_map.fold(self.step_matrices())


class SparseTransformer(AbstractStepTransformer, AbstractFeatureModel):
    """Blocks ``sparse``: V = diag(B_l, 1), K = −diag(A_l, 0), a step and a change of the inputs (GD++) in each layer.

    With A_l = η_l I and B_l = b_l I this is GD++: x ← (I − η_l b_l S) x beside the step on the labels. B_l of the last
    layer reaches no prediction.

    Args:
        a: (layer, head, input, input) A_l, or (layer, head) η_l.
        b: (layer, head, input, input) B_l, or (layer, head) b_l.
        dim: dimension of the inputs.
        depth: layers that are applied.
        normalize: factor on G.

    For an example see `DescentTransformer`.
    """

    a: Float[Array, "layer head *inputs"]
    b: Float[Array, "layer head *inputs"]
    dim: int = eqx.field(static=True)
    depth: int = eqx.field(static=True)
    normalize: Normalize = eqx.field(static=True, default="context")

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:  # type: ignore[override]
        names = ("layer", "head", "input", "key_input")[: self.a.ndim]
        return {"a": names, "b": names}

    def layer_maps(self) -> list[Layer]:
        pairs = zip(_matrices(self.a, self.dim), _matrices(self.b, self.dim), strict=True)
        return [Layer(_padded(b, 1.0), -_padded(a, 0.0)) for a, b in pairs]

    def pairs(self) -> list[tuple[Float[Array, "head dim dim"], Float[Array, "head dim dim"]]]:
        first, second = _matrices(self.a, self.dim), _matrices(self.b, self.dim)
        return [(first[i % len(first)], second[i % len(first)]) for i in range(self.depth)]

    @property
    def feature_map(self) -> CurvedFeatures | None:
        if sparse_features(self.dim, self.depth) > MAX_FEATURES:
            return None
        return CurvedFeatures(self.dim, 1, self.normalize, (3**self.depth - 1) // 2)

    def coefficients(self) -> Float[Array, "feature output"]:
        features, second = self.feature_map, symmetric_matrix(self.dim, self.a.dtype)
        assert features is not None
        turn, pairs = constant(jnp.eye(self.dim, dtype=self.a.dtype), second.variables), self.pairs()
        gain = constant(pairs[0][0].sum(0).T, second.variables)
        for before, after in itertools.pairwise(pairs):  # as `conditional_loss`, with polynomials of S
            seen = turn @ second @ turn.T
            changes = [seen.between(b, a) for a, b in zip(*before, strict=True)]
            turn = turn - sum(changes[1:], changes[0]) @ turn
            step = turn.T @ constant(after[0].sum(0).T, second.variables) @ turn
            gain = gain + step - step @ (second @ gain)
        return features.unfold(gain)
