"""Update rules, all of them optax's, with traced hyper-parameters: another learning rate is no new program."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..core.recipe import Optimizer


class Hyper(eqx.Module):
    """The numbers of an `Optimizer` as arrays, its rule as a static name.

    Args:
        lr: learning rate.
        momentum: of rule ``momentum``.
        weight_decay: of rule ``adamw``.
        rule: name of the rule.
    """

    lr: Float[Array, "*run"]
    momentum: Float[Array, "*run"]
    weight_decay: Float[Array, "*run"]
    rule: str = eqx.field(static=True)

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
        lr, momentum, weight_decay = (jnp.asarray(number, dtype) for number in numbers)
        return Hyper(lr, momentum, weight_decay, optimizer.rule)

    def transformation(self) -> optax.GradientTransformation:
        """The update rule of optax; a flow has none."""
        match self.rule:
            case "gd" | "sgd":
                return optax.sgd(self.lr)
            case "momentum":
                return optax.sgd(self.lr, self.momentum)  # type: ignore[arg-type]
            case "adam":
                return optax.adam(self.lr)
            case "adamw":
                return optax.adamw(self.lr, weight_decay=self.weight_decay)  # type: ignore[arg-type]
        raise ValueError(f"rule {self.rule} has no optax transformation")
