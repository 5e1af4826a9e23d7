"""From a sequence of drops to curves: progress of each eigenvector, the loss, and the weights over time."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from .population import Size, Spectrum, columns, spectra
from .saddles import fixed_point_weights
from .scalar import fixed_value, growth_rate, own_course
from .sequence import Drop, Drops
from .weights import SeparateWeights


def progress(
    times: np.ndarray,
    drops: Sequence[Drop] | Drops,
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    gain: float = 1.0,
    noise: float = 0.0,
) -> np.ndarray:
    """How far each eigenvector is learned over time: ρ_d(t) = W_dd(t)/w_d between 0 and 1.

    For a drop by a new head ρ = (v/v*)³ with v of (21), for a new pair ρ = (κ/κ*)², a logistic curve.

    Args:
        times: (time) t/τ.
        drops: of one run, or the `Drops` of many.
        eigenvalues: (dim) of Λ; for many runs also a row for each (run, dim).
        context_len: N.
        gain: g, see `gain_of`.
        noise: σ², see `inflation`.

    Returns:
        (time, dim) ρ, for many runs (run, time, dim).

    >>> from iclearn.theory.zhang2025 import typical_sequence
    >>> drops = typical_sequence([0.6, 0.4], 31, 0.01, num_heads=2)
    >>> done = progress(np.array([0.0, 400.0, 1500.0]), drops, [0.6, 0.4], 31)
    >>> done.round(3).tolist()
    [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]
    >>> loss_of_progress(done, [0.6, 0.4], 31).round(4).tolist()  # (19)
    [1.0, 0.4475, 0.0881]
    """
    from scipy.special import expit

    if not isinstance(drops, Drops):
        return progress(times, Drops.together([drops]), eigenvalues, context_len, gain=gain, noise=noise)[0]
    runs = len(drops.head)
    values, times = spectra(eigenvalues, runs), np.asarray(times, float)
    rates = np.asarray(growth_rate(values, values.sum(-1, keepdims=True) + noise, context_len, gain=gain))
    done = np.zeros((runs, len(times), values.shape[1]))
    for m, d in enumerate(drops.component):
        x_0 = drops.v_0[:, m] / drops.limit[:, m]
        elapsed = np.clip(times - drops.start[:, m, None], 0, None)
        done[:, :, d] = times >= drops.start[:, m, None]  # where x_0 is 1
        new, pair = (x_0 < 1 - 1e-12) & drops.new_head[:, m], (x_0 < 1 - 1e-12) & ~drops.new_head[:, m]
        done[new, :, d] = own_course(elapsed[new] * rates[new, d, None], x_0[new, None]) ** 3
        odds = np.log(1 / x_0[pair, None] ** 2 - 1)
        # A pair that its head's drop has carried far along was small before: its curve goes on to earlier times.
        done[pair, :, d] = expit(2 * drops.rate[pair, m, None] * (times - drops.start[pair, m, None]) - odds)
    return done


def loss_of_progress(done: np.ndarray, eigenvalues: Spectrum, context_len: Size, *, noise: float = 0.0) -> np.ndarray:
    """The loss for a given progress: L = tr Λ − Σ_d λ_d/a_d · (2ρ_d − ρ_d²), a_d of `inflation`.

    It is `population_loss` at W = Σ_d ρ_d w_d e_d e_dᵀ; where all ρ are 0 or 1, this is (19).

    Args:
        done: (time, dim) or (run, time, dim) ρ, see `progress` (which has an example).
        eigenvalues: (dim) of Λ; for many runs also a row for each (run, dim).
        context_len: N.
        noise: σ², see `inflation`.

    Returns:
        (time) or (run, time) the loss.
    """
    if done.ndim == 2:
        return loss_of_progress(done[None], eigenvalues, context_len, noise=noise)[0]
    values = spectra(eigenvalues, len(done))
    trace = values.sum(-1, keepdims=True)
    gained = values**2 * np.asarray(fixed_value(values, trace + noise, context_len)) ** 3  # λ/a, as v*³ = 1/(λ a)
    return trace - ((2 * done - done**2) @ gained[:, :, None])[:, :, 0]


def weights_of_progress(
    done: np.ndarray,
    drops: Sequence[Drop],
    eigenvalues: Spectrum,
    context_len: Size,
    *,
    num_heads: int,
    rank: int,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
    noise: float = 0.0,
) -> SeparateWeights:
    """Balanced weights for a given progress: |v_h|³ = Σ_{d in head} W_dd and k = ±q = √(W_dd/|v_h|) e_d.

    The sign of v is that of the drop; the sign common to k and q of a pair is left open by the theory (here: +e_d for
    k).

    Args:
        done: (time, dim) ρ, see `progress`.
        drops: of the run.
        eigenvalues, context_len, gain, noise: as for `progress`.
        num_heads: H.
        rank: R.
        basis: (dim, dim) eigenvectors as columns (default: the axes).

    Returns:
        Weights with a leading time axis.

    >>> from iclearn.theory.zhang2025 import typical_sequence
    >>> drops = typical_sequence([0.4], 31, 0.01, num_heads=1)
    >>> done = weights_of_progress(np.ones((1, 1)), drops, [0.4], 31, num_heads=1, rank=1)
    >>> round(float(done.value[0, 0]), 4)  # v* of (20)
    1.3292
    """
    target = fixed_point_weights(range(done.shape[1]), eigenvalues, context_len, gain=gain, noise=noise)
    vectors = columns(basis, len(target))
    learned = done * target
    value, pairs = np.zeros((len(done), num_heads)), np.zeros((len(done), num_heads, rank, len(target)))
    sign = np.ones(num_heads)
    for head in {drop.head for drop in drops}:
        held = [drop.component for drop in drops if drop.head == head]
        sign[head] = next(drop.sign for drop in drops if drop.head == head)
        value[:, head] = learned[:, held].sum(1) ** (1 / 3)
        size = np.sqrt(learned[:, held] / np.where(value[:, head] > 0, value[:, head], 1)[:, None])
        pairs[:, head, : len(held)] = size[:, :, None] * vectors[:, held].T
    queries = pairs * sign[:, None, None]
    return SeparateWeights(jnp.asarray(value * sign), jnp.asarray(pairs), jnp.asarray(queries))
