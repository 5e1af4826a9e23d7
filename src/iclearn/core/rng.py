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
from jax.core import Tracer
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float, Key, PRNGKeyArray

from . import jax_settings as jax_settings
from .forms import as_array, numpy_of
from .kept_programs import kept


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
    number = zlib.crc32(name.encode()) & 0x7FFFFFFF
    if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63 or not _threefry_in_64_bits():
        return _stream(seed, number)
    # the same integers by numpy, for which nothing is compiled
    return _folded(np.array([int(seed) >> 32, int(seed) & 0xFFFFFFFF], np.uint32), number)


def _folded(words: np.ndarray, number: int) -> PRNGKeyArray:
    """`jax.random.fold_in` by numpy.

    Args:
        words: (2) of the key.
        number: what is folded in, below 2³².

    Returns:
        The key.
    """
    return jax.random.wrap_key_data(as_array(folded_words(words, np.array([number]))[:, 0]))


def folded_words(words: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """`jax.random.fold_in` by numpy, of many numbers into one key.

    Args:
        words: (2) of the key.
        numbers: (number) what is folded in.

    Returns:
        (2, number) the words of the keys.
    """
    nothing = np.zeros(len(numbers), np.uint32)
    return np.stack(threefry(np.repeat(words[:, None], len(numbers), 1), nothing, numbers.astype(np.uint32)))


def split_words(words: np.ndarray) -> np.ndarray:
    """`jax.random.split` by numpy, of many keys into two each.

    Args:
        words: (2, key) of the keys.

    Returns:
        (key, 4) the words of the first key of each, and of the second.
    """
    nothing = np.zeros(words.shape[1], np.uint32)
    parts = [*threefry(words, nothing, nothing), *threefry(words, nothing, nothing + np.uint32(1))]
    return np.ascontiguousarray(np.stack(parts, 1))


def _threefry_in_64_bits() -> bool:
    """Whether JAX makes keys of seeds as `stream` does by itself."""
    return bool(jax.config.jax_enable_x64) and jax.config.jax_default_prng_impl == "threefry2x32"  # type: ignore[attr-defined]


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


def normal_rows(key: Key[Array, ""], rows: int, factor: Float[Array, "dim dim"], dtype: Any) -> Float[Array, "row dim"]:
    """Rows z·factor of standard normal z: the numbers of ``normal(key, (rows, dim)) @ factor``, drawn faster.

    A processor computes normals several times slower in rows of few numbers than in long ones, and the product with a
    block-diagonal factor is what keeps the long rows apart from the short ones that follow.

    Args:
        key: the key.
        rows: how many.
        factor: (dim, dim) the factor.
        dtype: precision of the result.

    Returns:
        (rows, dim) the rows.
    """
    dim = factor.shape[0]
    together = max(1, min(rows & -rows, 128 // dim))
    together = 1 << (together.bit_length() - 1)
    long = normal(key, (rows // together, together * dim), dtype)
    return (long @ jnp.kron(jnp.eye(together, dtype=dtype), factor.astype(dtype))).reshape(rows, dim)


KEY_PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(key: Any, first: Any, second: Any) -> tuple[Any, Any]:
    """Threefry-2x32 with 20 rounds (Salmon et al. 2011), written out so that XLA fuses it with what follows.

    Args:
        key: (2) the words of a key (`jax.random.key_data`).
        first: first words of the counters.
        second: their second words.

    Returns:
        The two words of each block; numpy's arrays where all were numpy's.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(KEY_PARITY))
    first, second = first + keys[0], second + keys[1]
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            first = first + second
            second = ((second << turn) | (second >> (32 - turn))) ^ first
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first, second


def _log_series() -> tuple[Any, ...]:
    nodes = np.polynomial.Chebyshev.interpolate(
        lambda f: np.where(np.abs(f) < 1e-3, 1 / 3 - f / 4 + f**2 / 5, (np.log1p(f) - f + f**2 / 2) / f**3),
        9,
        [np.sqrt(0.5) - 1, np.sqrt(2.0) - 1],
    )
    return tuple(np.float32(c) for c in nodes.convert(kind=np.polynomial.Polynomial).coef)


# sin and cos of (π/4)·t for 0 ≤ t < 1, as polynomials in t²; the next terms of the series are below 1e-7 there.
SIN_SERIES = tuple(np.float32((-1) ** k * (np.pi / 4) ** (2 * k + 1) / math.factorial(2 * k + 1)) for k in range(5))
COS_SERIES = tuple(np.float32((-1) ** k * (np.pi / 4) ** (2 * k) / math.factorial(2 * k)) for k in range(5))


# (log(1 + f) − f + f²/2)/f³ for √½ − 1 ≤ f < √2 − 1 in powers of f, fitted (Chebyshev) to 1e-8: for code that has to
# bring a logarithm of its own.
LOG_SERIES = _log_series()


def paired_normals(key: Key[Array, ""], count: int) -> Float[Array, " count"]:
    """Standard normals in float32 for prompts that are drawn anew at every step: half the time of `normal`.

    The method of Box and Muller on the two words of each threefry block, of which `jax.random.normal` throws one away:
    radius √(−2 log u) with u from the first, an angle from the second (23 bits inside an octant, three bits for which).

    Args:
        key: the key.
        count: how many.

    Returns:
        (count) the numbers.

    >>> import iclearn.core.rng as rng
    >>> drawn = rng.paired_normals(rng.stream(0, "steps"), 100_000)
    >>> round(float(drawn.var()), 1), drawn.dtype.name
    (1.0, 'float32')
    """
    counter = jax.lax.iota(jnp.uint32, -(-count // 2))
    first, second = threefry(jax.random.key_data(key), jnp.zeros_like(counter), counter)

    def fraction(word: Array) -> Array:  # 1 ≤ f < 2, of the upper 23 bits
        return jax.lax.bitcast_convert_type((word >> 9) | jnp.uint32(0x3F800000), jnp.float32)

    def polynomial(series: tuple[np.float32, ...], square: Array) -> Any:
        return functools.reduce(lambda total, term: total * square + term, reversed(series))

    def signed(value: Array, bit: int) -> Array:
        flip = (second << (31 - bit)) & jnp.uint32(0x80000000)
        return jax.lax.bitcast_convert_type(jax.lax.bitcast_convert_type(value, jnp.uint32) ^ flip, jnp.float32)

    radius, angle = jnp.sqrt(-2 * jnp.log(2 - fraction(first))), fraction(second) - 1
    square = angle * angle
    sine, cosine = radius * angle * polynomial(SIN_SERIES, square), radius * polynomial(COS_SERIES, square)
    swap = (second & 1) != 0
    pair = signed(jnp.where(swap, sine, cosine), 1), signed(jnp.where(swap, cosine, sine), 2)
    # The barrier keeps the compiler from drawing them again in everything that reads them.
    return jax.lax.optimization_barrier(jnp.concatenate(pair)[:count])


ROW, LONGEST_ROW = 256, 4096  # normals of the programs that draw all small arrays, in powers of two


@kept
def _normal_row(key: Key[Array, ""]) -> Float[Array, " row"]:
    return jax.random.normal(key, (ROW,), jnp.float64)


@functools.partial(jax.jit, static_argnums=1)
def _longer_row(key: Key[Array, ""], length: int) -> Float[Array, " row"]:
    return jax.random.normal(key, (length,), jnp.float64)


@functools.partial(jax.jit, static_argnums=1)
def _normal_arrays(key: Key[Array, ""], shapes: tuple[tuple[int, ...], ...]) -> tuple[Array, ...]:
    rows = [jax.random.normal(jax.random.fold_in(key, i), (math.prod(s),), jnp.float64) for i, s in enumerate(shapes)]
    return tuple(row.reshape(shape) for row, shape in zip(rows, shapes, strict=True))


def standard_normals(key: Key[Array, ""], shapes: tuple[tuple[int, ...], ...]) -> tuple[Array, ...]:
    """Several arrays of standard normals in double precision, for weights.

    Small ones are cut from rows of `ROW` numbers, or of a larger power of two, for which there is one compiled program
    each: number i of a key is the same however many are drawn. Where one has more than `LONGEST_ROW` numbers, they are
    drawn as rows and shaped afterwards, in one program for all.

    Args:
        key: the key; array i is drawn from fold_in(key, i).
        shapes: the shape of each array.

    Returns:
        The arrays.
    """
    if isinstance(key, Tracer) or not counter_streams() or any(math.prod(shape) > LONGEST_ROW for shape in shapes):
        return _normal_arrays(key, shapes)
    words = np.asarray(jax.random.key_data(key))
    return tuple(_cut(_folded(words, index), shape) for index, shape in enumerate(shapes))


def _cut(key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
    with jax.ensure_compile_time_eval():  # also while something else is traced: the key is known
        count = math.prod(shape)
        row = np.asarray(_normal_row(key) if count <= ROW else _longer_row(key, 1 << (count - 1).bit_length()))
    return as_array(row[:count].reshape(shape))


def counter_streams() -> bool:
    """Whether keys are threefry's, and number i that a key draws does not depend on how many are drawn."""
    return _threefry_in_64_bits() and bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]


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
    small = dim**2 <= ROW and not isinstance(key, Tracer) and counter_streams()
    normals = _cut(key, (dim, dim)) if small else _square_normals(key, dim)
    xp = numpy_of(normals)  # JAX's own decomposition imports all of scipy.linalg first
    q, r = xp.linalg.qr(xp.asarray(normals))
    return as_array(q * xp.sign(xp.diagonal(r)))
