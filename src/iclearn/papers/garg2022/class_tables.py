"""Sparse functions, ReLU networks and trees: algorithms on 20 dimensions, and networks trained on small versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...core.jax_settings import small_work
from ...core.model import AbstractModel
from ...models.predictors import ArcCosine, GreedyTree, Lasso, LeastSquares, NearestNeighbors, NetworkDescent
from ...tasks.function_class import FunctionClass
from ...tasks.function_points import Points
from ..base import Data
from ..lab import Lab
from .noted_numbers import BASELINE_ERRORS, BASELINES
from .paired_prompts import PromptRows, Row, drawn_rows, spread
from .setup import ORIGINAL_CLASSES, PRESETS, SMALL_CLASSES, ClassTraining, recipe_of, task_of
from .shift_tables import answers_or_nan, last_model, options_of

ALPHAS = (1.0, 0.1, 0.01, 0.0001)
LASSOS = tuple(f"Lasso {alpha:g}" for alpha in ALPHAS)
DRAWS = 2  # evaluations of networks


class Law(NamedTuple):
    """One class of functions.

    Args:
        title: in words.
        positions: pairs seen at which algorithms on 20 dimensions are asked.
        places: those for networks on small versions.
        models: the algorithms, by name.
    """

    title: str
    positions: tuple[int, ...]
    places: tuple[int, ...]
    models: Mapping[str, AbstractModel]


def law_of(name: str) -> Law:
    """A class by its name: ``sparse``, ``relu`` or ``tree``."""
    simple: dict[str, AbstractModel] = {"least squares": LeastSquares(), "3-NN": NearestNeighbors(3)}
    if name == "sparse":
        models: dict[str, AbstractModel] = {f"Lasso {alpha:g}": Lasso(alpha) for alpha in ALPHAS}
        return Law("sparse linear functions", (5, 8, 10, 15, 20), (2, 4, 6, 8, 12, 16), simple | models)
    if name == "relu":
        models = {"network GD": NetworkDescent(), "arc-cosine GP": ArcCosine()}
        return Law("ReLU networks of 100 units", (10, 20, 50, 100), (4, 8, 16, 32), simple | models)
    trees: dict[str, AbstractModel] = {"greedy tree": GreedyTree(None), "greedy tree on signs": GreedyTree(None, True)}
    return Law("decision trees", (10, 20, 50, 100), (4, 8, 16, 32), {"3-NN": simple["3-NN"], **trees})


@eqx.filter_jit
def _asked(model: AbstractModel, x: jax.Array, y: jax.Array, positions: jax.Array) -> jax.Array:
    prompts = Points(x, y, y, {}).prompts(positions)
    return jax.lax.map(jax.vmap(model.predict), prompts)[..., 0].T


def algorithm_errors(law: Law, rows: PromptRows, positions: tuple[int, ...], scale: float) -> dict[str, np.ndarray]:
    """Squared errors of all algorithms of a class at some positions.

    Args:
        law: the class.
        rows: prompts.
        positions: pairs seen.
        scale: errors are divided by it.

    Returns:
        Name → (prompt, position) errors.
    """
    x, y = (a.reshape(-1, *a.shape[2:]) for a in (rows.x, rows.y))
    target = rows.target.reshape(-1, rows.target.shape[-1])[:, list(positions)]
    with small_work():
        given = (jnp.asarray(x), jnp.asarray(y), jnp.asarray(positions))
        return {name: (np.asarray(_asked(model, *given)) - target) ** 2 / scale for name, model in law.models.items()}


def baselines(name: str, prompts: int) -> xr.Dataset:
    """Algorithms on the paper's 20 dimensions.

    Args:
        name: of the class.
        prompts: how many.

    Returns:
        ``error`` and ``spread`` (predictor, position).
    """
    law, original = law_of(name), ORIGINAL_CLASSES[name]
    longest = FunctionClass(dim=20, context_len=law.positions[-1], functions=original.functions)
    rows = drawn_rows([Row(longest)], prompts)
    found = {n: spread(e) for n, e in algorithm_errors(law, rows, law.positions, longest.normalizer).items()}
    over = ("predictor", "position")
    return xr.Dataset(
        {"error": (over, np.stack([f.mean for f in found.values()])), "spread": (over, np.stack([f.error for f in found.values()]))},
        {"predictor": list(found), "position": list(law.positions)},
    )  # fmt: skip


def network_table(name: str, kind: ClassTraining, prompts: int, models: list[Any | None]) -> xr.Dataset:
    """Networks of one class and algorithms on the same prompts.

    Args:
        name: of the class.
        kind: the training.
        prompts: of one evaluation, of which there are two.
        models: a network for each seed; None for one that diverged.

    Returns:
        ``error`` and ``spread`` (seed, position); ``base`` and ``base_spread`` (predictor, place); ``gap`` and
        ``gap_spread`` (seed, predictor, place): by how much a network is above an algorithm, prompt by prompt.
    """
    law, task = law_of(name), task_of(kind.training, functions=kind.functions)
    rows = drawn_rows([Row(task, draw=draw) for draw in range(DRAWS)], prompts)
    answers = answers_or_nan(models, rows)
    errors = (answers - rows.target) ** 2 / task.normalizer
    errors = errors.reshape(len(models), -1, errors.shape[-1])
    others = np.stack(list(algorithm_errors(law, rows, law.places, task.normalizer).values()))
    own, base, gap = spread(errors), spread(others), spread(errors[:, None][..., list(law.places)] - others)
    return xr.Dataset(
        {
            "error": (("seed", "position"), own.mean), "spread": (("seed", "position"), own.error),
            "base": (("predictor", "place"), base.mean), "base_spread": (("predictor", "place"), base.error),
            "gap": (("seed", "predictor", "place"), gap.mean), "gap_spread": (("seed", "predictor", "place"), gap.error),
        },
        {
            "seed": np.arange(len(models)), "predictor": list(law.models), "position": np.arange(kind.training.points),
            "place": list(law.places),
        },
    )  # fmt: skip


def collect_class(lab: Lab, name: str) -> Data:
    """What the figure of a class needs.

    Args:
        lab: trains and stores; its options name the preset.
        name: of the class.

    Returns:
        ``baselines``, ``networks`` (None where the preset trains none), ``law``, ``dim``, ``judged``.
    """
    preset = options_of(lab).sizes
    told = {"class": name, "prompts": preset.baseline_prompts, "version": 1}
    known = lab.dataset("class-algorithms", told, partial(baselines, name, preset.baseline_prompts))
    found: dict[str, Any] = {"baselines": known, "networks": None, "law": name, "dim": 0, "judged": preset.judged}
    if (kind := preset.classes.get(name)) is None:
        return found
    recipes = [recipe_of(kind.training, seed, functions=kind.functions) for seed in lab.seeds]
    traces = [] if lab.offline else lab.run(recipes)
    told = {"recipes": [r.hash for r in recipes], "prompts": preset.prompts, "version": 1}
    table = lab.dataset(
        "class-networks", told, lambda: network_table(name, kind, preset.prompts, [last_model(t) for t in traces])
    )
    return found | {"networks": table, "dim": kind.training.dim}


EXAMPLE_CURVES = {  # errors of networks at the places, invented: nothing of it has been measured
    "sparse": (0.80, 0.35, 0.15, 0.05, 0.02, 0.01), "relu": (0.60, 0.50, 0.35, 0.25), "tree": (0.75, 0.6, 0.4, 0.25),
}  # fmt: skip
EXAMPLE_BASES = {
    "sparse": {"least squares": (0.76, 0.52, 0.26, 0.02, 0.0, 0.0), "3-NN": (1.4, 1.2, 1.0, 0.9, 0.8, 0.7), "Lasso": (0.78, 0.36, 0.12, 0.02, 0.0, 0.0)},
    "relu": {"least squares": (1.2, 3.0, 0.9, 0.6), "3-NN": (0.7, 0.65, 0.6, 0.5), "network GD": (0.62, 0.52, 0.36, 0.26), "arc-cosine GP": (0.59, 0.48, 0.33, 0.24)},
    "tree": {"greedy tree": (1.9, 1.5, 1.0, 0.5), "greedy tree on signs": (1.5, 1.1, 0.6, 0.3), "3-NN": (1.2, 1.1, 1.0, 0.9)},
}  # fmt: skip


def example_class(name: str) -> Data:
    """The algorithms of the notes, and networks as the paper describes them (invented numbers)."""
    law, kind, seeds = law_of(name), SMALL_CLASSES[name], 3
    known, noted = BASELINES[name], list(law.models)
    values = np.array([[known.get(n, known.get("Lasso 0.01", {})).get(p, 1.0) for p in law.positions] for n in noted])
    over = ("predictor", "position")
    tables = xr.Dataset(
        {"error": (over, values), "spread": (over, np.full_like(values, 0.2 * BASELINE_ERRORS[name]))},
        {"predictor": noted, "position": list(law.positions)},
    )
    positions = np.arange(kind.training.points)
    curve = np.interp(positions, (0, *law.places), (1.0, *EXAMPLE_CURVES[name]))
    errors = np.repeat(curve[None], seeds, 0) * (1 + 0.005 * np.arange(seeds)[:, None])
    base = np.array([EXAMPLE_BASES[name].get(n, EXAMPLE_BASES[name].get("Lasso")) for n in noted])
    gap = errors[:, None][..., list(law.places)] - base
    networks = xr.Dataset(
        {
            "error": (("seed", "position"), errors), "spread": (("seed", "position"), np.full_like(errors, 0.003)),
            "base": (("predictor", "place"), base), "base_spread": (("predictor", "place"), np.full_like(base, 0.003)),
            "gap": (("seed", "predictor", "place"), gap), "gap_spread": (("seed", "predictor", "place"), np.full_like(gap, 0.003)),
        },
        {"seed": np.arange(seeds), "predictor": noted, "position": positions, "place": list(law.places)},
    )  # fmt: skip
    judged = PRESETS["full"].judged
    return {"baselines": tables, "networks": networks, "law": name, "dim": kind.training.dim, "judged": judged}
