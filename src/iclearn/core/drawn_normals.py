"""Normals of fixed sets of prompts, drawn by one compiled program whatever the sizes, and kept for a second reading."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .forms import as_array
from .kept_programs import compile_ahead, kept
from .rng import threefry

DRAWN, TURN = 1 << 19, 1 << 12  # normals of a call of the program that draws all fixed sets, and of a turn of its loop
KEPT_DRAWS = 1 << 28  # bytes of normals that `keep_draws` holds at most


class _Draws(dict[tuple[Any, ...], np.ndarray]):
    """Normals by what they were drawn from, and how many bytes they take."""

    nbytes = 0


_draws: contextvars.ContextVar[_Draws | None] = contextvars.ContextVar("draws", default=None)


@kept
def _drawn(table: Array, turns: Array) -> Float[Array, " drawn"]:
    """`jax.random.normal` in float32 of any counters, of which it has no such form.

    Args:
        table: (turn, 6) the two words of the key, `start`, `shift`, `stride` and the number of its first normal. Normal
            i has the counter start + (i >> shift) + stride · (the lowest `shift` bits of i). There is a row for every
            turn because the compiler makes a function of its own of every number that all turns share.
        turns: () how many.
    """
    least = np.nextafter(np.float32(-1), np.float32(0))

    def turn(index: Array, found: Array) -> Array:
        row = jax.lax.dynamic_index_in_dim(table, index, keepdims=False)
        number = jax.lax.iota(jnp.uint32, TURN) + row[5]
        low = number & ((jnp.uint32(1) << row[3]) - jnp.uint32(1))
        counter = row[2] + (number >> row[3]) + low * row[4]
        first, second = threefry(row, jnp.zeros_like(counter), counter)
        fraction = jax.lax.bitcast_convert_type(((first ^ second) >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1
        normals = np.float32(np.sqrt(2)) * jax.lax.erf_inv(jnp.maximum(least, 2 * fraction + least))
        return jax.lax.dynamic_update_slice(found, normals, (index * TURN,))

    return jax.lax.fori_loop(0, turns, turn, jnp.zeros(DRAWN, jnp.float32))


def drawn_normals(words: np.ndarray, first: int, lanes: int, rows: int) -> np.ndarray:
    """Rows of ``jax.random.normal(key, (more, rows), "float32")``, each as a column, without drawing the others.

    One compiled program draws whatever is asked for. `rng.counter_streams` must hold.

    Args:
        words: (2) of the key.
        first: number of the first row.
        lanes: how many rows; a power of two, at most `DRAWN`.
        rows: length of a row; (first + lanes)·rows is at most 2³².

    Returns:
        (rows, lanes) the numbers, of numpy, not to be written to.

    >>> from iclearn.core.rng import stream
    >>> key = stream(0, "data.train")
    >>> drawn = drawn_normals(np.asarray(jax.random.key_data(key)), 2, 4, 5)
    >>> np.array_equal(drawn.T, jax.random.normal(key, (6, 5), "float32")[2:])
    True
    """
    store, name = _draws.get(), (words.tobytes(), first, lanes, rows)
    if store is not None and name in store:
        return store[name]
    at_once = min(rows, DRAWN // lanes)
    parts = [
        _some_rows(words, first * rows + row, lanes, min(at_once, rows - row), rows) for row in range(0, rows, at_once)
    ]
    found = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if store is not None and store.nbytes + found.nbytes <= KEPT_DRAWS:
        # what fills little of the program's array is copied, so that the rest of that is given back
        store[name] = found = found.copy() if 2 * found.size < DRAWN else found
        store.nbytes += found.nbytes
    return found


def _some_rows(words: np.ndarray, start: int, lanes: int, count: int, stride: int) -> np.ndarray:
    """(count, lanes) the normals with the counters start + row + lane·stride."""
    table = np.empty((DRAWN // TURN, 6), np.uint32)
    table[:, :2], table[:, 2:5] = words, (start, lanes.bit_length() - 1, stride)
    table[:, 5] = np.arange(0, DRAWN, TURN)
    with jax.ensure_compile_time_eval():  # also while something else is traced: the key is known
        row = np.asarray(_drawn(as_array(table), as_array(np.int32(-(-count * lanes // TURN)))))
    return row[: count * lanes].reshape(count, lanes)


def prepare_draws() -> None:
    """Load or compile the program of `drawn_normals` beside whatever this thread goes on to do."""
    compile_ahead(_drawn, as_array(np.zeros((DRAWN // TURN, 6), np.uint32)), as_array(np.int32(0)))


@contextlib.contextmanager
def keep_draws(on: bool = True) -> Iterator[None]:
    """Keep what `drawn_normals` draws while the block lasts, for a set of prompts that is read twice.

    Not more than `KEPT_DRAWS` bytes are kept; what goes beyond is drawn again.

    Args:
        on: whether to keep anything.

    Yields:
        Nothing.
    """
    token = _draws.set(_Draws() if on else None)
    try:
        yield
    finally:
        _draws.reset(token)
