"""Update rules, all of them optax's, with traced hyper-parameters: another learning rate is no new program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..core.checks import require
from ..core.forms import as_array
from ..core.recipe import Optimizer


class Hyper(eqx.Module):
    """The numbers of an `Optimizer` as arrays, its rule as a static name.

    Args:
        lr: learning rate.
        momentum: of rule ``momentum``.
        weight_decay: of rule ``adamw``.
        rule: name of the rule.
        options: the optimizer with its other options; None where they all are at their defaults.
    """

    lr: Float[Array, "*run"]
    momentum: Float[Array, "*run"]
    weight_decay: Float[Array, "*run"]
    rule: str = eqx.field(static=True)
    options: Optimizer | None = eqx.field(static=True, default=None)

    @staticmethod
    def of(optimizer: Optimizer, dtype: str) -> Hyper:
        """The numbers of an optimizer in the precision of the run.

        Args:
            optimizer: of a recipe; its numbers may be traced.
            dtype: name of the precision.

        Returns:
            The numbers.
        """
        numbers = (optimizer.lr, optimizer.momentum, optimizer.weight_decay)
        lr, momentum, weight_decay = (as_array(number, dtype) for number in numbers)
        # what is static must not hold the numbers, which are traced
        blank = optimizer.unchecked(lr=1.0, momentum=0.0, weight_decay=0.0)
        return Hyper(lr, momentum, weight_decay, optimizer.rule, None if blank.plain else blank)

    def transformation(self) -> optax.GradientTransformation:
        """The update rule of optax; a flow has none."""
        options = self.options or Optimizer()
        rule = self._rule(options)
        if self.options is None:
            return rule
        parts = []
        if options.frozen:
            parts.append(freeze(options.frozen))
        if options.clip_each is not None:
            parts.append(clip_each(options.clip_each))
        if options.clip is not None:
            parts.append(optax.clip_by_global_norm(options.clip))
        parts.append(rule)
        if options.halve_every is not None:
            every = options.halve_every
            parts.append(optax.scale_by_schedule(lambda count: 0.5 ** (jnp.asarray(count) // every)))
        if options.triangle is not None:
            parts.append(optax.scale_by_schedule(triangle(options.triangle, self.lr.dtype)))
        if options.cosine is not None:
            start = 0.0 if options.warmup else 1.0
            parts.append(
                optax.scale_by_schedule(optax.warmup_cosine_decay_schedule(start, 1.0, options.warmup, options.cosine))
            )
        if options.frozen:
            parts.append(freeze(options.frozen))  # weight decay would move them
        return optax.chain(*parts)

    def _rule(self, options: Optimizer) -> optax.GradientTransformation:
        adam: dict[str, Any] = {"b1": options.betas[0], "b2": options.betas[1], "eps": options.eps}
        match self.rule:
            case "gd" | "sgd":
                return optax.sgd(self.lr)
            case "momentum":
                return optax.sgd(self.lr, self.momentum)  # type: ignore[arg-type]
            case "adam":
                return optax.adam(self.lr, **adam)
            case "adamw":
                mask = only(options.decayed) if options.decayed else None
                return optax.adamw(self.lr, **adam, weight_decay=self.weight_decay, mask=mask)
        raise ValueError(f"rule {self.rule} has no optax transformation")


def clip_each(limit: float) -> optax.GradientTransformation:
    """Scale the gradient of every matrix (the last two axes of an array) down to a largest norm.

    Args:
        limit: the largest norm; arrays with fewer than two axes count as one.

    Returns:
        The transformation.

    >>> gradient = jnp.stack([jnp.eye(4), 10 * jnp.eye(4)])
    >>> clipped, _ = clip_each(5.0).update(gradient, clip_each(5.0).init(gradient))
    >>> [float(jnp.linalg.norm(matrix)) for matrix in clipped]
    [2.0, 5.0]
    """

    def clip(gradient: Array) -> Array:
        norm = jnp.sqrt(jnp.sum(gradient**2, axis=(-2, -1) if gradient.ndim > 1 else None, keepdims=True))
        return jnp.where(norm > limit, gradient * (limit / jnp.where(norm > limit, norm, 1.0)), gradient)

    return optax.stateless(lambda updates, params: jax.tree.map(clip, updates))


def triangle(steps: int, dtype: Any) -> Callable[[Any], Array]:
    """0 → 1 over the first half of some steps and 1 → 0 over the second: factors of a learning rate.

    Args:
        steps: how many.
        dtype: precision of the factors.

    Returns:
        A function of the number of updates made before.

    >>> [float(triangle(4, "float64")(count)) for count in range(6)]
    [0.0, 0.5, 1.0, 0.5, 0.0, 0.0]
    """

    def factor(count: Any) -> Array:
        return jnp.maximum(0, 1 - jnp.abs(2 * jnp.asarray(count, dtype) / steps - 1))

    return factor


def only(names: tuple[str, ...], what: str = "decayed") -> Callable[[Any], Any]:
    """Which leaves of a model, or of anything of its structure, belong to certain weights.

    Args:
        names: of the weights; one that the model does not have is refused.
        what: is done with them, for the message.

    Returns:
        A function from a model to a tree of booleans.

    >>> import iclearn as icl
    >>> model = icl.Attention().initial(icl.LinearRegression(), icl.Init(), 0, "float64")
    >>> jax.tree.leaves(only(("value",))(model)).count(True)
    1
    """

    def mask(params: Any) -> Any:
        have = params.weights() if hasattr(params, "weights") else {}
        unknown = [name for name in names if have and name not in have]
        require(not unknown, f"{what} weights {', '.join(unknown)}: this model has {', '.join(have)}")
        return jax.tree_util.tree_map_with_path(
            lambda path, _: bool(path) and getattr(path[0], "name", None) in names, params
        )

    return mask


def freeze(names: tuple[str, ...]) -> optax.GradientTransformation:
    """No update for some weights.

    Args:
        names: of the weights; one that the model does not have is refused.

    Returns:
        The transformation.
    """
    frozen = only(names, "frozen")

    def update(updates: Any, params: Any) -> Any:
        frozen(params)  # refuses what the model does not have
        return jax.tree.map(lambda held, leaf: jnp.zeros_like(leaf) if held else leaf, frozen(updates), updates)

    return optax.stateless(update)
