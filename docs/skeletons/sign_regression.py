"""A task in one file: the labels are signs of a linear function, some of them flipped.

Registry line: sign_regression = "sign_regression:SignRegression" under "iclearn.specs".
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from iclearn.core.prompt import Batch, full_prompt
from iclearn.core.rng import normal
from iclearn.core.task import AbstractDrawnSource, AbstractTask


class SignSource(AbstractDrawnSource):
    flip: jax.Array
    sizes: tuple[int, int] = eqx.field(static=True)  # tokens and dimensions

    def draw(self, key, count, weight):
        x_key, w_key, flip_key = jax.random.split(key, 3)
        x, w = normal(x_key, (count, *self.sizes), self.dtype), normal(w_key, (count, self.sizes[1]), self.dtype)
        y = jnp.sign(jnp.einsum("bti,bi->bt", x, w))[..., None]
        shown = jnp.where(jax.random.uniform(flip_key, y.shape) < self.flip, -y, y)
        return Batch(full_prompt(x[:, :-1], shown[:, :-1], x[:, -1]), y[:, -1], weight)


@dataclass(frozen=True)
class SignRegression(AbstractTask, kind="sign_regression"):
    dim: int = 3
    context_len: int = 8
    num_prompts: int | None = 64
    flip: float = 0.0  # probability that a label of the context is flipped
    out_dim, prefixes = 1, False
    traceable_fields = lambda self: frozenset({"flip"})  # noqa: E731

    def source(self, seed, dtype, which="train"):
        sizes = (self.context_len + 1, self.dim)
        return SignSource.of(self, seed, dtype, which, flip=jnp.asarray(self.flip), sizes=sizes)
