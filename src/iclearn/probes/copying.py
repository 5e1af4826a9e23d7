"""Which tokens a token has read after some layers: norms of mean Jacobians (oswald2023's sign of copying)."""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import check_int, require
from ..core.prompt import Batch
from ..models.deep_attention import DeepAttentionModel


class Copying(NamedTuple):
    """How strongly tokens depend on others, as norms of mean Jacobians; see `copying`.

    Args:
        itself: mean over the context's inputs x_i of the norm for x_i itself, its skip connection included.
        following: the same for the token after it, its label y_i.
        others: the same for all other tokens, their mean.
    """

    itself: float
    following: float
    others: float


def token_jacobian(model: DeepAttentionModel, batch: Batch, layers: int = 1) -> Float[np.ndarray, "token token"]:
    """Norms of the mean Jacobians of every token after some layers with respect to every token at the start.

    Args:
        model: deep attention.
        batch: prompts; the Jacobians are averaged over them before their norms are taken.
        layers: after how many layers.

    Returns:
        (token, token) Frobenius norms: row i is the token read, column j the token it depends on. Derivatives are
        taken with respect to what a token says, not to the channels of its position.
    """
    check_int("layers", layers, 1)
    return np.asarray(_mean_norms(model, batch, layers))


@eqx.filter_jit
def _mean_norms(model: DeepAttentionModel, batch: Batch, layers: int) -> Array:
    def after(h: Array, source: Array) -> Array:
        for index in range(layers):
            h = model.layer(h, source, index)
        return h

    def add(total: Array, prompt: object) -> tuple[Array, None]:
        h, source = model.tokens(prompt)  # type: ignore[arg-type]
        said = h.shape[1] - model.spec.positions
        jacobian = jax.jacfwd(lambda v: after(h.at[:, :said].set(v), source))(h[:, :said])
        return total + jacobian, None

    first = jax.tree.map(lambda leaf: leaf[0], batch.prompt)
    like = jax.eval_shape(lambda prompt: add(jnp.zeros(()), prompt)[0], first)
    total, _ = jax.lax.scan(add, jnp.zeros(like.shape, like.dtype), batch.prompt)
    return jnp.sqrt(jnp.sum((total / batch.target.shape[0]) ** 2, axis=(1, 3)))


def copying(model: DeepAttentionModel, batch: Batch, layers: int = 1) -> Copying:
    """Whether inputs of an interleaved prompt have read the label that follows them.

    Args:
        model: deep attention over interleaved tokens x_1, y_1, x_2, …, x_q.
        batch: prompts.
        layers: after how many layers.

    Returns:
        Mean norms over the x tokens of the context.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=3, num_prompts=8)
    >>> spec = icl.DeepAttention(layers=1, interleaved=True, positions=4)
    >>> model = spec.initial(task, icl.Init(1e-6), 0, "float64")  # attention does nearly nothing yet
    >>> found = copying(model, task.source(0, "float64").everything())
    >>> round(found.itself, 3), round(found.following, 3)
    (1.414, 0.0)
    """
    require(model.spec.interleaved, "copying is read from interleaved tokens: choose DeepAttention(interleaved=True)")
    norms = token_jacobian(model, batch, layers)
    rows = np.arange(0, norms.shape[0] - 1, 2)
    rest = [np.delete(norms[i], [i, i + 1]).mean() for i in rows]
    return Copying(float(norms[rows, rows].mean()), float(norms[rows, rows + 1].mean()), float(np.mean(rest)))
