"""The exact minimizer of ½wᵀGw − cᵀw + λ‖w‖₁ by following it from λ = max|c| downwards.

The minimizer is piecewise linear in λ; at every kink one coordinate comes in or goes out. Within a piece it is solved
for anew, so that rounding does not add up. Lasso, Huber's estimator and least absolute deviations are all of this form,
and none of them converges in a predictable number of steps of coordinate descent.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

EPS = float(jnp.finfo(jnp.float64).eps)
TINY = 1e-11  # kinks below this part of the first λ are rounding; so is a slope this near to one


class PathState(NamedTuple):
    """Where the path is.

    Args:
        level: () the current λ.
        signs: (entry) −1, 0 or 1; 0 for coordinates that are out.
        last: () the coordinate that moved at the last kink, −1 at the start.
        left: () the side from which it went out, 0 if it came in.
        kinks: () how many there were.
    """

    level: Float[Array, ""]
    signs: Float[Array, " entry"]
    last: Int[Array, ""]
    left: Float[Array, ""]
    kinks: Int[Array, ""]


def penalized_minimizer(
    gram: Float[Array, "entry entry"],
    cross: Float[Array, " entry"],
    penalty: Float[Array, ""] | float,
    max_kinks: int | None = None,
) -> Float[Array, " entry"]:
    """argmin_w ½wᵀGw − cᵀw + λ‖w‖₁, for λ = 0 the limit from above.

    Args:
        gram: (entry, entry) G, positive semidefinite and possibly singular; c must be in its range.
        cross: (entry) c.
        penalty: λ, not negative; may be traced.
        max_kinks: where to give up (None: 20 + 8 entries; paths seen have at most about three kinks an entry).

    Returns:
        (entry) w.

    >>> penalized_minimizer(jnp.eye(2), jnp.array([3.0, -0.5]), 1.0)
    Array([2., 0.], dtype=float64)
    """
    size = cross.shape[0]
    most = 20 + 8 * size if max_kinks is None else max_kinks
    penalty = jnp.asarray(penalty, cross.dtype)
    top = jnp.max(jnp.abs(cross), initial=0.0)
    first = jnp.argmax(jnp.abs(cross))
    start = PathState(
        top, jnp.zeros(size).at[first].set(jnp.sign(cross[first])), first, jnp.zeros(()), jnp.zeros((), int)
    )
    floor = jnp.maximum(penalty, TINY * top)

    def piece(signs: Array) -> tuple[Array, Array, Bool[Array, " entry"]]:
        """w = u − λv in the piece of these signs."""
        inside = signs != 0
        both = inside[:, None] & inside[None, :]
        matrix = jnp.where(both, gram, 0.0) + jnp.diag(jnp.where(inside, 0.0, 1.0))
        solved = jnp.linalg.solve(matrix, jnp.stack([jnp.where(inside, cross, 0.0), signs], 1))
        return solved[:, 0], solved[:, 1], inside

    def kink(state: PathState) -> PathState:
        u, v, inside = piece(state.signs)
        slack, slope = cross - gram @ u, gram @ v  # of coordinates that are out: c_j − G_j w = slack + λ slope
        who = jnp.arange(size)
        below = state.level * (1 - 8 * EPS)

        def meets(level: Array, allowed: Array) -> Array:
            fits = allowed & jnp.isfinite(level) & (level > 0) & (level <= jnp.where(who == state.last, below, jnp.inf))
            return jnp.where(fits, jnp.minimum(level, state.level), -1.0)

        def enters(side: float) -> Array:
            free = ~inside & ~((who == state.last) & (state.left == side)) & (1 - side * slope > TINY)
            return meets(side * slack / (1 - side * slope), free)

        leaves = meets(u / v, inside & (state.signs * v < 0) & (who != state.last))
        levels = jnp.stack([enters(1.0), enters(-1.0), leaves])
        at = jnp.argmax(levels)
        kind, which = at // size, at % size
        new = jnp.where(kind == 0, 1.0, jnp.where(kind == 1, -1.0, 0.0))
        level = jnp.maximum(levels.reshape(-1)[at], 0.0)
        on = level > floor
        gone = jnp.where(kind == 2, state.signs[which], 0.0)
        return PathState(
            jnp.where(on, level, 0.0),
            jnp.where(on, state.signs.at[which].set(new), state.signs),
            which, gone, state.kinks + 1,
        )  # fmt: skip

    end = jax.lax.while_loop(lambda s: (s.level > floor) & (s.kinks < most), kink, start)
    u, v, inside = piece(end.signs)
    return jnp.where(inside & (top > penalty), u - penalty * v, 0.0)
