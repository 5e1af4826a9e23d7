"""Many devices for one run: prompts spread over all devices, by JAX's own sharding.

With one device this module changes nothing. With more, sums over blocks of prompts and arrays of prompts get an axis
that the compiler splits over the devices; numbers agree with those of one device to rounding, because every prompt is
drawn from a key of its own block, wherever that is computed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array

from . import jax_settings as jax_settings

AXIS = "prompts"
_LEAST = 16  # prompts a device should have for splitting them to be worth the communication

TreeT = TypeVar("TreeT")


@functools.cache
def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), (AXIS,))


def prompt_sharding() -> NamedSharding:
    """The sharding that splits the leading axis over all devices."""
    return NamedSharding(_mesh(), PartitionSpec(AXIS))


def sum_blocks(part: Callable[[Array], TreeT], num_blocks: int, zero: TreeT) -> TreeT:
    """Σ_i part(i) over blocks: in their order on one device, spread over the devices where there are more.

    Args:
        part: index of a block → pytree of arrays.
        num_blocks: how many blocks there are.
        zero: the pytree of zeros to start from.

    Returns:
        The sum, a pytree of the same structure.

    >>> float(sum_blocks(lambda i: 1.0 * i, 4, jnp.zeros(())))
    6.0
    """
    devices = jax.device_count()
    if devices == 1 or num_blocks == 1:
        return jax.lax.fori_loop(0, num_blocks, lambda i, total: jax.tree.map(jnp.add, total, part(i)), zero)
    rows = -(-num_blocks // devices)
    table = jnp.arange(rows * devices).reshape(rows, devices).T  # the blocks of each device
    table = jax.lax.with_sharding_constraint(table, prompt_sharding())

    def own(mine: Array) -> TreeT:
        def add(row: Array, total: TreeT) -> TreeT:
            inside = mine[row] < num_blocks
            new = part(jnp.minimum(mine[row], num_blocks - 1))
            return jax.tree.map(lambda t, n: t + jnp.where(inside, n, 0), total, new)

        return jax.lax.fori_loop(0, rows, add, zero)

    return jax.tree.map(lambda a: a.sum(0), jax.vmap(own)(table))


def spread_prompts(tree: TreeT, num_prompts: int) -> TreeT:
    """Split arrays with a leading axis of prompts over the devices, filled up with zeros (weight 0) to fit.

    Args:
        tree: a pytree of arrays.
        num_prompts: size of their leading axis.

    Returns:
        The split arrays, or those given where they are traced or the prompts are few.
    """
    devices = jax.device_count()
    leaves = jax.tree.leaves(tree)
    if devices == 1 or num_prompts < _LEAST * devices or any(isinstance(a, Tracer) for a in leaves):
        return tree
    missing = -num_prompts % devices
    return jax.tree.map(
        lambda a: jax.device_put(jnp.pad(a, ((0, missing), *((0, 0),) * (a.ndim - 1))), prompt_sharding()), tree
    )
