"""Gradient descent on the population loss of the reduced separate model, written for these tests alone.

L(W) = tr Λ − 2 tr(WᵀΛ²) + tr(Wᵀ E[Λ̂²] W Λ), W = gain · Σ_h v_h Σ_r k_{h,r} q_{h,r}ᵀ, in the eigenbasis of Λ; the
weights can be turned into any other basis afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import iclearn.core.jax_settings  # noqa: F401  (double precision)


@dataclass(frozen=True)
class Run:
    loss: np.ndarray
    time: np.ndarray  # t/τ = 2·lr·step
    value: np.ndarray  # record head
    key: np.ndarray  # record head rank dim
    query: np.ndarray
    record_time: np.ndarray


def linear_spectrum(dim: int) -> np.ndarray:
    values = np.arange(dim, 0, -1.0)
    return values / values.sum()


def saddle_levels(eigenvalues: np.ndarray, context_len: int) -> np.ndarray:
    total = eigenvalues.sum()
    gains = eigenvalues / (1 + (1 + total / eigenvalues) / context_len)
    return total - np.concatenate([[0.0], np.cumsum(gains)])


def draw(seed: int, dim: int, heads: int, rank: int, init: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    small = init / np.sqrt(rank * (dim + 1))
    return (
        init * rng.normal(size=heads),
        small * rng.normal(size=(heads, rank, dim)),
        small * rng.normal(size=(heads, rank, dim)),
    )


@partial(jax.jit, static_argnames=("blocks", "every"))
def _descend(weights, eigenvalues, context_len, gain, lr, blocks, every):
    total = eigenvalues.sum()
    second = eigenvalues**2 + (eigenvalues + total) * eigenvalues / context_len

    def loss(weights):
        value, key, query = weights
        matrix = gain * jnp.einsum("h,hri,hrj->ij", value, key, query)
        linear = jnp.sum(jnp.diagonal(matrix) * eigenvalues**2)
        return total - 2 * linear + jnp.einsum("i,ij,j->", second, matrix**2, eigenvalues)

    def step(weights, _):
        value, slope = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - lr * g, weights, slope), value

    def block(weights, _):
        after, losses = jax.lax.scan(step, weights, None, length=every)
        return after, (weights, losses)

    _, (records, losses) = jax.lax.scan(block, weights, None, length=blocks)
    return losses.ravel(), records


def train(
    seed: int,
    *,
    dim: int = 8,
    context_len: int = 31,
    heads: int = 9,
    rank: int = 1,
    init: float = 5e-3,
    lr: float = 0.02,
    gain: float | None = None,
    steps: int = 60_000,
    every: int = 20,
    weights: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
) -> Run:
    """By default the public code's conventions: the unnormalized sum over tokens (gain N), with its lr and init."""
    start = draw(seed, dim, heads, rank, init) if weights is None else weights
    scale = float(context_len) if gain is None else gain
    losses, (value, key, query) = _descend(
        tuple(map(jnp.asarray, start)), linear_spectrum(dim), float(context_len), scale, lr, steps // every, every
    )
    time = 2 * lr * np.arange(losses.size)
    return Run(np.asarray(losses), time, np.asarray(value), np.asarray(key), np.asarray(query), time[::every])


def time_scales(dim: int, gain: float) -> np.ndarray:
    return 1 / (gain * linear_spectrum(dim) ** 2)
