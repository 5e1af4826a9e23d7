"""Greedy regression trees on the context, followed only along the path of the query.

A tree splits its pairs where the squared error falls most, at midpoints between neighboring values of a coordinate. Its
answer to one query needs the splits on the query's own way down: as many as the tree is deep.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from ...core.checks import check_int
from ...core.model import AbstractModel
from ...core.prompt import Prompt

PURE = 1e-14  # a node whose squared error is this part of its squares, or less, is a leaf


class GreedyTree(AbstractModel):
    """A regression tree grown greedily on the context (garg2022: depth 4 or unlimited); 0 without a context.

    Every node is split, at a midpoint x_c ≤ t, where the squared error of the two means falls most, until it is pure,
    has one value left of every coordinate, or is at `depth`. Of splits that are equally good the first is taken; other
    programs break such ties at random.

    Args:
        depth: of the tree (None: unlimited).
        signs: whether it sees sign(x) instead of x.

    >>> from iclearn.core.prompt import full_prompt
    >>> x, y = jnp.array([[1.0], [2.0], [3.0], [4.0]]), jnp.array([[0.0], [0.0], [1.0], [3.0]])
    >>> [round(float(GreedyTree(k).predict(full_prompt(x, y, jnp.array([3.4])))[0]), 3) for k in (0, 1, 2)]
    [1.0, 0.333, 1.0]
    """

    depth: int | None = eqx.field(static=True, default=4)
    signs: bool = eqx.field(static=True, default=False)

    def __check_init__(self) -> None:
        if self.depth is not None:
            check_int("the depth of a tree", self.depth, 0)

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        x, y, query = (part.astype(jnp.float64) for part in (prompt.x, prompt.y, prompt.query))
        if self.signs:
            x, query = jnp.sign(x), jnp.sign(query)
        most = max(x.shape[0] - 1, 0) if self.depth is None else self.depth
        if x.shape[0] == 0:
            return jnp.zeros(y.shape[1], prompt.query.dtype)
        order = jnp.argsort(x, 0)
        sorted_x = jnp.take_along_axis(x, order, 0)
        sorted_y = y[order]  # (context, dim, output)

        def further(state: tuple[Bool[Array, " context"], Bool[Array, ""], Array]) -> Array:
            return ~state[1] & (state[2] < most)

        def down(state: tuple[Bool[Array, " context"], Bool[Array, ""], Array]) -> tuple[Array, Array, Array]:
            inside, _, depth = state
            coordinate, threshold, leaf = best_split(sorted_x, sorted_y, inside[order])
            side = (x[:, coordinate] <= threshold) == (query[coordinate] <= threshold)
            return jnp.where(leaf, inside, inside & side), leaf, depth + 1

        start = (prompt.mask, ~jnp.any(prompt.mask), jnp.zeros((), int))
        inside = jax.lax.while_loop(further, down, start)[0]
        return (inside @ y / jnp.maximum(inside.sum(), 1)).astype(prompt.query.dtype)


def best_split(
    x: Float[Array, "context dim"], y: Float[Array, "context dim output"], inside: Bool[Array, "context dim"]
) -> tuple[Array, Float[Array, ""], Bool[Array, ""]]:
    """The split of a node after which the squared error is least.

    Args:
        x: (context, dim) every coordinate sorted by itself.
        y: (context, dim, output) the labels in the order of each coordinate.
        inside: (context, dim) which pairs are in the node, in these orders.

    Returns:
        The coordinate, the threshold t of x_c ≤ t, and whether there is nothing to split.
    """
    weight = inside.astype(y.dtype)
    count = weight[:, 0].sum()
    labels = y * weight[..., None]
    mean = labels[:, 0].sum(0) / jnp.maximum(count, 1)
    centered = (y - mean) * weight[..., None]
    spread, size = jnp.sum(centered[:, 0] ** 2), jnp.sum(labels[:, 0] ** 2)
    number, total = jnp.cumsum(weight, 0), jnp.cumsum(centered, 0)
    others = jnp.maximum(count - number, 1)
    gain = jnp.sum(total**2, -1) * (1 / jnp.maximum(number, 1) + 1 / others)  # centered: both halves have the same sum
    # the next value in the node after each place, from the back
    after = jnp.where(inside, x, jnp.inf)
    following = jnp.concatenate([jax.lax.cummin(after, axis=0, reverse=True)[1:], jnp.full((1, x.shape[1]), jnp.inf)])
    possible = inside & jnp.isfinite(following) & (following > x)
    gain = jnp.where(possible, gain, -1.0)
    place = jnp.argmax(gain.T)  # by coordinate, then by place
    coordinate, row = place // x.shape[0], place % x.shape[0]
    threshold = (x[row, coordinate] + following[row, coordinate]) / 2
    leaf = (gain[row, coordinate] < 0) | (spread <= PURE * size)
    return coordinate, threshold, leaf
