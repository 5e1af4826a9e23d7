"""Which head learned which eigenvector of Λ, when, and whether a new head or a new pair in a grown head did it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from ..core.errors import IclearnError
from ..core.trace import Trace
from .growth import growth_times
from .reading import (
    SeparateWeights,
    covariance_of,
    eigenbasis,
    finite,
    gain_of_run,
    record_times,
    separate_weights,
)  # fmt: skip

_SPECTATOR = 1e-12  # of the largest: directions of weights smaller than this mean nothing


@dataclass(frozen=True)
class HeadAlignment:
    """Cosines of the keys and queries of each head with the eigenvectors of Λ; see `head_alignment`.

    They are those of the singular vectors of Σ_r k_r q_rᵀ. For rank 1 these are the directions of key and query
    themselves. For higher rank the single k_r and q_r mean nothing: any invertible mixing of them gives the same head.

    Args:
        strength: (record, head, rank) |v_h| σ_r, with σ_r the singular values of Σ_r k_r q_rᵀ in decreasing order.
        key: (record, head, rank, dim) cosines of the left singular vectors, in decreasing order of eigenvalue.
        query: (record, head, rank, dim) cosines of the right singular vectors.
    """

    strength: Float[np.ndarray, "record head rank"]
    key: Float[np.ndarray, "record head rank dim"]
    query: Float[np.ndarray, "record head rank dim"]


def _in_eigenbasis(source: Any, covariance: Any, key: Any, query: Any) -> tuple[SeparateWeights, np.ndarray]:
    """The separate weights over records, and the eigenvectors of Λ as columns, which must have their dimension."""
    weights, (_, vectors) = separate_weights(source, key, query), eigenbasis(covariance_of(source, covariance))
    if weights.key.shape[-1] != vectors.shape[0]:
        raise IclearnError(f"weights of dim {weights.key.shape[-1]} do not fit a covariance of dim {vectors.shape[0]}")
    return weights, vectors


def head_alignment(source: Any, covariance: Any = None, *, key: Any = None, query: Any = None) -> HeadAlignment:
    """How the keys and queries of each head lie to the eigenvectors of Λ, at every record.

    Args:
        source: a Trace of a separate-weights model, or the values ([record,] head).
        covariance: (dim, dim) Λ (default: the Trace's).
        key, query: ([record,] head, rank, dim), where `source` are the values.

    Returns:
        The cosines, and the strength of each pair.

    >>> pair = np.array([[[0.0, 2.0]]])
    >>> found = head_alignment(np.array([3.0]), np.diag([0.4, 0.6]), key=pair, query=pair)
    >>> found.strength.ravel().tolist(), found.key.ravel().tolist()
    ([12.0], [1.0, 0.0])
    """
    weights, vectors = _in_eigenbasis(source, covariance, key, query)
    products = np.einsum("thri,thrj->thij", weights.key, weights.query)
    left, singular, right = np.linalg.svd(products)
    rank = min(weights.key.shape[2], vectors.shape[0])
    keys = np.swapaxes(left, -1, -2)[..., :rank, :] @ vectors
    queries = right[..., :rank, :] @ vectors
    peaks = np.take_along_axis(keys, np.abs(keys).argmax(-1)[..., None], -1)
    signs = np.where(peaks < 0, -1.0, 1.0)
    present = (singular[..., :rank] > _SPECTATOR * max(singular.max(), 1e-300))[..., None]
    strength = np.abs(weights.value)[..., None] * singular[..., :rank]
    return HeadAlignment(strength, np.where(present, keys * signs, 0.0), np.where(present, queries * signs, 0.0))


def contributions(
    source: Any, covariance: Any = None, *, key: Any = None, query: Any = None
) -> Float[np.ndarray, "record head dim"]:
    """What head h adds along eigenvector d: e_dᵀ (v_h Σ_r k_r q_rᵀ) e_d. Their sum over heads is the diagonal of W.

    Args:
        source, covariance, key, query: see `head_alignment`.

    Returns:
        (record, head, dim), in decreasing order of eigenvalue.

    >>> pair = np.array([[[0.0, 2.0]]])
    >>> contributions(np.array([3.0]), np.diag([0.4, 0.6]), key=pair, query=pair).tolist()
    [[[12.0, 0.0]]]
    """
    weights, vectors = _in_eigenbasis(source, covariance, key, query)
    return np.einsum("th,thrd,thrd->thd", weights.value, weights.key @ vectors, weights.query @ vectors)


def learned_strengths(
    source: Any, context_len: int | None = None, *, gain: float | None = None
) -> Float[np.ndarray, " dim"]:
    """What Σ_h v_h k_h q_hᵀ is along a learned eigenvector: 1 / (gain λ_d (1 + (1 + tr Λ/λ_d)/N)) (zhang2025, (16)).

    Args:
        source: a Trace, from which N and the gain are known too, or the eigenvalues of Λ (dim).
        context_len: N.
        gain: how many times β̂ = (1/N) Σ y x the model sees: N for the unnormalized sum over tokens, 1 for 1/N.

    Returns:
        (dim), in the order of the eigenvalues, which for a Trace is decreasing.

    >>> learned_strengths([1.0, 1.0], 3, gain=1.0).tolist()
    [0.5, 0.5]
    """
    if isinstance(source, Trace):
        context_len = source.recipe.task.context_len if context_len is None else context_len
        values = eigenbasis(covariance_of(source))[0]
    else:
        values = finite("the eigenvalues", source, 1)
    if context_len is None:
        raise IclearnError("learned strengths of eigenvalues need the context length: pass context_len=")
    gain = gain_of_run(source, context_len) if gain is None else gain
    return 1 / (gain * (values + (values + values.sum()) / context_len))


@dataclass(frozen=True)
class Growth:
    """One eigenvector being learned; see `assign_heads`.

    Args:
        eigenvector: its index in decreasing order of eigenvalue.
        time: when W along it reaches half of what it learns.
        head: the head that adds most to it at the end.
        share: the part of it that this head adds.
        cosine: of the head's nearest key-query pair with the eigenvector (the smaller of key's and query's).
        kind: ``new head`` where it is the first eigenvector that the head learns, else ``new pair``.
        value_ratio: |v_h| when a tenth was learned over |v_h| when nine tenths were: near 1 for a new pair, whose head
            had its value before; about (1/9)^⅓ = 0.48 for a new head, whose value grows with its key and query.
    """

    eigenvector: int
    time: float
    head: int
    share: float
    cosine: float
    kind: Literal["new head", "new pair"]
    value_ratio: float


@dataclass(frozen=True)
class HeadAssignment:
    """Every learned eigenvector with the head that learned it; see `assign_heads`.

    Args:
        growths: in the order of time.
        num_heads: of the model.
        rank: of the model.
        start: time of the first record.
    """

    growths: tuple[Growth, ...]
    num_heads: int
    rank: int
    start: float

    @property
    def in_order(self) -> bool:
        """Larger eigenvalues were learned first, none left out."""
        return [g.eigenvector for g in self.growths] == list(range(len(self.growths)))

    @property
    def unique(self) -> bool:
        """No head learned more eigenvectors than it has pairs."""
        return bool((np.bincount(self.heads, minlength=1) <= self.rank).all())

    @property
    def heads(self) -> Int[np.ndarray, " growth"]:
        """(growth) the head of each growth."""
        return np.array([g.head for g in self.growths], dtype=int)

    @property
    def new_heads(self) -> tuple[int, ...]:
        """m for every drop from level m (m eigenvectors learned) that a new head made."""
        return tuple(m for m, g in enumerate(self.growths) if g.kind == "new head")

    def waits(self, time_scales: Any) -> Float[np.ndarray, " growth"]:
        """The time from each growth to the next (from the start to the first), in the time scale of the level left.

        Args:
            time_scales: (level) τ/(gain · λ_{m+1}²) of every level, as `match_plateaus` takes them; it reads from the
                loss what this reads from the weights.

        Returns:
            (growth) the waits.
        """
        scales = finite("the time scales", time_scales, 1)
        if scales.size < len(self.growths):
            raise IclearnError(f"{len(self.growths)} growths need as many time scales, not {scales.size}")
        return np.diff([self.start, *[g.time for g in self.growths]]) / scales[: len(self.growths)]


def assign_heads(
    source: Any, learned: Any = None, covariance: Any = None, *, key: Any = None, query: Any = None, time: Any = None
) -> HeadAssignment:
    """Which head learned which eigenvector, in the order of time, and whether as a new head or as a new pair.

    Args:
        source: a Trace of a separate-weights model with records over training, or an array of values (record, head).
        learned: (dim) W along each eigenvector once it is learned, largest eigenvalue first (default: the
            `learned_strengths` of a Trace). Those that reach half of it count.
        covariance: (dim, dim) Λ (default: the Trace's).
        key, query: (record, head, rank, dim), where `source` is an array.
        time: (record) of the records (default: a Trace's own, or 0, 1, …).

    Returns:
        The growths in the order of time.

    >>> size = np.linspace(0.1, 1.0, 10)[:, None]
    >>> pair = size[:, :, None, None] * np.array([1.0, 0.0])
    >>> found = assign_heads(size, [1.0, 1.0], np.diag([0.6, 0.4]), key=pair, query=pair)
    >>> [(g.eigenvector, g.head, g.kind) for g in found.growths]
    [(0, 0, 'new head')]
    """
    weights = separate_weights(source, key, query)
    covariance = covariance_of(source, covariance)
    if learned is None and not isinstance(source, Trace):
        raise IclearnError("arrays do not say what is learned: pass learned=learned_strengths(…)")
    targets = learned_strengths(source) if learned is None else finite("the learned strengths", learned, 1)
    parts = contributions(weights, covariance)
    if targets.shape != parts.shape[-1:] or not (targets > 0).all():
        raise IclearnError(f"{parts.shape[-1]} positive learned strengths are needed, not {targets.tolist()}")
    times = record_times(source, parts.shape[0], time)
    last = SeparateWeights(weights.value[-1:], weights.key[-1:], weights.query[-1:])
    aligned = head_alignment(last, covariance)
    progress = parts.sum(1) / targets
    halves = growth_times(progress, time=times, target=1.0)
    done = np.flatnonzero(progress[-1] >= 0.5)
    grown: set[int] = set()
    growths = []
    for d in sorted(done.tolist(), key=lambda d: halves[d]):
        head = int(parts[-1, :, d].argmax())
        cosines = np.minimum(np.abs(aligned.key[0, head, :, d]), np.abs(aligned.query[0, head, :, d]))
        moments = [float(growth_times(progress[:, d], time=times, fraction=share)) for share in (0.1, 0.9)]
        early, late = np.interp(np.array(moments), times, np.abs(weights.value[:, head])).tolist()
        share = float(parts[-1, head, d] / parts[-1, :, d].sum())
        kind = "new pair" if head in grown else "new head"
        growths.append(Growth(d, float(halves[d]), head, share, float(cosines.max()), kind, early / late))
        grown.add(head)
    return HeadAssignment(tuple(growths), parts.shape[1], weights.key.shape[2], float(times[0]))


def effective_rank(matrices: Any) -> Float[np.ndarray, " *record"]:
    """exp of the entropy of the singular values divided by their sum (Roy and Vetterli, 2007).

    Args:
        matrices: ([record,] row, column).

    Returns:
        ([record]) the effective rank; 0 for a zero matrix.

    >>> round(float(effective_rank(np.diag([1.0, 1.0, 1.0, 0.0]))), 6)
    3.0
    """
    array = finite("the matrices", matrices)
    if array.ndim < 2:
        raise IclearnError(f"effective_rank takes matrices ([record,] row, column), not shape {array.shape}")
    singular = np.linalg.svd(array, compute_uv=False)
    total = singular.sum(-1, keepdims=True)
    share = singular / np.where(total > 0, total, 1.0)
    entropy = -np.sum(share * np.log(np.where(share > 0, share, 1.0)), -1)
    return np.where(total[..., 0] > 0, np.exp(entropy), 0.0)
