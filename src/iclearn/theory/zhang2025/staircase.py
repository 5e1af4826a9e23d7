"""From a sequence of drops to curves: progress of each eigenvector, the loss, and the weights over time."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scipy.special import expit

from .population import Spectrum, inflation, spectrum
from .saddles import fixed_point_weights
from .scalar import head_course
from .sequence import Drop
from .weights import SeparateWeights


def progress(
    times: np.ndarray, drops: Sequence[Drop], eigenvalues: Spectrum, context_len: float, *, gain: float = 1.0
) -> np.ndarray:
    """How far each eigenvector is learned, W_dd(t)/w_d in 0..1 (time, dim), by (21) or the logistic curve."""
    values, times = spectrum(eigenvalues), np.asarray(times, float)
    done = np.zeros((len(times), len(values)))
    for drop in drops:
        elapsed = np.clip(times - drop.start, 0, None)
        if drop.v_0 >= drop.limit * (1 - 1e-12):
            done[:, drop.component] = times >= drop.start
        elif drop.new_head:
            lam = float(values[drop.component])
            v = head_course(elapsed, lam, values.sum(), context_len, drop.v_0, gain=gain)
            done[:, drop.component] = (v / drop.limit) ** 3
        else:
            odds = np.log(drop.limit**2 / drop.v_0**2 - 1)
            done[:, drop.component] = expit(2 * drop.rate * elapsed - odds)
    return done


def loss_of_progress(done: np.ndarray, eigenvalues: Spectrum, context_len: float) -> np.ndarray:
    """tr Λ − Σ_d λ_d/a_d · (2ρ_d − ρ_d²) for progress ρ (time, dim); where all ρ are 0 or 1, this is (19)."""
    values = spectrum(eigenvalues)
    return values.sum() - (2 * done - done**2) @ (values / inflation(values, context_len))


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
