"""The 2^D fixed points of separate attention: loss, weights, index (zhang2025, (16)-(20), (22)).

Eigenvectors are counted from 0 in the order of decreasing eigenvalues: the paper's M_m is the subset (0, …, m−1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations

import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from .population import Size, Spectrum, check_sizes, columns, inflation, spectrum
from .scalar import fixed_value
from .weights import SeparateWeights

Subset = Sequence[int]


def subsets(dim: int) -> list[tuple[int, ...]]:
    """All 2^D sets of eigenvectors, small ones first: the fixed points (16)-(18) of separate attention.

    Args:
        dim: D, at most 20.

    Returns:
        Each set as a tuple of indices from 0.

    >>> subsets(2)
    [(), (0,), (1,), (0, 1)]
    """
    if not 1 <= dim <= 20:
        raise IclearnError(f"there are 2^dim fixed points: dim must be between 1 and 20 to list them, not {dim}")
    return list(chain.from_iterable(combinations(range(dim), size) for size in range(dim + 1)))


def _members(subset: Subset, dim: int) -> np.ndarray:
    members = sorted(subset)
    if len(set(members)) != len(members) or any(not 0 <= d < dim for d in members):
        raise IclearnError(f"a fixed point is a set of eigenvectors 0..{dim - 1}, not {tuple(subset)}")
    return np.asarray(members, int)


def fixed_point_weights(
    subset: Subset, eigenvalues: Spectrum, context_len: Size, *, gain: float = 1.0, noise: float = 0.0
) -> np.ndarray:
    """The diagonal of W in the eigenbasis at a fixed point: w_d = 1/(g λ_d a_d), a_d of `inflation`, 0 outside S.

    Args:
        subset: S, indices from 0 of the eigenvectors that are learned.
        eigenvalues: (dim) of Λ.
        context_len: N.
        gain: g, see `gain_of`.
        noise: σ², see `inflation`.

    Returns:
        (dim) w_d.

    >>> fixed_point_weights((1,), [0.6, 0.4], 31).round(4).tolist()
    [0.0, 2.2464]
    """
    values = spectrum(eigenvalues)
    check_sizes(context_len, gain)
    diagonal, members = np.zeros(len(values)), _members(subset, len(values))
    diagonal[members] = (1 / (gain * values * inflation(values, context_len, noise=noise)))[members]
    return diagonal


def fixed_point_matrix(
    subset: Subset,
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
) -> np.ndarray:
    """W = Σ_h v_h k_h q_hᵀ = Σ_{d∈S} w_d e_d e_dᵀ at a fixed point (16)-(18).

    Args:
        subset, eigenvalues, context_len, gain, noise: see `fixed_point_weights`, which gives w_d.
        basis: (dim, dim) eigenvectors e_d as columns (default: the axes).

    Returns:
        (dim, dim) W.

    >>> fixed_point_matrix((0,), [1.0, 1.0], 3).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    diagonal = fixed_point_weights(subset, eigenvalues, context_len, gain=gain, noise=noise)
    vectors = columns(basis, len(diagonal))
    return vectors * diagonal @ vectors.T


