"""Linear regression with other inputs, priors or noise: the tasks of ahn2023, oswald2023 and vladymyrov2024."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import require
from ..core.errors import MissingClosedForm
from ..core.label_law import LabelLaw
from ..core.rng import normal, stream
from .regression import LinearRegression, RegressionSource

Inputs = Literal["gaussian", "uniform", "sphere", "gamma"]
_NODES = 8  # of σ ~ U(0, σ_max): exact for moments of the labels' noise up to σ^15


@dataclass(frozen=True)
class VariedRegression(LinearRegression, kind="varied_regression"):
    """`LinearRegression` with other input laws, a prior matched to the inputs, or a noise level drawn for each prompt.

    Inputs are F u with Λ = F Fᵀ and E u uᵀ = I, so that `covariance` is theirs whatever the law of u.

    Args:
        inputs: u is ``gaussian``; ``uniform`` on [−√3, √3]^d (oswald2023's U(−r/2, r/2) has covariance r²/12 I);
            ``sphere``: of norm √d in a random direction; ``gamma``: √(d Γ/k) in a random direction, Γ of shape k.
        gamma_shape: k; k = d/2 is Gaussian, small k heavy-tailed. ahn2023's inputs have covariance √(10k)/d I.
        inverse_prior: Σ_w = Λ⁻¹, with the same eigenvectors, so that E y² = d.
        noise_levels: standard deviations of the noise of which each prompt has one, with equal chances.
        noise_range: σ_max of a level σ ~ U(0, σ_max) for each prompt.

    >>> from iclearn.tasks import Covariance
    >>> task = VariedRegression(dim=2, context_len=3, num_prompts=5, inputs="sphere", covariance=Covariance.white())
    >>> bool(jnp.allclose(jnp.sum(task.source(0, "float64").everything().prompt.x ** 2, -1), 1.0))
    True
    """

    inputs: Inputs = "gaussian"
    gamma_shape: float | None = None
    inverse_prior: bool = False
    noise_levels: tuple[float, ...] = ()
    noise_range: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "noise_levels", tuple(float(v) for v in self.noise_levels))
        own = (self.gamma_shape is not None) == (self.inputs == "gamma")
        require(own, f"gamma_shape is for inputs gamma, which need one; given {self.gamma_shape} with {self.inputs}")
        require(
            self.gamma_shape is None or self.gamma_shape > 0, f"gamma_shape must be positive, not {self.gamma_shape}"
        )
        single = not self.inverse_prior or self.prior_covariance is None
        require(single, "inverse_prior and prior_covariance are two answers to one question: give one")
        laws = bool(self.noise) + bool(self.noise_levels) + (self.noise_range is not None)
        require(laws <= 1, "noise, noise_levels and noise_range are three answers to one question: give one")
        negative = [v for v in (*self.noise_levels, self.noise_range or 0.0) if v < 0]
        require(not negative, f"noise levels are standard deviations and not negative, unlike {negative}")
        require(self.in_context == 1, "varied regression has a task vector in every prompt: in_context must be 1")
        require(not (self.center or self.whiten), "varied regression has no centering or whitening")

    @property
    def isotropic(self) -> bool:
        return False

    def _prior(self, seed: int | Array) -> tuple[Float[Array, "dim output"], Float[Array, "dim dim"]]:
        mean, factor = super()._prior(seed)
        if not self.inverse_prior:
            return mean, factor
        return mean, jnp.linalg.inv(self.covariance.factor(self.dim, stream(seed, "covariance"))).T

    def noise_mixture(self) -> list[tuple[float, float]]:
        """Weights and variances of a mixture that has the moments of the noise.

        Returns:
            The levels with equal weights, or for a range Gauss-Legendre nodes.
        """
        if self.noise_levels:
            return [(1 / len(self.noise_levels), level**2) for level in self.noise_levels]
        if self.noise_range is not None:
            places, shares = np.polynomial.legendre.leggauss(_NODES)
            return [(w / 2, (self.noise_range * (p + 1) / 2) ** 2) for p, w in zip(places, shares, strict=True)]
        return [(1.0, self.noise)]

    def label_laws(self, seed: int | Array, which: str = "train") -> tuple[LabelLaw, ...]:
        if self.inputs != "gaussian":
            raise MissingClosedForm(f"{self.inputs} inputs have no closed-form population loss: use engine samples")
        (law,) = super().label_laws(seed, which)
        return tuple(
            eqx.tree_at(lambda l: (l.weight, l.noise), law, (jnp.asarray(w, jnp.float64), jnp.asarray(v, jnp.float64)))
            for w, v in self.noise_mixture()
        )

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> VariedSource:
        raw = super().source(seed, dtype, which)
        fields = {f.name: getattr(raw, f.name) for f in dataclasses.fields(raw)}
        fields["noiseless"] = raw.noiseless and not self.noise_levels and self.noise_range is None
        law = {"law": self.inputs, "gamma_shape": self.gamma_shape}
        return VariedSource(**fields, **law, levels=self.noise_levels, largest=self.noise_range)


class VariedSource(RegressionSource):
    """The prompts of a `VariedRegression`; for the other arguments see `RegressionSource`.

    Args:
        law: of the inputs.
        gamma_shape: k of inputs gamma.
        levels: standard deviations of the noise.
        largest: σ_max.
    """

    law: str = eqx.field(static=True, default="gaussian")
    gamma_shape: float | None = eqx.field(static=True, default=None)
    levels: tuple[float, ...] = eqx.field(static=True, default=())
    largest: float | None = eqx.field(static=True, default=None)

    def _standard(self, index: Any) -> tuple[Array, Array]:
        if self.law == "gaussian":
            return super()._standard(index)
        if self.law == "uniform":
            return self._uniform(index)
        plain = eqx.tree_at(lambda s: s.inputs, self, jnp.eye(self.inputs.shape[0], dtype=self.inputs.dtype))
        z, u = RegressionSource._standard(plain, index)
        key = jax.random.fold_in(jax.random.fold_in(self.key, index), 2)
        return shaped_inputs(z, key, self.law, self.gamma_shape) @ self.inputs.T.astype(z.dtype), u

    def _uniform(self, index: Any) -> tuple[Array, Array]:
        """As `_standard`, with uniform inputs drawn as such: no normal has to be made of them and undone again."""
        x_key, w_key = jax.random.split(jax.random.fold_in(self.key, index))
        size, (tokens, dim), outputs = self.block_size, self.x_mean.shape, self.w_mean.shape[1]
        edge = float(np.sqrt(3.0))
        z = jax.random.uniform(x_key, (size * tokens * dim,), jnp.float32, -edge, edge).astype(self.dtype)
        x = z.reshape(size, tokens, dim) @ self.inputs.T.astype(z.dtype)
        return x, normal(w_key, (size * dim * outputs,), self.dtype).reshape(size, dim, outputs)

    def noise_scale(self, index: Any, size: int, dtype: Any) -> Array:
        if not self.levels and self.largest is None:
            return super().noise_scale(index, size, dtype)
        key = jax.random.fold_in(jax.random.fold_in(self.key, index), 3)
        if self.levels:
            drawn = jnp.asarray(self.levels, dtype)[jax.random.randint(key, (size,), 0, len(self.levels))]
        else:
            drawn = jax.random.uniform(key, (size,), dtype) * (self.largest or 0.0)
        return drawn[:, None, None]


def shaped_inputs(
    z: Float[Array, "*batch dim"], key: Key[Array, ""], law: str, gamma_shape: float | None
) -> Float[Array, "*batch dim"]:
    """Inputs of another law, with mean zero and covariance I, from standard normal ones.

    Args:
        z: (…, dim) standard normal inputs.
        key: for the norms of ``gamma``.
        law: ``sphere`` or ``gamma``.
        gamma_shape: k of ``gamma``.

    Returns:
        (…, dim) the inputs.
    """
    dim = z.shape[-1]
    direction = z / jnp.linalg.norm(z, axis=-1, keepdims=True)
    if law == "sphere":
        return np.sqrt(dim).astype(z.dtype) * direction
    assert gamma_shape is not None
    squares = jax.random.gamma(key, gamma_shape, z.shape[:-1], z.dtype) * (dim / gamma_shape)
    return jnp.sqrt(squares)[..., None] * direction
