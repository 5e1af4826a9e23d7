"""Many devices for one run: prompts spread over all devices, by JAX's own sharding.

With one device nothing here does anything. With more, sums over blocks of prompts and arrays of prompts get an axis
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
_LEAST = 16  # prompts a device should have, or splitting them is not worth a word between devices

TreeT = TypeVar("TreeT")


@functools.cache
def _mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), (AXIS,))


def prompt_sharding() -> NamedSharding:
    """The leading axis over all devices."""
    return NamedSharding(_mesh(), PartitionSpec(AXIS))


def sum_blocks(part: Callable[[Array], TreeT], num_blocks: int, zero: TreeT) -> TreeT:
    """Σ_i part(i) over the blocks, in order on one device, spread over the devices where there are more."""
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
    """Arrays with a leading axis of prompts, split over the devices; filled up with zeros (weight 0) to fit.

    Where the arrays are traced or there are few prompts they stay as they are.
    """
    devices = jax.device_count()
    leaves = jax.tree.leaves(tree)
    if devices == 1 or num_prompts < _LEAST * devices or any(isinstance(a, Tracer) for a in leaves):
        return tree
    missing = -num_prompts % devices
    return jax.tree.map(
        lambda a: jax.device_put(jnp.pad(a, ((0, missing), *((0, 0),) * (a.ndim - 1))), prompt_sharding()), tree
    )
