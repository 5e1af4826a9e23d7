"""Merged attention at context lengths it was not trained on, and the levels of training on all prefixes (Figure 13)."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np
import xarray as xr
from jaxtyping import Array

from ...core.model import AbstractModel
from ...core.prompt import Prompt
from ...core.recipe import Recipe
from ...core.trace import Trace
from ...probes.reading import effective_matrices
from ...tasks.regression import IN_CONTEXT
from ...theory.zhang2025 import gain_of, inflation, population_loss, saddle_losses
from .examples import SEEDS, wobble
from .setup import CONTEXT, eigenvalues, public_task

LENGTHS = (4, 6, 8, 12, 16, 24, 31, 48, 64, 100, 150, 200)
SAMPLED = (4, 8, 16, 31, 64, 200)
TEST_PROMPTS = 5000
TRAINING = ("prefixes", "fixed")


def closed_loss(trace: Trace, length: int, training: str) -> float:
    """Population loss of the trained W on prompts of another length, with the model's own normalization."""
    gain = gain_of("none" if "sum" in training else "tokens", length)
    final = effective_matrices(trace, gain=1.0)[-1]
    return float(population_loss(final, trace.data["covariance"].values, length, gain=gain))


@eqx.filter_jit
def _answers(model: AbstractModel, prompts: Prompt) -> Array:
    return jax.vmap(model.predict)(prompts)


def sampled_loss(plan: Recipe, trace: Trace, length: int) -> float:
    """Mean squared error of the full trained model on fresh prompts of another length."""
    task = public_task(
        prompts=TEST_PROMPTS, context_len=length, test_prompts=TEST_PROMPTS, center=False, whiten=False
    )  # fmt: skip
    batch = task.source(plan.seed, "float64", IN_CONTEXT).everything()
    model = plan.model.rebuild(task.dim, trace.weights())  # type: ignore[attr-defined]
    answers = _answers(model, batch.prompt)  # type: ignore[union-attr]
    return float(np.mean((np.asarray(answers) - np.asarray(batch.target)) ** 2))


def prefix_levels(prefixes: bool) -> np.ndarray:
    """(19) for a mean over context lengths n: tr Λ − Σ_{d≤m} λ_d ⟨g⟩²/⟨g² a_d⟩, g = n/(n + 1), a_d = 1 + (1 + tr Λ/λ_d)/n.

    With W diagonal in the eigenbasis the loss is Σ_d λ_d − 2⟨g⟩λ_d² w_d + ⟨g² a_d⟩λ_d³ w_d²; one length gives (19) back.
    """
    values = eigenvalues(4)
    lengths = range(1, CONTEXT + 1) if prefixes else (CONTEXT,)
    gains = np.array([gain_of("tokens", n) for n in lengths])
    seconds = np.mean([g**2 * inflation(values, n) for g, n in zip(gains, lengths, strict=True)], axis=0)
    return values.sum() - np.concatenate([[0.0], np.cumsum(values * gains.mean() ** 2 / seconds)])


def optimum(lengths: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.array([saddle_losses(eigenvalues(4), n)[-1] for n in lengths])


def tests_of(closed: np.ndarray, drawn: np.ndarray, seeds: Sequence[int]) -> xr.Dataset:
    """The table of test losses: in closed form for P = ∞, on fresh prompts for models trained on finitely many."""
    return xr.Dataset(
        {"closed": (("training", "seed", "length"), closed), "drawn": (("trained", "seed", "drawn_length"), drawn)},
        {
            "training": np.array([*TRAINING, "fixed, sum over tokens"], dtype=object),
            "trained": np.array(TRAINING, dtype=object),
            "length": list(LENGTHS), "drawn_length": list(SAMPLED), "seed": list(seeds),
        },
    )  # fmt: skip


def example_tests() -> xr.Dataset:
    """The losses of the matrices that training should reach."""
    values, closed = eigenvalues(4), []
    for training, normalize in (("prefixes", "tokens"), ("fixed", "tokens"), ("fixed", "none")):
        trained = range(1, CONTEXT + 1) if training == "prefixes" else (CONTEXT,)
        first = np.mean([gain_of(normalize, n) for n in trained])
        second = np.mean([gain_of(normalize, n) ** 2 * inflation(values, n) for n in trained], axis=0)
        matrix = np.diag(first / (second * values))
        row = [population_loss(matrix, np.diag(values), n, gain=gain_of(normalize, n)) for n in LENGTHS]
        closed.append(np.tile(np.array(row, float), (SEEDS, 1)))
    factors = np.array([wobble(seed, 0.02) for seed in range(SEEDS)])[:, None]
    drawn = np.array(closed[:2])[:, :, np.isin(LENGTHS, SAMPLED)] * factors
    return tests_of(np.array(closed), drawn, range(SEEDS))
