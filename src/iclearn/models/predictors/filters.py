"""Algorithms that act on every eigenvalue of S by itself: gradient descent, GD++, iterative Newton, ridge, Krylov.

With S = c Σ x xᵀ and β = c Σ y x over the context a filter answers x_qᵀ g(S) β; of a task vector it leaves ρ(S) w,
ρ(s) = 1 − s g(s). c is 1/N (``context``) or 1 (``none``: algorithms whose learning rate is that of a sum).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import require
from ...core.model import AbstractModel
from ...core.prompt import Prompt
from ..features import Normalize, attention_scale
from .shrinkage import context, refuse_negative, scalar


class AbstractFilter(AbstractModel):
    """A predictor x_qᵀ g(S) β; subclasses say what g is.

    Args:
        normalize: whether S and the steps are those of a mean (``context``) or of a sum (``none``) over the context.
    """

    normalize: Normalize = eqx.field(static=True, default="context", kw_only=True)

    @abstractmethod
    def gain(self, s: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        """g at all eigenvalues of one S, on the last axis (the start of Newton's iteration depends on all of them).

        Args:
            s: (…, dim) the eigenvalues.

        Returns:
            (…, dim) g(s).
        """

    def residual(self, s: Float[Array, "*batch dim"] | np.ndarray) -> Float[Array, "*batch dim"]:
        """ρ(s) = 1 − s g(s): what the algorithm leaves of a task vector.

        Args:
            s: (…, dim) eigenvalues of S, with the factor c of this filter.

        Returns:
            (…, dim) ρ(s).
        """
        s = jnp.asarray(s)
        return 1 - s * self.gain(s)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y = context(prompt)
        scale = attention_scale(self.normalize, jnp.maximum(prompt.num_context(), 1))
        values, vectors = jnp.linalg.eigh(x.T @ x * scale)
        read = (prompt.query @ vectors) * self.gain(jnp.maximum(values, 0.0))
        return read @ (vectors.T @ (x.T @ y * scale))


class StepFilter(AbstractFilter):
    """Gradient descent and GD++ with given steps: g ← g + a_l t² (1 − s g), t ← t (1 − γ_l s t²).

    Without curvature this is gradient descent; with the inverse roots of a Krylov polynomial as steps the best one.

    Args:
        steps: a_1, …, a_L.
        curvature: γ_1, …; missing ones are 0.
        normalize: whether the steps are those of a mean (``context``) or of a sum (``none``).

    >>> float(StepFilter([0.25, 0.1]).residual(jnp.array([2.0]))[0])
    0.4
    """

    steps: Float[Array, " layer"]
    curvature: Float[Array, " layer"]

    def __init__(
        self, steps: Sequence[float], curvature: Sequence[float] = (), *, normalize: Normalize = "context"
    ) -> None:
        many, more = len(steps), len(curvature)
        require(more <= many, f"{more} curvatures for {many} steps: there is at most one for each")
        self.steps = jnp.asarray(np.asarray(steps, float))
        self.curvature = jnp.asarray(np.concatenate([np.asarray(curvature, float), np.zeros(many - more)]))
        self.normalize = normalize

    def gain(self, s: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        def layer(carry: tuple[Array, Array], rates: tuple[Array, Array]) -> tuple[tuple[Array, Array], None]:
            gain, turn = carry
            a, gamma = (rate.astype(s.dtype) for rate in rates)
            return (gain + a * turn**2 * (1 - s * gain), turn * (1 - gamma * s * turn**2)), None

        start = (jnp.zeros_like(s), jnp.ones_like(s))
        return jax.lax.scan(layer, start, (self.steps, self.curvature))[0][0]


class NewtonFilter(AbstractFilter):
    """Iterative Newton for S⁻¹: M_0 = α S, M ← 2M − M S M, α = 1/‖S Sᵀ‖_F, as fu2024 starts it; ρ = (1 − α s²)^{2^k}.

    Args:
        steps: k.
        normalize: of S; the answer does not depend on it.

    >>> float(NewtonFilter(1).residual(jnp.array([2.0, 0.0]))[0])
    0.0
    """

    steps: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        require(self.steps >= 0, f"the number of Newton steps must not be negative, not {self.steps}")

    def gain(self, s: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        norm = jnp.sqrt(jnp.sum(s**4, -1, keepdims=True))
        gain = s / jnp.where(norm > 0, norm, 1.0)
        for _ in range(self.steps):
            gain = gain * (2 - s * gain)
        return gain


class RidgeFilter(AbstractFilter):
    """Ridge regression on the mean (1/N) Σ (y − w·x)² + λ‖w‖²: g = 1/(s + λ). `Ridge` has the penalty of the sum.

    Args:
        penalty: λ; 0 leaves out directions that the context does not show.
        normalize: ``none`` for the penalty of a sum.

    >>> float(RidgeFilter(1.0).residual(jnp.array([3.0]))[0])
    0.25
    """

    penalty: Float[Array, ""] = eqx.field(converter=scalar)

    def __check_init__(self) -> None:
        refuse_negative("the ridge penalty", self.penalty)

    def gain(self, s: Float[Array, "*batch dim"]) -> Float[Array, "*batch dim"]:
        seen = s > 10 * s.shape[-1] * jnp.finfo(s.dtype).eps * jnp.max(s, -1, keepdims=True)
        whole = s + self.penalty.astype(s.dtype)
        kept = seen | (self.penalty > 0)
        return jnp.where(kept, 1 / jnp.where(kept, whole, 1.0), 0.0)
