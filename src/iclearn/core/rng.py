"""Named random streams from one root seed.

The same recipe gives the same numbers alone, in a vmapped batch, and on another number of devices, because
every array is drawn from a key that depends on the seed, the stream's name and a fixed block index only.
"""

from __future__ import annotations

import functools
import math
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float, Key, PRNGKeyArray

from . import jax_settings as jax_settings
from .forms import as_array, numpy_of


@jax.jit
def _stream(seed: int | Array, name: int | Array) -> PRNGKeyArray:
    return jax.random.fold_in(jax.random.key(seed), name)


def stream(seed: int | Array, name: str) -> PRNGKeyArray:
    """The key of a named stream of random numbers.

    Args:
        seed: the root seed; may be traced.
        name: what the numbers are for, such as ``"init"`` or ``"data.train"``.

    Returns:
        The key: fold_in(key(seed), CRC-32 of the name).

    >>> bool(stream(0, "init") == stream(0, "init")), bool(stream(0, "init") == stream(0, "data.train"))
    (True, False)
    """
    return _stream(seed, zlib.crc32(name.encode()) & 0x7FFFFFFF)


def normal(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Standard normals drawn in float32 and cast, so that float32 and float64 runs see the same prompts.

    Args:
        key: the key.
        shape: shape of the array.
        dtype: precision it is cast to.

    Returns:
        The array.
    """
    return jax.random.normal(key, shape, jnp.float32).astype(dtype)


@functools.partial(jax.jit, static_argnums=1)
def standard_normals(key: Key[Array, ""], shapes: tuple[tuple[int, ...], ...]) -> tuple[Array, ...]:
    """Several arrays of standard normals in double precision, for weights: one compiled program for all.

    Each is drawn as one row and shaped afterwards: the same numbers, in half the time to compile.

    Args:
        key: the key; array i is drawn from fold_in(key, i).
        shapes: the shape of each array.

    Returns:
        The arrays.
    """
    rows = [jax.random.normal(jax.random.fold_in(key, i), (math.prod(s),), jnp.float64) for i, s in enumerate(shapes)]
    return tuple(row.reshape(shape) for row, shape in zip(rows, shapes, strict=True))


def cut_normals(normals: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Standard normals made into normals cut off at ±2, of variance 1, as haiku's variance scaling draws them.

    Args:
        normals: standard normals z; each becomes Φ⁻¹ of its place between Φ(−2) and Φ(2).

    Returns:
        An array of the same shape.

    >>> [round(value, 4) for value in cut_normals(jnp.array([-50.0, 0.0, 50.0])).tolist()]  # ±2/.8796
    [-2.2737, 0.0, 2.2737]
    """
    below, density = float(ndtr(-2.0)), float(np.exp(-2.0) / np.sqrt(2 * np.pi))
    deviation = np.sqrt(1 - 4 * density / (1 - 2 * below))
    return ndtri(below + (1 - 2 * below) * ndtr(normals)) / deviation


@functools.partial(jax.jit, static_argnums=1)
def _square_normals(key: Key[Array, ""], dim: int) -> Float[Array, "dim dim"]:
    return jax.random.normal(key, (dim, dim), jnp.float64)


def random_rotation(key: Key[Array, ""], dim: int) -> Float[Array, "dim dim"]:
    """A uniformly distributed orthogonal matrix: Q of the QR decomposition of a Gaussian matrix, with R's diagonal > 0.

    Args:
        key: the key.
        dim: number of rows and columns.

    Returns:
        (dim, dim) the matrix.
    """
    normals = _square_normals(key, dim)
    xp = numpy_of(normals)  # JAX's own decomposition imports all of scipy.linalg first
    q, r = xp.linalg.qr(xp.asarray(normals))
    return as_array(q * xp.sign(xp.diagonal(r)))
