"""A toy of training with parts that have to be learned together: three vectors and the product of all of them.

½ mean (a⊗b⊗c − a*⊗b*⊗c*)² is minimized over a, b and c by gradient descent (singh2024). Each of them is driven by how
far the other two are along, which makes a plateau; with one or two of them held at the truth it is shorter.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import check_int, require

NAMES = "abc"


class Vectors(NamedTuple):
    """The three vectors, of one dimension.

    Args:
        a: (dim) the one whose progress is measured.
        b: (dim) the second.
        c: (dim) the third.
    """

    a: Float[Array, " dim"]
    b: Float[Array, " dim"]
    c: Float[Array, " dim"]

    def product(self) -> Float[Array, "dim dim dim"]:
        """a⊗b⊗c."""
        return jnp.einsum("i,j,k->ijk", self.a, self.b, self.c)


class ToyRun(NamedTuple):
    """One run of `descend_toy`: numbers before each step.

    Args:
        loss: (step) ½ mean (a⊗b⊗c − a*⊗b*⊗c*)².
        misalignment: (step) 1 − cos²(a, a*).
        loss_with_truth: (step) the loss with b and c at the truth, for the better sign of a.
        zero_loss: () the loss of vectors that are 0.
    """

    loss: Float[Array, " step"]
    misalignment: Float[Array, " step"]
    loss_with_truth: Float[Array, " step"]
    zero_loss: Float[Array, ""]

    def steps_until(self, part: float) -> int | None:
        """The first step before which the loss is at most a part of the loss at 0; None if there is none.

        Args:
            part: of the loss at 0.

        Returns:
            The step.
        """
        below = np.asarray(self.loss) <= part * float(self.zero_loss)
        return int(np.argmax(below)) if below.any() else None


def toy_loss(vectors: Vectors, truth: Vectors) -> Float[Array, ""]:
    """½ mean (a⊗b⊗c − a*⊗b*⊗c*)².

    Args:
        vectors: a, b and c.
        truth: a*, b* and c*.

    Returns:
        () the loss.

    >>> one, two = (jnp.array([1.0]), jnp.array([2.0]))
    >>> float(toy_loss(Vectors(two, two, one), Vectors(one, one, one)))
    4.5
    """
    return 0.5 * jnp.mean((vectors.product() - truth.product()) ** 2)


def draw_toy(seed: int, dim: int = 20) -> tuple[Vectors, Vectors]:
    """Vectors to begin with and true ones, all entries standard normal.

    Args:
        seed: of the draw.
        dim: of the vectors.

    Returns:
        The first vectors and the truth.
    """
    check_int("the dimension of the toy", dim, 1)
    draws = jax.random.normal(jax.random.key(seed), (2, 3, dim), jnp.float64)
    return Vectors(*draws[0]), Vectors(*draws[1])


def descend_toy(initial: Vectors, truth: Vectors, clamped: str = "", steps: int = 1000, lr: float = 1.0) -> ToyRun:
    """Gradient descent on the toy, with some of the vectors held at the truth from the start.

    Args:
        initial: the vectors at the start.
        truth: the true ones.
        clamped: which are held: any of the letters a, b and c.
        steps: of gradient descent.
        lr: step size.

    Returns:
        Loss and measures of a before each step.

    >>> run = descend_toy(*draw_toy(0), clamped="bc", steps=200)
    >>> bool(run.loss[-1] < 1e-3 * run.loss[0])
    True
    """
    unknown = set(clamped) - set(NAMES)
    require(not unknown, f"the vectors of the toy are a, b and c; {''.join(sorted(unknown))!r} is none of them")
    check_int("the number of steps", steps, 1)
    first, true = (Vectors(*(jnp.asarray(v, float) for v in part)) for part in (initial, truth))
    return _descend(first, true, tuple(name in clamped for name in NAMES), steps, lr)


@eqx.filter_jit
def _descend(initial: Vectors, truth: Vectors, held: tuple[bool, ...], steps: int, lr: float) -> ToyRun:
    def clamp(vectors: Vectors) -> Vectors:
        return Vectors(*(t if fixed else v for v, t, fixed in zip(vectors, truth, held, strict=True)))

    def measures(vectors: Vectors) -> tuple[Array, Array]:
        a, goal = vectors.a, truth.a
        cosine = (a @ goal) ** 2 / ((a @ a) * (goal @ goal))
        signs = [toy_loss(truth._replace(a=sign * a), truth) for sign in (1.0, -1.0)]
        return 1 - cosine, jnp.minimum(*signs)

    def step(vectors: Vectors, _: None) -> tuple[Vectors, tuple[Array, Array, Array]]:
        loss, gradient = jax.value_and_grad(toy_loss)(vectors, truth)
        moved = jax.tree.map(lambda v, g: v - lr * g, vectors, gradient)
        return clamp(moved), (loss, *measures(vectors))

    found = jax.lax.scan(step, clamp(initial), None, length=steps)[1]
    return ToyRun(*found, zero_loss=0.5 * jnp.mean(truth.product() ** 2))
