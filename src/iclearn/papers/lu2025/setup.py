"""Γ* of lu2025 at finite dim: pools and prompts drawn, the matrix solved for, its errors exact."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ...core.checks import require
from ...core.rng import stream
from ...models.label_gram_draws import draw_label_gram
from ...models.ridge_solutions import solve_gamma
from ...theory.diversity import matrix_error, new_moments, pool_moments


@dataclass(frozen=True)
class Sizes:
    """The whole numbers that α, κ, τ mean at one dim, by rounding to the nearest.

    Args:
        dim: d.
        context_len: ℓ.
        num_tasks: k; None: a task for every prompt.
        num_prompts: n.

    >>> Sizes.near(100, 1.15, 0.57, 2.0)
    Sizes(dim=100, context_len=115, num_tasks=57, num_prompts=20000)
    """

    dim: int
    context_len: int
    num_tasks: int | None
    num_prompts: int

    @staticmethod
    def near(dim: int, alpha: float, kappa: float, tau: float) -> Sizes:
        """The sizes nearest to α, κ (may be infinite) and τ.

        Args:
            dim: d.
            alpha: α = ℓ/d.
            kappa: κ = k/d.
            tau: τ = n/d².

        Returns:
            The sizes.
        """
        tasks = None if np.isinf(kappa) else round(kappa * dim)
        sizes = Sizes(dim, round(alpha * dim), tasks, round(tau * dim**2))
        least = min(sizes.context_len, sizes.num_prompts, 1 if tasks is None else tasks)
        require(least >= 1, f"alpha {alpha}, kappa {kappa}, tau {tau} leave nothing at dim {dim}: {sizes}")
        return sizes

    @property
    def ratios(self) -> tuple[float, float, float]:
        """α, κ, τ as they are run."""
        tasks = np.inf if self.num_tasks is None else self.num_tasks / self.dim
        return self.context_len / self.dim, tasks, self.num_prompts / self.dim**2


def trained_errors(sizes: Sizes, noise: float, ridge: float, seed: int) -> tuple[float, float]:
    """Exact e_ICL and e_IDG of Γ* on one draw of pool and prompts; tasks on the sphere, each prompt's by chance.

    Args:
        sizes: d, ℓ, k, n.
        noise: ρ.
        ridge: λ; 0: least norm.
        seed: the root seed.

    Returns:
        The two errors (the first twice where there is no pool).

    >>> icl, idg = trained_errors(Sizes.near(6, 2.0, 1.0, 2.0), 0.1, 0.1, 0)
    >>> 0.1 < idg < icl < 2
    True
    """
    dim, count = sizes.dim, sizes.num_prompts
    rng = np.random.default_rng([seed, dim])
    pool = rng.standard_normal((sizes.num_tasks or count, dim))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    tasks = pool if sizes.num_tasks is None else pool[rng.integers(len(pool), size=count)]
    drawn = draw_label_gram(stream(seed, "data.train"), jnp.asarray(tasks), sizes.context_len, noise)
    on_host = jax.default_backend() == "cpu"  # numpy multiplies a matrix with its own transpose in half the time
    query, context, target = (np.asarray(a) if on_host else a for a in drawn)
    gamma = solve_gamma(query, context, target, ridge)
    new = new_moments(np.ones(dim), sphere=True)
    laws = (new, new if sizes.num_tasks is None else pool_moments(pool * dim**0.5))
    icl, idg = (float(matrix_error(np.asarray(gamma), law, sizes.context_len, noise)) for law in laws)
    return icl, idg
