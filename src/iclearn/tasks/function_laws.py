"""Laws of functions of real inputs, for `FunctionClass`: how a function is drawn and what its labels are."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from ..core.checks import check_int, require
from ..core.rng import normal
from ..core.spec import Spec

Parameters = dict[str, Array]


class AbstractFunctions(Spec):
    """A law of functions: the ``functions`` of a `FunctionClass`. Every method is about ONE function.

    >>> law = LinearFunctions()
    >>> found = law.draw(jax.random.key(0), 3, "float64")
    >>> law.labels(found, jnp.ones((4, 3))).shape
    (4,)
    """

    normal_inputs: ClassVar[bool] = True  # whether inputs are N(0, I), which is what shifts of inputs start from
    normal_weights: ClassVar[bool] = False  # whether ``w`` is N(0, I), which is what shifts of the prior start from
    signs: ClassVar[bool] = False  # whether labels are ±1

    @property
    def sampled_labels(self) -> bool:
        """Whether the labels shown are drawn, by `shown`, and not the values of the function."""
        return False

    @abstractmethod
    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        """The parameters of a function.

        Args:
            key: from which it is drawn.
            dim: dimension of the inputs.
            dtype: precision.
            valid: how many of the first coordinates a sparse function may depend on; may be traced (None: all).

        Returns:
            Name → array.
        """

    @abstractmethod
    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        """The values of a function.

        Args:
            parameters: of the function.
            x: (point, dim) where.

        Returns:
            (point) the values, without noise.
        """

    def inputs(
        self, key: Key[Array, ""], parameters: Parameters, points: int, dim: int, dtype: Any
    ) -> Float[Array, "point dim"]:
        """Inputs of a prompt; they may depend on the function.

        Args:
            key: from which they are drawn.
            parameters: of the function.
            points: how many.
            dim: their dimension.
            dtype: precision.

        Returns:
            (point, dim) the inputs.
        """
        return normal(key, (points, dim), dtype)

    def shown(
        self, key: Key[Array, ""], parameters: Parameters, x: Float[Array, "point dim"], clean: Float[Array, " point"]
    ) -> Float[Array, " point"]:
        """The labels that a prompt shows, where they are drawn (`sampled_labels`).

        Args:
            key: for labels that are drawn.
            parameters: of the function.
            x: (point, dim) the inputs.
            clean: (point) the values there.

        Returns:
            (point) the labels.
        """
        return clean

    def normalizer(self, dim: int) -> float:
        """What squared errors are divided by, so that answering 0 scores 1: E y² of the plain law.

        Args:
            dim: dimension of the inputs.

        Returns:
            The number.
        """
        return 1.0

    def check_dim(self, dim: int) -> None:
        """Refuse a dimension of the inputs that the law has no functions for."""


def kept_coordinates(key: Key[Array, ""], dim: int, count: int, valid: Any = None) -> Bool[Array, " dim"]:
    """A set of coordinates, uniform among all of its size.

    Args:
        key: from which it is drawn.
        dim: how many coordinates there are.
        count: how many are kept.
        valid: they are among so many first ones; may be traced (None: all).

    Returns:
        (dim) whether each is kept.
    """
    order = jax.random.uniform(key, (dim,))
    if valid is not None:
        order = jnp.where(jnp.arange(dim) < valid, order, 2.0)
    return jnp.zeros(dim, bool).at[jnp.argsort(order)[:count]].set(True)


@dataclass(frozen=True)
class LinearFunctions(AbstractFunctions, kind="linear_functions"):
    """y = scale · w·x with w ~ N(0, I).

    Args:
        scale: factor on labels.
        normalized: labels are divided by √dim (Bai et al. 2023), so that E y² = scale².

    >>> law = LinearFunctions(scale=2.0)
    >>> law.labels({"w": jnp.array([1.0, -1.0])}, jnp.array([[3.0, 1.0]])).tolist()
    [4.0]
    """

    normal_weights: ClassVar[bool] = True

    scale: float = 1.0
    normalized: bool = False

    def factor(self, dim: int) -> float:
        """What w·x is multiplied by."""
        return self.scale / float(np.sqrt(dim)) if self.normalized else self.scale

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        return {"w": normal(key, (dim,), dtype)}

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        return self.factor(x.shape[-1]) * (x @ parameters["w"])

    def normalizer(self, dim: int) -> float:
        return 1.0 if self.normalized else float(dim)


@dataclass(frozen=True)
class SparseFunctions(AbstractFunctions, kind="sparse_functions"):
    """y = w·x with `sparsity` entries of w standard normal and the others 0.

    Args:
        sparsity: s, entries that are not 0.
        valid: these are among so many first coordinates (None: all).
        normalized: labels are divided by √sparsity (Bai et al. 2023).

    >>> w = SparseFunctions(sparsity=2, valid=4).draw(jax.random.key(0), 6, "float64")["w"]
    >>> int((w != 0).sum()), int((w[4:] != 0).sum())
    (2, 0)
    """

    sparsity: int = 3
    valid: int | None = None
    normalized: bool = False

    def __post_init__(self) -> None:
        check_int("sparsity", self.sparsity, 1)
        enough = self.valid is None or self.valid >= self.sparsity
        require(enough, f"{self.sparsity} entries cannot be among the first {self.valid} coordinates")

    def check_dim(self, dim: int) -> None:
        least = self.sparsity if self.valid is None else self.valid
        require(dim >= least, f"sparse functions of {least} coordinates need as many dimensions, not {dim}")

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        value_key, place_key = jax.random.split(key)
        first = self.valid if valid is None else jnp.minimum(valid, dim if self.valid is None else self.valid)
        keep = kept_coordinates(place_key, dim, self.sparsity, first)
        return {"w": jnp.where(keep, normal(value_key, (dim,), dtype), 0)}

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        factor = self.sparsity**-0.5 if self.normalized else 1.0
        return factor * (x @ parameters["w"])

    def normalizer(self, dim: int) -> float:
        return 1.0 if self.normalized else float(self.sparsity)


@dataclass(frozen=True)
class SignFunctions(AbstractFunctions, kind="sign_functions"):
    """Classification: y = sign(w·x) with w ~ N(0, I).

    Args:
        sampled: the labels shown are drawn, +1 with probability sigmoid(w·x) (Bai et al. 2023).
    """

    normal_weights: ClassVar[bool] = True
    signs: ClassVar[bool] = True

    sampled: bool = False

    @property
    def sampled_labels(self) -> bool:
        return self.sampled

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        return {"w": normal(key, (dim,), dtype)}

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        return jnp.sign(x @ parameters["w"])

    def shown(
        self, key: Key[Array, ""], parameters: Parameters, x: Float[Array, "point dim"], clean: Float[Array, " point"]
    ) -> Float[Array, " point"]:
        positive = jax.random.uniform(key, clean.shape) < jax.nn.sigmoid(x @ parameters["w"])
        return jnp.where(positive, 1.0, -1.0).astype(clean.dtype)


@dataclass(frozen=True)
class QuadraticFunctions(AbstractFunctions, kind="quadratic_functions"):
    """y = scale · Σ_j w_j x_j² / √3 with w ~ N(0, I).

    Args:
        scale: factor on labels.
    """

    normal_weights: ClassVar[bool] = True

    scale: float = 1.0

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        return {"w": normal(key, (dim,), dtype)}

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        return (self.scale / float(np.sqrt(3))) * (x**2 @ parameters["w"])

    def normalizer(self, dim: int) -> float:
        return float(dim)


@dataclass(frozen=True)
class ReluFunctions(AbstractFunctions, kind="relu_functions"):
    """Two-layer networks: y = √(2/hidden) · Σ_k v_k max(w_k·x, 0), all weights standard normal, no biases.

    Args:
        hidden: units of the hidden layer.
    """

    hidden: int = 100

    def __post_init__(self) -> None:
        check_int("hidden", self.hidden, 1)

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        first, second = jax.random.split(key)
        return {"first": normal(first, (dim, self.hidden), dtype), "second": normal(second, (self.hidden,), dtype)}

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        return (2 / self.hidden) ** 0.5 * (jax.nn.relu(x @ parameters["first"]) @ parameters["second"])

    def normalizer(self, dim: int) -> float:
        return float(dim)


@dataclass(frozen=True)
class TreeFunctions(AbstractFunctions, kind="tree_functions"):
    """Full binary trees: node k asks whether x_{c_k} > 0 and goes on to 2k+1 (no) or 2k+2 (yes); leaves are N(0, 1).

    Args:
        depth: questions on the way to a leaf.

    >>> tree = {"coordinate": jnp.array([0]), "leaf": jnp.array([5.0, 7.0])}
    >>> TreeFunctions(depth=1).labels(tree, jnp.array([[-1.0], [1.0]])).tolist()
    [5.0, 7.0]
    """

    depth: int = 4

    def __post_init__(self) -> None:
        check_int("depth", self.depth, 1)

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        first, second = jax.random.split(key)
        leaves = 2**self.depth
        coordinate = jax.random.randint(first, (leaves - 1,), 0, dim)
        return {"coordinate": coordinate, "leaf": normal(second, (leaves,), dtype)}

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        node = jnp.zeros(x.shape[0], int)
        for _ in range(self.depth):
            asked = jnp.take_along_axis(x, parameters["coordinate"][node][:, None], 1)[:, 0]
            node = 2 * node + 1 + (asked > 0)
        return parameters["leaf"][node - (2**self.depth - 1)]


@dataclass(frozen=True)
class SinusoidFunctions(AbstractFunctions, kind="sinusoid_functions"):
    """y = a sin(x + φ) of one input x ~ U(−5, 5), with a ~ U(.1, .5) and φ ~ U(0, π).

    Args:
        tied: amplitude and phase come from one random number, a = .1 + .4 φ/π, as in von Oswald et al.'s code.
    """

    normal_inputs: ClassVar[bool] = False

    tied: bool = False

    def check_dim(self, dim: int) -> None:
        require(dim == 1, f"a sinusoid has inputs of one dimension, not {dim}")

    def draw(self, key: Key[Array, ""], dim: int, dtype: Any, valid: Any = None) -> Parameters:
        first, second = jax.random.uniform(key, (2,), jnp.float32).astype(dtype)
        return {"amplitude": 0.1 + 0.4 * (first if self.tied else second), "phase": float(np.pi) * first}

    def inputs(
        self, key: Key[Array, ""], parameters: Parameters, points: int, dim: int, dtype: Any
    ) -> Float[Array, "point dim"]:
        return jax.random.uniform(key, (points, dim), jnp.float32, -5.0, 5.0).astype(dtype)

    def labels(self, parameters: Parameters, x: Float[Array, "point dim"]) -> Float[Array, " point"]:
        return parameters["amplitude"] * jnp.sin(x[:, 0] + parameters["phase"])
