"""Γ* of lu2025 at finite dim: pools and prompts drawn, the matrix solved for, its errors exact; sizes and presets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...core.checks import check_choice, require
from ...core.rng import stream
from ...models.label_gram_draws import draw_label_gram
from ...models.ridge_solutions import GammaSums, solve_gamma
from ...tasks.pooled_regression import PooledRegression
from ...theory.diversity import matrix_error, new_moments, pool_moments
from ..base import PaperOptions
from ..lab import Lab


class Preset(NamedTuple):
    """The sizes at which matrices are trained.

    Args:
        dims: d.
        factors: pools of each d, as multiples of the seeds.
    """

    dims: tuple[int, ...]
    factors: tuple[int, ...]

    def upto(self, largest: int, share: float = 1) -> Preset:
        """The sizes of at most this d, with one of `share` pools (½: twice as many).

        >>> PRESETS["small"].upto(40, 4)
        Preset(dims=(20, 28, 40), factors=(3, 1, 1))
        """
        kept = [pair for pair in zip(self.dims, self.factors, strict=True) if pair[0] <= largest]
        return Preset(tuple(d for d, _ in kept), tuple(max(1, int(f / share)) for _, f in kept))


PresetName = Literal["tiny", "small", "large"]
PRESETS: dict[str, Preset] = {
    "tiny": Preset((6, 8, 12), (2, 2, 1)),
    "small": Preset((20, 28, 40, 60), (12, 6, 3, 1)),
    "large": Preset((20, 28, 40, 60, 80), (24, 12, 6, 4, 2)),
}


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce lu2025` is given.

    Args:
        preset: ``small`` (d = 20, 28, 40, 60, minutes on two cores), ``large`` (d up to 80 and twice the pools, for a
            GPU) or ``tiny`` (d up to 12, to see that it runs).

    >>> Options.of({"preset": None}).preset
    'small'
    """

    preset: str = "small"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PresetName)


def preset_of(lab: Lab) -> Preset:
    """The sizes that were asked for."""
    return PRESETS[lab.options.preset if isinstance(lab.options, Options) else Options().preset]


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
        task = PooledRegression.at(dim, alpha=alpha, kappa=None if np.isinf(kappa) else kappa, tau=tau)
        require(task.context_len >= 1, f"alpha {alpha} leaves no pair at dim {dim}")
        return Sizes(dim, task.context_len, task.num_tasks, task.num_prompts or 0)

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
    icl, idg = nested_errors(sizes, [sizes.num_prompts], noise, [ridge], seed)[0, 0]
    return float(icl), float(idg)


def nested_errors(
    sizes: Sizes, counts: Sequence[int], noise: float, ridges: Sequence[float], seed: int
) -> np.ndarray:  # fmt: skip
    """Exact errors of Γ* on the first prompts of one draw, for several numbers of them and several ridges.

    Args:
        sizes: d, ℓ, k and how many prompts are drawn.
        counts: n, growing, of at most so many.
        noise: ρ.
        ridges: λ.
        seed: the root seed.

    Returns:
        (count, ridge, 2) e_ICL and e_IDG.

    >>> nested_errors(Sizes.near(4, 2.0, 1.0, 2.0), [16, 32], 0.1, [0.0, 0.1], 0).shape
    (2, 2, 2)
    """
    good = list(counts) == sorted(set(counts)) and counts[-1] <= sizes.num_prompts
    require(good, f"the numbers of prompts must grow up to {sizes.num_prompts}, not {list(counts)}")
    dim = sizes.dim
    pool, prompts = draw(sizes, noise, seed)
    new = new_moments(np.ones(dim), sphere=True)
    laws = (new, new if sizes.num_tasks is None else pool_moments(pool * dim**0.5))
    sums, found = GammaSums(dim, dim + 1), np.empty((len(counts), len(ridges), 2))
    for i, count in enumerate(counts):
        enough = count >= dim * (dim + 1)
        if enough:
            sums.add(*(part[sums.count : count] for part in prompts))
        for j, ridge in enumerate(ridges):
            gamma = sums.solve(ridge) if enough else solve_gamma(*(part[:count] for part in prompts), ridge=ridge)
            found[i, j] = [matrix_error(np.asarray(gamma), law, sizes.context_len, noise) for law in laws]
    return found


def draw(sizes: Sizes, noise: float, seed: int) -> tuple[np.ndarray, list[Any]]:
    """A pool on the unit sphere (iclearn's units) and prompts of it, as `label_gram_draws` has them.

    Args:
        sizes: d, ℓ, k, n.
        noise: ρ.
        seed: the root seed.

    Returns:
        The pool, and queries, contexts and targets.
    """
    rng = np.random.default_rng([seed, sizes.dim])
    pool = rng.standard_normal((sizes.num_tasks or sizes.num_prompts, sizes.dim))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    tasks = pool if sizes.num_tasks is None else pool[rng.integers(len(pool), size=sizes.num_prompts)]
    drawn = draw_label_gram(stream(seed, "data.train"), jnp.asarray(tasks), sizes.context_len, noise)
    on_host = jax.default_backend() == "cpu"  # numpy's products are faster there
    return pool, [np.asarray(part) if on_host else part for part in drawn]
