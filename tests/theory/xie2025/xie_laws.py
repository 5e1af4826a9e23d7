"""Random tasks and straightforward sampling, for the tests of xie2025's theory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from iclearn.theory.xie2025 import Law


def random_covariance(rng: np.random.Generator, dim: int) -> np.ndarray:
    q, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return (q * rng.uniform(0.4, 2.5, dim)) @ q.T


def random_law(rng: np.random.Generator, dim: int, context_len: int, noise: float) -> Law:
    mean = rng.standard_normal(dim) * rng.uniform(0.2, 2.0)
    return Law(mean, context_len, random_covariance(rng, dim), random_covariance(rng, dim), noise)


@st.composite
def laws(draw: st.DrawFn, max_dim: int = 5) -> Law:
    """Any dimension up to `max_dim`, any Λ and Σ (condition number up to 6), any prior mean, with and without noise."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    noise = draw(st.sampled_from([0.0, 0.0, 0.05, 0.7, 4.0]))
    return random_law(rng, draw(st.integers(1, max_dim)), draw(st.integers(1, 12)), noise)


class Draws(NamedTuple):
    gram: np.ndarray  # (sample, d+1, d+1)
    query: np.ndarray
    weights: np.ndarray
    target: np.ndarray


def sample(law: Law, num: int, seed: int) -> Draws:
    """Prompts drawn one token at a time, as the task is defined."""
    rng = np.random.default_rng(seed)
    root, spread = np.linalg.cholesky(law.inputs), np.linalg.cholesky(law.prior)
    weights = law.mean + rng.standard_normal((num, law.dim)) @ spread.T
    x = rng.standard_normal((num, law.context_len, law.dim)) @ root.T
    y = np.einsum("ncd,nd->nc", x, weights) + np.sqrt(law.noise) * rng.standard_normal(x.shape[:2])
    tokens = np.concatenate([x, y[..., None]], -1)
    query = rng.standard_normal((num, law.dim)) @ root.T
    gram = tokens.swapaxes(1, 2) @ tokens / law.context_len
    return Draws(gram, query, weights, np.sum(weights * query, -1))


def standard_errors_off(prediction: np.ndarray, target: np.ndarray, expected: float) -> float:
    """How many standard errors the mean squared error of these samples is away from `expected`."""
    squared = (prediction - target) ** 2
    return abs(squared.mean() - expected) / (squared.std(ddof=1) / np.sqrt(len(squared)))
