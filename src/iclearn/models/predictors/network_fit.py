"""Training a small ReLU network on the context of every prompt."""

from __future__ import annotations

from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from ...core.checks import check_int
from ...core.model import AbstractModel
from ...core.prompt import Prompt


class NetworkWeights(NamedTuple):
    """Weights of a two-layer ReLU network v·max(Wx + b, 0) + c.

    Args:
        inner: (hidden, dim) W.
        inner_bias: (hidden) b.
        outer: (output, hidden) v.
        outer_bias: (output) c.
    """

    inner: Float[Array, "hidden dim"]
    inner_bias: Float[Array, " hidden"]
    outer: Float[Array, "output hidden"]
    outer_bias: Float[Array, " output"]

    def __call__(self, x: Float[Array, " dim"]) -> Float[Array, " output"]:
        return self.outer @ jax.nn.relu(self.inner @ x + self.inner_bias) + self.outer_bias


def draw_network(key: Array, dim: int, hidden: int, output: int) -> NetworkWeights:
    """A network with every weight and bias uniform in ±1/√(fan in), as PyTorch's linear layers begin.

    Args:
        key: JAX's random key.
        dim: of the inputs.
        hidden: units.
        output: numbers it answers.

    Returns:
        The weights.
    """
    keys = jax.random.split(key, 4)
    shapes = ((hidden, dim), (hidden,), (output, hidden), (output,))
    bounds = (dim**-0.5, dim**-0.5, hidden**-0.5, hidden**-0.5)
    draws = (jax.random.uniform(k, shape, jnp.float64, -b, b) for k, shape, b in zip(keys, shapes, bounds, strict=True))
    return NetworkWeights(*draws)


class NetworkDescent(AbstractModel):
    """A two-layer ReLU network trained on the context by full-batch steps on the mean squared error (garg2022).

    Every prefix of every prompt has a network of its own, whose first weights are drawn from the seed, the number of
    pairs and the query. Without a context it answers 0.

    Args:
        hidden: units.
        steps: of training.
        lr: step size.
        rule: ``adam`` or ``sgd``.
        eps: of Adam.
        seed: of the first weights; may be traced.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((2, 1)), jnp.full((2, 1), 3.0), jnp.ones(1))
    >>> round(float(eqx.filter_jit(NetworkDescent(hidden=9, lr=0.05).predict)(prompt)[0]), 1)
    3.0
    """

    hidden: int = eqx.field(static=True, default=100)
    steps: int = eqx.field(static=True, default=100)
    lr: float = eqx.field(static=True, default=0.005)
    rule: Literal["adam", "sgd"] = eqx.field(static=True, default="adam")
    eps: float = eqx.field(static=True, default=1e-8)
    seed: Int[Array, ""] = eqx.field(converter=lambda seed: jnp.asarray(seed, int), default=0)

    def __check_init__(self) -> None:
        check_int("hidden units", self.hidden, 1)
        check_int("the number of training steps", self.steps, 0)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        bits = jax.lax.bitcast_convert_type(prompt.query.astype(jnp.float32), jnp.uint32)
        key = jax.random.fold_in(jax.random.key(self.seed), prompt.mask.sum())
        key = jax.random.fold_in(key, jnp.sum(bits * (2 * jnp.arange(bits.shape[0], dtype=jnp.uint32) + 1)))
        start = draw_network(key, prompt.query.shape[0], self.hidden, prompt.y.shape[1])
        return self.predict_from(start, prompt)

    def predict_from(self, weights: NetworkWeights, prompt: Prompt) -> Float[Array, " output"]:
        """The answer of a network trained from given weights.

        Args:
            weights: at the start.
            prompt: the prompt, without a batch axis.

        Returns:
            (output) the answer; 0 without a context.
        """
        x, y, query = (part.astype(jnp.float64) for part in (prompt.x, prompt.y, prompt.query))
        share = prompt.mask / jnp.maximum(prompt.mask.sum(), 1)
        optimizer = optax.adam(self.lr, eps=self.eps) if self.rule == "adam" else optax.sgd(self.lr)

        def loss(network: NetworkWeights) -> Array:
            return jnp.sum(share * jnp.mean((jax.vmap(network)(x) - y) ** 2, -1))

        def step(state: tuple[NetworkWeights, optax.OptState], _: None) -> tuple[tuple, None]:
            network, memory = state
            moves, memory = optimizer.update(jax.grad(loss)(network), memory)
            return (jax.tree.map(jnp.add, network, moves), memory), None

        trained = jax.lax.scan(step, (weights, optimizer.init(weights)), None, length=self.steps)[0][0]
        return jnp.where(jnp.any(prompt.mask), trained(query), 0.0).astype(prompt.query.dtype)
