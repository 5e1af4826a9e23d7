"""How much the gradient of one prompt varies: what Adam's noise floor is made of."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.prompt import Batch
from ...core.rng import stream
from ...models import LSAGroup
from ...tasks import LinearRegression

PROMPTS, AT_ONCE = 8192, 512


@eqx.filter_jit
def _mean_squares(group: LSAGroup, task: LinearRegression, key: Array) -> dict[str, Array]:
    """Mean over fresh prompts of the squared gradient of every weight, written out for ŷ = g + Σ_h p_hᵀ G Q_h [x; g]."""
    batch = task.fresh(0, key, PROMPTS, "float64")
    assert isinstance(batch, Batch)

    def add(sums: dict[str, Array], part: Batch) -> tuple[dict[str, Array], None]:
        x, y, query = part.prompt.x, part.prompt.y, part.prompt.query
        tokens = jnp.concatenate([x, y], -1)
        gram = jnp.einsum("nca,ncb->nab", tokens, tokens) / x.shape[1]
        guess = jnp.einsum("mj,nj->nm", group.guess, query)
        asked = jnp.concatenate(
            [jnp.broadcast_to(query[:, None], (*guess.shape, query.shape[-1])), guess[..., None]], -1
        )
        read = jnp.einsum("nab,mhb->nmha", gram, group.p)
        answers = jnp.einsum("nmhb,mhbe,nme->nm", read, group.q, asked)
        error = 2 * (guess + answers - part.target)
        along_p = error[..., None, None] * jnp.einsum("nab,mhbe,nme->nmha", gram, group.q, asked)
        along_q = error[..., None, None] * read
        lift = error * (1 + jnp.einsum("nmhb,mhb->nm", read, group.q[..., -1]))
        new = {
            "p": jnp.sum(along_p**2, 0),
            "q": jnp.einsum("nmhb,nme->mhbe", along_q**2, asked**2),
            "guess": jnp.einsum("nm,nj->mj", lift**2, query**2),
        }
        return jax.tree.map(lambda total, extra: total + extra / PROMPTS, sums, new), None

    parts = jax.tree.map(lambda a: a.reshape(-1, AT_ONCE, *a.shape[1:]), batch)
    zero = {"p": jnp.zeros_like(group.p), "q": jnp.zeros_like(group.q), "guess": jnp.zeros_like(group.guess)}
    return jax.lax.scan(add, zero, parts)[0]


def gradient_deviations(group: LSAGroup, task: LinearRegression) -> Float[np.ndarray, " member"]:
    """Σ_i σ_i of every member: σ_i is the root mean square over 8192 fresh prompts of ∂(ŷ − y_q)²/∂θ_i.

    Near an optimum the mean gradient is small, and σ_i the standard deviation.
    """
    model = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), group)
    squares = _mean_squares(model, task, jax.random.fold_in(stream(0, "check"), 2))
    moves = {"p": True, "q": True, "guess": np.array(group.trainable)[:, None]}
    sizes = [np.sqrt(np.asarray(squares[name])) * moves[name] for name in squares]
    return np.asarray(sum(size.reshape(len(group.trainable), -1).sum(1) for size in sizes))
