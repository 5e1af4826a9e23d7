"""Expectations of words in a Wishart matrix, and with them the population loss of deep gradient descent, any Σ and Σ_w.

For S = (1/N) Σ_n x_n x_nᵀ with x ~ N(0, Σ), Wick's theorem gives E tr(S C_1 S C_2 … S C_k) as a sum over the (2k−1)!!
pairings of the 2k factors x. A pairing joins the S's it connects to one sum over n, which leaves N^{components − k},
and closes the chain of C's into loops, each the trace of a product of C_jΣ and C_jᵀΣ. Pairings and loops are tables of
indices, computed once for each k; equal loops (up to rotation and reversal) are computed once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core import jax_settings as jax_settings

LONGEST = 6  # S's in a word: 10,395 pairings


class WordTable(NamedTuple):
    """The pairings of words of one length.

    Args:
        loops: for each length of loops, (loop, length) indices into [C_1Σ, …, C_kΣ, C_1ᵀΣ, …, C_kᵀΣ].
        members: (pairing, k) the loops of each pairing, numbered through all lengths; the next number fills it.
        powers: (pairing) the power of N.
    """

    loops: tuple[np.ndarray, ...]
    members: np.ndarray
    powers: np.ndarray


def _pairings(legs: tuple[int, ...]) -> Iterator[list[tuple[int, int]]]:
    if not legs:
        yield []
        return
    first, rest = legs[0], legs[1:]
    for index, other in enumerate(rest):
        for others in _pairings(rest[:index] + rest[index + 1 :]):
            yield [(first, other), *others]


def _canonical(loop: tuple[int, ...], k: int) -> tuple[int, ...]:
    """The least of all rotations of a loop and of its transpose, which reads backwards with every C transposed."""
    back = tuple((c + k) % (2 * k) for c in reversed(loop))
    return min(one[i:] + one[:i] for one in (loop, back) for i in range(len(loop)))


@lru_cache(maxsize=LONGEST)
def word_table(k: int) -> WordTable:
    """The pairings of words with k factors S.

    Args:
        k: how many, at most LONGEST.

    Returns:
        The table.

    >>> [len(word_table(k).powers) for k in (1, 2, 3, 4)]
    [1, 3, 15, 105]
    """
    # Leg 2j is the left factor x of S_j and 2j + 1 its right one; C_j goes from leg 2j + 1 to leg 2(j + 1).
    across = {2 * j + 1: (2 * ((j + 1) % k), j) for j in range(k)} | {
        2 * ((j + 1) % k): (2 * j + 1, j + k) for j in range(k)
    }
    rows, powers, numbers = [], [], {}
    for pairing in _pairings(tuple(range(2 * k))):
        partner = {a: b for a, b in pairing} | {b: a for a, b in pairing}
        group = list(range(k))
        for a, b in pairing:
            old, new = group[a // 2], group[b // 2]
            group = [new if g == old else g for g in group]
        powers.append(len(set(group)) - k)
        free, loops = set(range(2 * k)), []
        while free:
            leg = start = min(free)
            loop = []
            while True:
                other, c = across[leg]
                loop.append(c)
                free -= {leg, other}
                leg = partner[other]
                if leg == start:
                    break
            loops.append(_canonical(tuple(loop), k))
        rows.append(loops)
        for loop in loops:
            numbers.setdefault(loop, len(numbers))
    ordered = sorted(numbers, key=lambda loop: (len(loop), loop))
    place = {loop: i for i, loop in enumerate(ordered)}
    members = np.full((len(rows), k), len(ordered))
    for i, loops in enumerate(rows):
        members[i, : len(loops)] = [place[loop] for loop in loops]
    by_length = [np.array(list(g)) for _, g in itertools.groupby(ordered, key=len)]
    return WordTable(tuple(by_length), members, np.array(powers))


def expected_word(
    middles: Float[Array, "factor dim dim"], cov: Float[Array, "dim dim"], num: Float[Array, ""] | float
) -> Float[Array, ""]:
    """E tr(S C_1 S C_2 … S C_k).

    Args:
        middles: (k, dim, dim) C_1, …, C_k.
        cov: (dim, dim) Σ.
        num: N.

    Returns:
        () the expectation, differentiable in all of them.

    >>> eye = jnp.eye(5)
    >>> round(float(expected_word(jnp.stack([eye, eye, eye]), eye, 20.0)), 12)  # m_3 of Wishart moments
    10.05
    """
    table = word_table(len(middles))
    stack = jnp.concatenate([middles, jnp.swapaxes(middles, 1, 2)]) @ cov
    traces = []
    for loops in table.loops:
        product = stack[loops[:, 0]]
        for position in range(1, loops.shape[1] - 1):
            product = product @ stack[loops[:, position]]
        if loops.shape[1] == 1:
            traces.append(jnp.einsum("lii->l", product))
        else:
            traces.append(jnp.einsum("lij,lji->l", product, stack[loops[:, -1]]))
    values = jnp.concatenate([*traces, jnp.ones(1, stack.dtype)])
    # whole powers, of which the gradient in N is not asked
    weights = jnp.asarray(num, stack.dtype) ** jnp.asarray(table.powers, stack.dtype)
    return jnp.sum(weights * jnp.prod(values[table.members], -1))


def descent_loss(
    steps: Sequence[Float[Array, "dim dim"]],
    cov: Float[Array, "dim dim"],
    prior: Float[Array, "dim dim"],
    num: Float[Array, ""] | float,
    noise: Float[Array, ""] | float = 0.0,
) -> Float[Array, ""]:
    """E tr(Σ R Σ_w Rᵀ) + (σ²/N) E tr(Σ g S gᵀ), R = (I − A_LᵀS) … (I − A_1ᵀS) = I − g S: L layers of ``gd``.

    Args:
        steps: A_1, …, A_L, at most three.
        cov: (dim, dim) Σ of the inputs.
        prior: (dim, dim) Σ_w of the task vector.
        num: N.
        noise: σ² on the context's labels.

    Returns:
        () the population loss.

    >>> a = [0.6 * jnp.eye(5), 0.9 * jnp.eye(5)]
    >>> round(float(descent_loss(a, jnp.eye(5), jnp.eye(5), 20.0)), 5)
    0.45242
    """
    matrices = [a.T for a in steps]
    chosen = [list(c) for m in range(len(steps) + 1) for c in itertools.combinations(range(len(steps)), m)]
    words: dict[int, list[tuple[Array, Array | float]]] = {}  # length → words with their factors

    def add(factor: Array | float, *middles: Array) -> None:
        words.setdefault(len(middles), []).append((jnp.stack(middles), factor))

    for i, j in itertools.combinations_with_replacement(range(len(chosen)), 2):
        first, second = [matrices[l] for l in chosen[i]], [matrices[l] for l in chosen[j]]  # A_{l_1}, …, increasing
        if not second:
            continue
        factor = (-1.0) ** (len(first) + len(second)) * (1.0 if i == j else 2.0)
        outer = cov if not first else first[-1].T @ cov
        ends = outer @ second[-1]
        inner = [*reversed(second[:-1])]
        tail = [a.T for a in first[:-1]]
        # tr Σ R_J Σ_w R_Iᵀ with R_J = A_{l_m} S … A_{l_1} S; without first ones Σ_w closes the word
        add(factor, *inner, *([prior, *tail, ends] if first else [prior @ ends]))
        if first:  # g_J S g_Iᵀ, of the same sign
            add(factor * noise / num, *inner, *tail, ends)
    total = jnp.einsum("ij,ji->", cov, prior)
    for group in words.values():  # words of one length side by side: one table, one program
        values = jax.vmap(lambda middles: expected_word(middles, cov, num))(jnp.stack([word for word, _ in group]))
        total = total + jnp.sum(values * jnp.stack([jnp.asarray(factor, values.dtype) for _, factor in group]))
    return total
