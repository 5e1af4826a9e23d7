"""Boolean functions of inputs ±1, as in Bhattamishra et al. 2024: conjunctions, parities, halfspaces, DNF and CNF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from ..core.checks import require
from .function_laws import AbstractFunctions, Parameters, kept_coordinates

Rule = Literal[
    "conjunction", "disjunction", "parity", "sparse_parity", "majority", "integer_halfspace", "dnf", "cnf"
]  # fmt: skip
CLAUSES = 3
SPARSE = 2  # coordinates of a sparse parity
_KEPT = {"dnf": 0.2, "cnf": 0.2}  # P(w_j ≠ 0); others .3
_PLACED = {"conjunction": 0.3, "disjunction": 0.3, "dnf": 0.35, "cnf": 0.35}  # points that are overwritten


def conjunction(w: Float[Array, " dim"], x: Float[Array, "point dim"]) -> Float[Array, " point"]:
    """+1 where every literal of w holds: sign(w·x − (‖w‖₁ − 1)). The empty conjunction is +1.

    Args:
        w: (dim) literals, each −1, 0 (absent) or 1.
        x: (point, dim) inputs ±1.

    Returns:
        (point) labels ±1.
    """
    return jnp.sign(x @ w - (jnp.abs(w).sum() - 1))


def disjunction(w: Float[Array, " dim"], x: Float[Array, "point dim"]) -> Float[Array, " point"]:
    """+1 where some literal of w holds: sign(w·x + ‖w‖₁ − 1). The empty disjunction is −1.

    Args:
        w: (dim) literals, each −1, 0 (absent) or 1.
        x: (point, dim) inputs ±1.

    Returns:
        (point) labels ±1.
    """
    return jnp.sign(x @ w + jnp.abs(w).sum() - 1)


def parity(w: Float[Array, " dim"], x: Float[Array, "point dim"]) -> Float[Array, " point"]:
    """+1 where an odd number of the chosen coordinates is +1.

    Args:
        w: (dim) 1 for chosen coordinates, else 0.
        x: (point, dim) inputs ±1.

    Returns:
        (point) labels ±1.
    """
    return 2 * ((((x + 1) / 2) @ w) % 2) - 1


def halfspace(w: Float[Array, " dim"], x: Float[Array, "point dim"]) -> Float[Array, " point"]:
    """sign(w·x − ½) for whole w.

    Args:
        w: (dim) weights.
        x: (point, dim) inputs ±1.

    Returns:
        (point) labels ±1.
    """
    return jnp.sign(x @ w - 0.5)


_SINGLE: dict[str, Callable[[Array, Array], Array]] = {
    "conjunction": conjunction, "disjunction": disjunction, "parity": parity, "sparse_parity": parity,
    "majority": halfspace, "integer_halfspace": halfspace,
}  # fmt: skip


@dataclass(frozen=True)
class BooleanFunctions(AbstractFunctions, kind="boolean_functions"):
    """Boolean functions with inputs and labels ±1.

    In classes whose labels would nearly all agree some points are placed: with probability .3 a point is overwritten
    so that it satisfies the conjunction (falsifies the disjunction), with .35 so that it satisfies one term of the DNF
    (falsifies one clause of the CNF), which is chosen for the prompt.

    Args:
        rule: ``conjunction`` and ``disjunction`` of literals, each there with probability .3, both signs alike;
            ``parity`` of a uniformly drawn set of coordinates and ``sparse_parity`` of 2; ``majority``: sign(w·x − ½)
            with w_j = 1 with probability .3, else 0; ``integer_halfspace``: the same with w_j uniform in −3..3;
            ``dnf``: or of 3 conjunctions, ``cnf``: and of 3 disjunctions, with literals of probability .2.

    >>> BooleanFunctions("parity").labels({"w": jnp.array([1.0, 1.0])}, jnp.array([[1.0, 1.0], [1.0, -1.0]])).tolist()
    [-1.0, 1.0]
    """

    normal_inputs: ClassVar[bool] = False
    signs: ClassVar[bool] = True
    shorthand: ClassVar[str] = "rule"

    rule: Rule = "conjunction"

    def check_dim(self, dim: int) -> None:
        enough = self.rule != "sparse_parity" or dim >= SPARSE
        require(enough, f"a sparse parity has {SPARSE} coordinates, and there is {dim}")

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        first, second, third = jax.random.split(key, 3)
        if self.rule == "sparse_parity":
            return {"w": kept_coordinates(first, dim, SPARSE).astype(dtype)}
        if self.rule == "integer_halfspace":
            return {"w": jax.random.randint(first, (dim,), -3, 4).astype(dtype)}
        if self.rule in ("parity", "majority"):
            share = 0.5 if self.rule == "parity" else 0.3
            return {"w": jax.random.bernoulli(first, share, (dim,)).astype(dtype)}
        shape = (CLAUSES, dim) if self.rule in ("dnf", "cnf") else (dim,)
        kept = jax.random.bernoulli(first, _KEPT.get(self.rule, 0.3), shape)
        w = jnp.where(kept, jax.random.rademacher(second, shape, jnp.int32), 0).astype(dtype)
        if len(shape) == 1:
            return {"w": w}
        return {"w": w, "placed": jax.random.randint(third, (), 0, CLAUSES)}

    def inputs(
        self, key: Key[Array, ""], parameters: Parameters, points: int, dim: int, dtype: Any
    ) -> Float[Array, "point dim"]:
        first, second = jax.random.split(key)
        x = jax.random.rademacher(first, (points, dim), jnp.int32).astype(dtype)
        if self.rule not in _PLACED:
            return x
        w = parameters["w"][parameters["placed"]] if "placed" in parameters else parameters["w"]
        wanted = w if self.rule in ("conjunction", "dnf") else -w
        placed = jax.random.bernoulli(second, _PLACED[self.rule], (points, 1))
        return jnp.where(placed & (w != 0), wanted, x)

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        w = parameters["w"]
        if self.rule == "dnf":
            return jax.vmap(conjunction, (0, None))(w, x).max(0)
        if self.rule == "cnf":
            return jax.vmap(disjunction, (0, None))(w, x).min(0)
        return _SINGLE[self.rule](w, x)
