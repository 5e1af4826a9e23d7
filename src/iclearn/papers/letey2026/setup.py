"""Γ* of letey2026 at finite dim: pools with a covariance, and exact errors on new tasks with other covariances."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...core.checks import check_choice
from ...core.errors import IclearnError
from ...core.rng import stream
from ...core.threads import side_by_side
from ...models.label_gram_draws import draw_label_gram
from ...models.ridge_solutions import solve_gamma
from ...theory.diversity import matrix_error, new_moments, pool_moments
from ..base import PaperOptions
from ..lab import Lab
from ..lu2025.setup import Sizes

NOISE = 0.01
PresetName = Literal["small", "tiny"]
TINY = (8, 12)  # dims of the preset tiny
MOST = 120  # repetitions of one size


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce letey2026` is given.

    Args:
        preset: ``small`` (minutes on two cores) or ``tiny`` (two small dims, to see that it runs).
        published: a file `published_sims.npz` with means of the authors' own runs, drawn beside ours; judges do not
            read it.

    >>> Options.of({"preset": None}).preset
    'small'
    """

    preset: str = "small"
    published: str | None = None

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PresetName)


def options_of(lab: Lab) -> Options:
    """The options a lab was given; the usual ones where it was given none."""
    return lab.options if isinstance(lab.options, Options) else Options()


def dims_of(lab: Lab, dims: Sequence[int]) -> tuple[int, ...]:
    """The sizes of a figure, or those of the preset tiny."""
    return TINY if options_of(lab).preset == "tiny" else tuple(dims)


def published(lab: Lab) -> dict[str, np.ndarray]:
    """Arrays of the authors' runs; none where no file is given."""
    path = options_of(lab).published
    if path is None:
        return {}
    try:
        with np.load(path) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError) as error:
        raise IclearnError(f"cannot read the published runs in {path!r}: give the file published_sims.npz") from error


def repetitions(dim: int, largest: int, seeds: int) -> int:
    """How many draws at one dim have the standard error of `seeds` draws at the largest: the spread falls as 1/d.

    >>> [repetitions(dim, 40, 12) for dim in (12, 20, 40)]
    [120, 48, 12]
    """
    return min(MOST, max(seeds, round(seeds * (largest / dim) ** 2)))


def trained_gamma(train: np.ndarray, sizes: Sizes, seed: int, noise: float = NOISE) -> tuple[np.ndarray, np.ndarray]:
    """Γ* without ridge on one draw of pool and prompts, tasks N(0, diag c), each prompt's task by chance.

    Draws of one seed are the same normal numbers for every spectrum, and pools are nested, so that laws and pool sizes
    can be compared seed by seed.

    Args:
        train: (dim) c_j.
        sizes: d, ℓ, k, n.
        seed: the root seed.
        noise: ρ.

    Returns:
        (dim, dim + 1) Γ*, and (task, dim) the pool in units in which E‖w‖² = Σ c_j.
    """
    dim, count = sizes.dim, sizes.num_prompts
    size = count if sizes.num_tasks is None else sizes.num_tasks
    pool = np.random.default_rng([seed, dim, 0]).standard_normal((size, dim)) * np.sqrt(train)
    chosen = np.arange(count) if sizes.num_tasks is None else np.random.default_rng([seed, dim, 1]).integers(size, size=count)  # fmt: skip
    drawn = draw_label_gram(stream(seed, "data.train"), jnp.asarray(pool[chosen] / dim**0.5), sizes.context_len, noise)
    on_host = jax.default_backend() == "cpu"
    query, context, target = (np.asarray(a) if on_host else a for a in drawn)
    return np.asarray(solve_gamma(query, context, target)), pool


def trained_errors(
    train: np.ndarray, tests: np.ndarray, sizes: Sizes, seed: int, *, lengths: Sequence[int] = (), noise: float = NOISE
) -> tuple[np.ndarray, float]:
    """Exact e_ICL of Γ* on new tasks of several laws, or of one context length each, and its exact e_IDG.

    Args:
        train: (dim) c_j.
        tests: (law, dim) t_j.
        sizes: d, ℓ, k, n.
        seed: the root seed.
        lengths: context lengths of the new tasks' prompts; none: that of training.
        noise: ρ.

    Returns:
        (length, law) e_ICL, or (law) where no lengths are given; and e_IDG.

    >>> icl, idg = trained_errors(np.ones(6), np.ones((1, 6)), Sizes.near(6, 2.0, 1.0, 3.0), 0)
    >>> 0.01 < idg < float(icl[0]) < 3
    True
    """
    gamma, pool = trained_gamma(train, sizes, seed, noise)
    laws = [new_moments(test) for test in tests]
    given = lengths or [sizes.context_len]
    icl = np.array([[matrix_error(gamma, law, length, noise) for law in laws] for length in given])
    return icl if lengths else icl[0], float(matrix_error(gamma, pool_moments(pool), sizes.context_len, noise))


Draws = dict[int, xr.Dataset]


def draws(
    lab: Lab, name: str, dims: Sequence[int], simulate: Callable[[int, int], np.ndarray], coords: dict[str, Any], version: int
) -> Draws:  # fmt: skip
    """Errors of trained attention over draws at several dims, each dim stored by itself.

    Args:
        lab: where they are stored.
        name: of the figure.
        dims: the sizes; at the largest there are as many draws as the lab has seeds (`repetitions`).
        simulate: from a dim and a seed to an array over `coords`.
        coords: its axes.
        version: of what is computed, for the store.

    Returns:
        dim → dataset with ``error`` over (seed, …).
    """
    found = {}
    for dim in dims:
        count = repetitions(dim, max(dims), lab.num_seeds)

        def compute(dim: int = dim, count: int = count) -> xr.Dataset:
            rows = np.stack(side_by_side(partial(simulate, dim), range(count)))
            return xr.Dataset({"error": (("seed", *coords), rows)}, {"seed": np.arange(count), **coords})

        axes = {axis: [str(value) for value in values] for axis, values in coords.items()}
        told = {"dim": dim, "repetitions": count, "version": version, **axes}
        found[dim] = lab.dataset(f"letey-{name}-{dim}", told, compute)
        lab.say(f"{name}: dim {dim}, {count} draws")
    return found


def sizes_table(found: Draws, predict: Callable[[int], np.ndarray]) -> xr.Dataset:
    """Mean errors over draws at several dims, and theory for each.

    Args:
        found: the draws.
        predict: from a dim to theory's array over their axes.

    Returns:
        (dim, …) mean, error (the standard error of the mean) and theory.
    """
    errors = [one["error"] for one in found.values()]
    parts = {
        "mean": [one.mean("seed") for one in errors],
        "error": [one.std("seed", ddof=1) / one.sizes["seed"] ** 0.5 for one in errors],
        "theory": [one.isel(seed=0, drop=True).copy(data=predict(dim)) for dim, one in zip(found, errors, strict=True)],
    }
    return xr.Dataset({name: xr.concat(rows, "dim") for name, rows in parts.items()}).assign_coords(dim=list(found))