def pcr_matrix(
    components: int,
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
) -> np.ndarray:
    """W of (22): at M_m the model computes g β̂ᵀ W x_q, principal component regression with m components.

    Args:
        components: m, from 0 to dim.
        eigenvalues, context_len, basis, gain, noise: see `fixed_point_matrix`.

    Returns:
        (dim, dim) W.

    >>> pcr_matrix(1, [1.0, 1.0], 3).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    dim = len(spectrum(eigenvalues))
    if not 0 <= components <= dim:
        raise IclearnError(f"components must be between 0 and dim = {dim}, not {components}")
    return fixed_point_matrix(range(components), eigenvalues, context_len, basis=basis, gain=gain, noise=noise)


def fixed_point_loss(subset: Subset, eigenvalues: Spectrum, context_len: Size, *, noise: float = 0.0) -> float:
    """The loss at a fixed point, (19) for any subset: tr Λ − Σ_{d∈S} λ_d/a_d, a_d of `inflation`.

    Args:
        subset: S, indices from 0 of the eigenvectors that are learned.
        eigenvalues: (dim) of Λ.
        context_len: N.
        noise: σ², see `inflation`.

    Returns:
        The loss.

    >>> round(fixed_point_loss((0, 1), [0.4, 0.3, 0.2, 0.1], 31), 8)
    0.37737216
    """
    values = spectrum(eigenvalues)
    gained = values / inflation(values, context_len, noise=noise)
    return float(values.sum() - gained[_members(subset, len(values))].sum())


def saddle_losses(eigenvalues: Spectrum, context_len: Size, *, noise: float = 0.0) -> np.ndarray:
    """The losses L(M_m) for m = 0..D (19): the heights of the plateaus, and last the loss after training.

    L(M_m) = tr Λ − Σ_{d≤m} λ_d (1 + (1 + (tr Λ + σ²)/λ_d)/N)⁻¹; the paper has σ² = 0.

    Args:
        eigenvalues: (dim) of Λ.
        context_len: N.
        noise: σ², see `inflation`.

    Returns:
        (dim + 1) the losses, in decreasing order.

    >>> saddle_losses([0.4, 0.3, 0.2, 0.1], 31).round(8).tolist()
    [1.0, 0.64057971, 0.37737216, 0.2098046, 0.13599507]
    """
    values = spectrum(eigenvalues)
    return values.sum() - np.concatenate([[0.0], np.cumsum(values / inflation(values, context_len, noise=noise))])


def saddle_weights(eigenvalues: Spectrum, context_len: Size, *, gain: float = 1.0, noise: float = 0.0) -> np.ndarray:
    """v_i of (20): at M_m head i has k = q = v_i e_i, v_i = (g λ_i a_i)^(-1/3), a_i of `inflation`.

    Args:
        eigenvalues: (dim) of Λ.
        context_len: N.
        gain: g, see `gain_of`.
        noise: σ², see `inflation`.

    Returns:
        (dim) v_i in decreasing order of the eigenvalues.

    >>> saddle_weights([0.4, 0.3, 0.2, 0.1], 31).round(4).tolist()
    [1.3097, 1.4301, 1.612, 1.947]
    """
    values = spectrum(eigenvalues)
    return np.asarray(fixed_value(values, values.sum() + noise, context_len, gain=gain))


def realize(
    subset: Subset,
    eigenvalues: Spectrum,
    context_len: Size,
    num_heads: int,
    rank: int = 1,
    *,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
) -> SeparateWeights:
    """Weights at a fixed point as small initializations reach it: heads filled one by one, all balanced.

    A head with eigenvectors S_h has v³ = Σ_{d∈S_h} w_d and, for each, a pair k = q = √(w_d/v) e_d; with rank 1 that is
    (20). Heads and pairs that are not needed are zero.

    Args:
        subset, eigenvalues, context_len, basis, gain: see `fixed_point_matrix`.
        num_heads: H; S must have at most H·R members.
        rank: R.

    Returns:
        Weights with axes (head) and (head, rank, dim), whose effective matrix is `fixed_point_matrix`.

    >>> np.asarray(realize((0,), [1.0], 1.0, num_heads=2).value).round(4).tolist()  # (1/3)^(1/3), and an unused head
    [0.6934, 0.0]
    """
    diagonal = fixed_point_weights(subset, eigenvalues, context_len, gain=gain)
    dim, members = len(diagonal), _members(subset, len(diagonal))
    if num_heads < 1 or rank < 1:
        raise IclearnError(f"num_heads and rank must be at least 1, not {num_heads} and {rank}")
    if len(members) > num_heads * rank:
        raise IclearnError(
            f"{num_heads} heads of rank {rank} hold at most {num_heads * rank} eigenvectors, "
            f"not {len(members)}: use more heads"
        )
    vectors = columns(basis, dim)
    value, pairs = np.zeros(num_heads), np.zeros((num_heads, rank, dim))
    for head, start in enumerate(range(0, len(members), rank)):
        held = members[start : start + rank]
        value[head] = diagonal[held].sum() ** (1 / 3)
        pairs[head, : len(held)] = np.sqrt(diagonal[held] / value[head])[:, None] * vectors[:, held].T
    return SeparateWeights(jnp.asarray(value), jnp.asarray(pairs), jnp.asarray(pairs))


def saddle_index(subset: Subset, eigenvalues: Spectrum, rank: int = 1) -> int:
    """The number of negative Hessian eigenvalues at `realize(subset, …)`, in closed form (our derivation).

    Only entries W_dd of eigenvectors d that are not learned still have a force, F_dd = g λ_d², so the Hessian splits
    into 2×2 blocks of (k_d, q_d) of each pair. In a pair that holds e_i the block has a negative eigenvalue exactly if
    λ_d/a_d > λ_i/a_i, that is λ_d > λ_i. In an unused pair of a head with v ≠ 0 it always has. Unused heads add zeros
    only, because v k qᵀ is cubic. Hence

        index = #{(i ∈ S, d ∉ S): λ_d > λ_i} + (unused pairs of heads in use) · #{d ∉ S}.

    With rank 1 and distinct eigenvalues the only fixed points of index 0 are the M_m; all others are strict saddles.
    With rank R, M_m has index 0 exactly for m a multiple of R (and for m = D): these are left by cubic growth, in a
    time ∝ 1/init, the others exponentially, in a time ∝ ln(1/init). Those are the conspicuous and the brief plateaus.

    Args:
        subset: S, indices from 0 of the eigenvectors that are learned.
        eigenvalues: (dim) of Λ.
        rank: R.

    Returns:
        The index.

    >>> saddle_index((1,), [0.6, 0.4]), saddle_index((0,), [0.6, 0.4]), saddle_index((0,), [0.6, 0.4], rank=2)
    (1, 0, 1)
    """
    values = spectrum(eigenvalues)
    members = _members(subset, len(values))
    missing = np.setdiff1d(np.arange(len(values)), members)
    swaps = int((values[missing][None, :] > values[members][:, None]).sum())
    return swaps + (-len(members) % rank) * len(missing)


def conspicuous_plateaus(dim: int, rank: int, num_heads: int | None = None) -> list[int]:
    """m of the long plateaus L(M_m): the multiples of the rank R, where a new head must escape (see `saddle_index`).

    With few heads (H·R < D) training ends at L(M_m) with m = H·R; that end is not listed.

    Args:
        dim: D.
        rank: R.
        num_heads: H (None: as many as needed).

    Returns:
        The m, increasing.

    >>> conspicuous_plateaus(8, 3)
    [0, 3, 6]
    """
    if dim < 1 or rank < 1 or (num_heads is not None and num_heads < 1):
        raise IclearnError(f"dim, rank and num_heads must be at least 1, not {dim}, {rank} and {num_heads}")
    return list(range(0, learned_components(dim, rank, num_heads), rank))


def learned_components(dim: int, rank: int, num_heads: int | None = None) -> int:
    """How many eigenvectors training ends with: min(D, H·R).

    Args:
        dim: D.
        rank: R.
        num_heads: H (None: as many as needed).

    Returns:
        The number.

    >>> learned_components(8, rank=2, num_heads=3)
    6
    """
    return dim if num_heads is None else min(dim, num_heads * rank)
