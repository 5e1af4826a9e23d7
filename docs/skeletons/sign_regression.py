"""A task in one file: the labels are signs of a linear function, some of them flipped.

Registry line: sign_regression = "sign_regression:SignRegression" under "iclearn.specs".
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from iclearn.core.prompt import Batch, full_prompt
from iclearn.core.rng import normal, stream
from iclearn.core.task import AbstractDrawnSource, AbstractTask


class SignSource(AbstractDrawnSource):
    flip: jax.Array
    task: "SignRegression" = eqx.field(static=True)

    def draw(self, key, count, weight):
        x_key, w_key, flip_key = jax.random.split(key, 3)
        x = normal(x_key, (count, self.task.context_len + 1, self.task.dim), self.dtype)
        y = jnp.sign(jnp.einsum("bti,bi->bt", x, normal(w_key, (count, self.task.dim), self.dtype)))[..., None]
        shown = jnp.where(jax.random.uniform(flip_key, y.shape) < self.flip, -y, y)
        return Batch(full_prompt(x[:, :-1], shown[:, :-1], x[:, -1]), y[:, -1], weight)


@dataclass(frozen=True)
class SignRegression(AbstractTask, kind="sign_regression"):
    dim: int = 3
    context_len: int = 8
    num_prompts: int | None = 64
    out_dim: int = 1
    prefixes: bool = False
    flip: float = 0.0  # probability that a label of the context is flipped

    def source(self, seed, dtype, which="train"):
        key, sizes = stream(seed, f"data.{which}"), (self.num_prompts, self.numbers_per_prompt())
        name, flip = jnp.dtype(dtype).name, jnp.asarray(self.flip)
        return SignSource(key, *sizes, name, flip, self.unchecked(flip=0.0))

    def traceable_fields(self):
        return frozenset({"flip"})
