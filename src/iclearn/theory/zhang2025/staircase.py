"""From a sequence of drops to curves: progress of each eigenvector, the loss, and the weights over time."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from .population import Spectrum, spectra
from .saddles import fixed_point_weights
from .scalar import fixed_value, growth_rate, own_course
from .sequence import Drop, Drops
from .weights import SeparateWeights


def progress(
    times: np.ndarray, drops: Sequence[Drop] | Drops, eigenvalues: Spectrum, context_len: float, *, gain: float = 1.0
) -> np.ndarray:
    """How far each eigenvector is learned, W_dd(t)/w_d in 0..1 (time, dim), by (21) or the logistic curve.

    For the `Drops` of many runs (run, time, dim); `eigenvalues` are those of all, or a row for each run.
    """
    if not isinstance(drops, Drops):
        return progress(times, Drops.together([drops]), eigenvalues, context_len, gain=gain)[0]
    runs = len(drops.head)
    values, times = spectra(eigenvalues, runs), np.asarray(times, float)
    rates = np.asarray(growth_rate(values, values.sum(-1, keepdims=True), context_len, gain=gain))
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


def loss_of_progress(done: np.ndarray, eigenvalues: Spectrum, context_len: float) -> np.ndarray:
    """tr Λ − Σ_d λ_d/a_d · (2ρ_d − ρ_d²) for progress ρ (time, dim); where all ρ are 0 or 1, this is (19).

    With progress (run, time, dim) `eigenvalues` may be a row for each run.
    """
    if done.ndim == 2:
        return loss_of_progress(done[None], eigenvalues, context_len)[0]
    values = spectra(eigenvalues, len(done))
    trace = values.sum(-1, keepdims=True)
    gained = values**2 * np.asarray(fixed_value(values, trace, context_len)) ** 3  # λ/a, as v*³ = 1/(λ a)
    return trace - ((2 * done - done**2) @ gained[:, :, None])[:, :, 0]


def weights_of_progress(
    done: np.ndarray,
    drops: Sequence[Drop],
    eigenvalues: Spectrum,
    context_len: float,
    *,
    num_heads: int,
    rank: int,
    basis: np.ndarray | None = None,
    gain: float = 1.0,
) -> SeparateWeights:
    """Balanced weights for progress (time, dim), |v_h|³ = Σ_{d in head} W_dd and k = ±q = √(W_dd/|v_h|) e_d.

    The sign of v is that of the drop; the sign common to k and q of a pair is left open by the theory
    (here: +e_d for k).
    """
    target = fixed_point_weights(range(done.shape[1]), eigenvalues, context_len, gain=gain)
    vectors = np.eye(len(target)) if basis is None else np.asarray(basis, float)
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
