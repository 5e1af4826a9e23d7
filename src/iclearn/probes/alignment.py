"""Which head learned which eigenvector of Λ, when, and whether a new head or a new pair in a grown head did it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, Int

from ..core.errors import IclearnError
from .growth import growth_times
from .reading import SeparateWeights, covariance_of, eigenbasis, finite, record_times, separate_weights

_SPECTATOR = 1e-12  # of the largest: directions of weights smaller than this mean nothing


@dataclass(frozen=True)
class HeadAlignment:
    """Cosines of the keys and queries of each head with the eigenvectors of Λ (in decreasing order of eigenvalue).

    `strength` is |v_h| σ_r with σ_r the singular values of Σ_r k_r q_rᵀ, in decreasing order; `key` and `query` belong
    to its singular vectors. For rank 1 these are the key and query themselves. For higher rank the single k_r and q_r
    mean nothing: any invertible mixing of them gives the same head.
    """

    strength: Float[np.ndarray, "record head rank"]
    key: Float[np.ndarray, "record head rank dim"]
    query: Float[np.ndarray, "record head rank dim"]


def head_alignment(source: Any, covariance: Any = None, *, key: Any = None, query: Any = None) -> HeadAlignment:
    """Alignment at every record of a Trace, or of arrays (`source` being the values)."""
    weights = separate_weights(source, key, query)
    _, vectors = eigenbasis(covariance_of(source, covariance))
    _fits(weights, vectors)
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


def _fits(weights: SeparateWeights, vectors: np.ndarray) -> None:
    if weights.key.shape[-1] != vectors.shape[0]:
        raise IclearnError(f"weights of dim {weights.key.shape[-1]} do not fit a covariance of dim {vectors.shape[0]}")


def contributions(
    source: Any, covariance: Any = None, *, key: Any = None, query: Any = None
) -> Float[np.ndarray, "record head dim"]:
    """What head h adds along eigenvector d: e_dᵀ (v_h Σ_r k_r q_rᵀ) e_d. Heads sum to the diagonal of W."""
    weights = separate_weights(source, key, query)
    _, vectors = eigenbasis(covariance_of(source, covariance))
    _fits(weights, vectors)
    return np.einsum("th,thrd,thrd->thd", weights.value, weights.key @ vectors, weights.query @ vectors)


def learned_strengths(eigenvalues: Any, context_len: int, *, gain: float = 1.0) -> Float[np.ndarray, " dim"]:
    """What Σ_h v_h k_h q_hᵀ is along a learned eigenvector: 1 / (gain λ_d (1 + (1 + tr Λ/λ_d)/N)) (zhang2025, eq. 16).

    `gain`: how many times β̂ the model sees: N for the unnormalized sum over tokens, 1 for 1/N.
    """
    values = finite("the eigenvalues", eigenvalues, 1)
    return 1 / (gain * (values + (values + values.sum()) / context_len))


@dataclass(frozen=True)
class Growth:
    """One eigenvector being learned.

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
    """Every learned eigenvector with the head that learned it, in the order of time.

    `num_heads` and `rank` are the model's; `start` is the time of the first record.
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
        return np.array([g.head for g in self.growths], dtype=int)

    @property
    def new_heads(self) -> tuple[int, ...]:
        """m for every drop from level m (m eigenvectors learned) that a new head made."""
        return tuple(m for m, g in enumerate(self.growths) if g.kind == "new head")

    def waits(self, time_scales: Any) -> Float[np.ndarray, " growth"]:
        """Time from each growth to the next (from the start to the first), in the time scale of the level left.

        Args:
            time_scales: τ/(gain · λ_{m+1}²) of every level, as `match_plateaus` takes them: what it reads off the loss,
                here read off the weights.
        """
        scales = finite("the time scales", time_scales, 1)
        if scales.size < len(self.growths):
            raise IclearnError(f"{len(self.growths)} growths need as many time scales, not {scales.size}")
        return np.diff([self.start, *[g.time for g in self.growths]]) / scales[: len(self.growths)]


def assign_heads(
    source: Any,
    learned: Any,
    covariance: Any = None,
    *,
    key: Any = None,
    query: Any = None,
    time: Any = None,
) -> HeadAssignment:
    """Which head learned which eigenvector, in the order of time, and whether as a new head or as a new pair.

    Args:
        source: a Trace of a separate-weights model with records over training, or an array of values (record, head).
        learned: W along each eigenvector once it is learned, largest eigenvalue first; see `learned_strengths`. Those
            that reach half of it count.
        covariance: Λ (default: the Trace's).
        key, query: arrays (record, head, rank, dim), where `source` is an array.
        time: of the records (default: a Trace's own, or 0, 1, …).
    """
    weights = separate_weights(source, key, query)
    covariance = covariance_of(source, covariance)
    targets = finite("the learned strengths", learned, 1)
    parts = contributions(weights, covariance)
    if targets.shape != parts.shape[-1:] or not (targets > 0).all():
        raise IclearnError(f"{parts.shape[-1]} positive learned strengths are needed, not {targets.tolist()}")
    times = record_times(source, parts.shape[0], time)
    aligned = head_alignment(weights, covariance)
    progress = parts.sum(1) / targets
    halves = growth_times(progress, time=times, target=1.0)
    done = np.flatnonzero(progress[-1] >= 0.5)
    grown: set[int] = set()
    growths = []
    for d in sorted(done.tolist(), key=lambda d: halves[d]):
        head = int(parts[-1, :, d].argmax())
        cosines = np.minimum(np.abs(aligned.key[-1, head, :, d]), np.abs(aligned.query[-1, head, :, d]))
        moments = [float(growth_times(progress[:, d], time=times, fraction=share)) for share in (0.1, 0.9)]
        early, late = np.interp(np.array(moments), times, np.abs(weights.value[:, head])).tolist()
        growths.append(
            Growth(
                eigenvector=d,
                time=float(halves[d]),
                head=head,
                share=float(parts[-1, head, d] / parts[-1, :, d].sum()),
                cosine=float(cosines.max()),
                kind="new pair" if head in grown else "new head",
                value_ratio=early / late,
            )
        )
        grown.add(head)
    return HeadAssignment(tuple(growths), parts.shape[1], weights.key.shape[2], float(times[0]))


def effective_rank(matrices: Any) -> Float[np.ndarray, " *record"]:
    """exp of the entropy of the singular values divided by their sum (Roy and Vetterli, 2007); 0 for a zero matrix.

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
