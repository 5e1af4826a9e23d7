"""Update rules, all of them optax's, with traced hyper-parameters: another learning rate is no new program."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..core.recipe import Optimizer


class Hyper(eqx.Module):
    """The numbers of an `Optimizer` as arrays, its rule as a static name."""

    lr: Float[Array, "*run"]
    momentum: Float[Array, "*run"]
    weight_decay: Float[Array, "*run"]
    rule: str = eqx.field(static=True)

    @staticmethod
    def of(optimizer: Optimizer, dtype: str) -> Hyper:
        return Hyper(
            jnp.asarray(optimizer.lr, dtype),
            jnp.asarray(optimizer.momentum, dtype),
            jnp.asarray(optimizer.weight_decay, dtype),
            optimizer.rule,
        )

    def transformation(self) -> optax.GradientTransformation:
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
