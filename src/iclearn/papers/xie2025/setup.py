"""What the figures of xie2025 share: the paper's task and optimizer, exact training, and the theory beside it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from ...core.jax_settings import small_work
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...core.threads import side_by_side
from ...core.trace import Trace
from ...engines.descend import descend
from ...engines.quadratic import QuadraticEngine
from ...models import LSA, LSAGroup, LSATogether
from ...tasks import Covariance, LinearRegression
from ...tasks.gram_moments import GramForm, gram_form
from ...theory.xie2025 import Law, adam_floor
from ..lab import Lab
from .gradient_noise import gradient_deviations

DIM = CONTEXT = 10
NORMS = (0.0, 1.0, 3.0, 10.0)
HEADS = (1, 2, 5, 10, 11, 20)
STEPS, RATE, BATCH = 5000, 5e-4, 2048
STEP_LOSS = DIM * (DIM + 1) / (CONTEXT + DIM + 1)  # one gradient step from w*
YQ = LSA(1, "trainable")
MEMBERS = (YQ, *(LSA(h) for h in HEADS))
NAMES = ("yq", *HEADS)
RECORDS_AT_ONCE = 32
FAST_LR = 2e-3  # with which yq-LSA reaches the prior mean of norm 10 in the paper's number of steps
STAGES = ((1e-2, 4000), (1e-3, 2000), (1e-4, 1500))  # learning rate and steps of exact training to convergence
COLORS = {"yq": "#D55E00", "gd": "#000000", "heads": "#0072B2", "bayes": "#009E73", "zero": "0.55"}


def prior_mean(norm: float, dim: int = DIM) -> tuple[float, ...]:
    """w* = m·𝟏/√d."""
    return tuple(np.full(dim, norm / np.sqrt(dim)))


def paper_task(norm: float, *, dim: int = DIM, context: int = CONTEXT, noise: float = 0.0) -> LinearRegression:
    """White inputs, w ~ N(w*, I), infinitely many prompts."""
    return LinearRegression(
        dim=dim,
        context_len=context,
        covariance=Covariance.white(trace=None),
        prior_mean=prior_mean(norm, dim),
        noise=noise,
        num_prompts=None,
    )


def law_of(task: LinearRegression, seed: int = 0) -> Law:
    """The theory's description of the same task."""
    inputs = np.asarray(task.covariance_matrix(seed))
    (label,) = task.label_laws(seed)
    return Law(np.asarray(label.mean)[:, 0], task.context_len, inputs, np.asarray(label.covariance), task.noise)


def gap_law(norm: Any, dim: int = DIM, context: int = CONTEXT) -> Any:
    """2m²/(Cd+2): what multi-head LSA without a guess loses to one gradient step from w*."""
    return 2 * np.square(norm) / (context * dim + 2)


# --- the paper's training, on sampled prompts


def online_recipe(
    norm: float,
    seed: int,
    members: Sequence[LSA] = MEMBERS,
    lr: float = RATE,
    *,
    batch_size: int = BATCH,
    steps: int = STEPS,
) -> Recipe:
    """The paper's training: Adam, 2048 fresh prompts a step, 5000 steps, weights from N(0, 0.1²)."""
    records = max(51, 51 * steps // STEPS)
    return Recipe(
        task=paper_task(norm),
        model=LSATogether(tuple(members)),
        init=Init(0.1),
        optimizer=Optimizer("adam", lr, batch_size=batch_size),
        steps=steps,
        engine="samples",
        seed=seed,
        record=Record(weights=records, candidates=records),
        dtype="float32",
    )


def exact_twin(recipe: Recipe, steps: int) -> Recipe:
    """A sampled run again on the exact loss, from the same weights with the same Adam, for so many steps."""
    return recipe.replace(
        optimizer=Optimizer("adam", recipe.optimizer.lr), engine="population", dtype="float64", steps=steps
    )


def online_runs(lab: Lab) -> dict[float, list[Trace]]:
    """The sampled runs of the paper, by ‖w*‖: all models of a run see the same prompts."""
    traces = lab.run([online_recipe(norm, seed) for norm in NORMS for seed in lab.seeds])
    count = lab.num_seeds
    return {norm: traces[i * count : (i + 1) * count] for i, norm in enumerate(NORMS)}


def losses_over_training(trace: Trace) -> np.ndarray:
    """The exact losses at every record: (record, member). Nothing is sampled, so nothing but the seed varies."""
    recipe = trace.recipe
    task, spec = recipe.task, recipe.model
    assert isinstance(task, LinearRegression)
    assert isinstance(spec, LSATogether)
    names = [str(name) for name in trace.data.data_vars if str(name).startswith("weight_")]
    weights = {name.removeprefix("weight_"): np.asarray(trace.data[name].values, float) for name in names}
    count = len(weights["p"])
    fill = ((0, -count % RECORDS_AT_ONCE),)  # with zeros: one program for runs that kept 49 records, 50 or 51
    weights = {name: np.pad(path, fill + ((0, 0),) * (path.ndim - 1)) for name, path in weights.items()}
    with small_work():
        return np.asarray(_losses(_form(task), spec, weights))[:count]


@functools.lru_cache(maxsize=64)
def _form(task: LinearRegression) -> GramForm:
    return gram_form(task, 0, "float64")


@eqx.filter_jit
def _losses(
    form: GramForm, spec: LSATogether, weights: Mapping[str, Array | np.ndarray]
) -> Float[Array, "record member"]:
    def at(record: dict[str, Array]) -> Array:
        tables = spec.rebuild(form.root.shape[0], record).coefficients()
        return jax.vmap(lambda column: form(column[:, None]), in_axes=1)(tables)

    return jax.lax.map(at, weights)


def rest_of(trace: Trace) -> dict[str, np.ndarray]:
    """Where the members of a sampled run came to rest, each an array over members.

    `loss` at the last step; `late` and `earlier`: means over the last and the third fifth of the steps;
    `floor`: Adam's noise floor above the optimum (`adam_floor`), from the gradient noise at the last weights.
    """
    recipe = trace.recipe
    task, spec, optimizer = recipe.task, recipe.model, recipe.optimizer
    assert isinstance(task, LinearRegression)
    assert isinstance(spec, LSATogether)
    losses, progress = losses_over_training(trace), trace.data["record"].values / recipe.steps
    sums = gradient_deviations(spec.rebuild(task.dim, trace.weights()), task)
    return {
        "loss": losses[-1],
        "late": losses[progress > 0.8].mean(0),
        "earlier": losses[(progress > 0.4) & (progress <= 0.6)].mean(0),
        "floor": np.array([adam_floor(optimizer.lr, optimizer.batch_size or 1, total) for total in sums]),
    }


def rest_of_runs(axis: str, runs: Mapping[Any, Sequence[Trace]], names: Sequence[Any]) -> xr.Dataset:
    """`rest_of` for runs by the value of an axis: variables over (axis, seed, member)."""
    found = [side_by_side(rest_of, traces) for traces in runs.values()]
    dims = (axis, "seed", "member")
    tables = {name: (dims, np.stack([[row[name] for row in rows] for rows in found])) for name in found[0][0]}
    return xr.Dataset(tables, {axis: list(runs), "member": np.array([str(name) for name in names], dtype=object)})


def measured_rest(lab: Lab, runs: dict[float, list[Trace]]) -> xr.Dataset:
    """`rest_of` for the paper's runs, stored: (norm, seed, member)."""
    ids = [trace.run_id for traces in runs.values() for trace in traces]
    return lab.dataset("measured", {"runs": ids, "rest": True}, lambda: rest_of_runs("norm", runs, NAMES))


# --- exact training to convergence


def train_exactly(
    task: LinearRegression, member: LSA, seeds: Sequence[int], guess: np.ndarray | None = None
) -> tuple[Float[np.ndarray, " seed"], LSAGroup]:
    """Adam on the exact loss with falling learning rates, for every seed: final losses, and the models.

    Args:
        guess: w_q, kept fixed (None: as `member` says).
    """
    with small_work():
        models = _stacked(_ends(task, member, seeds, guess))
        return np.asarray(_losses(_form(task), LSATogether((member,)), models.weights()))[:, 0], models


def _ends(task: LinearRegression, member: LSA, seeds: Sequence[int], guess: np.ndarray | None = None) -> list[LSAGroup]:
    """Where exact training of each seed ends."""
    engine = QuadraticEngine(_form(task), ())
    models = [LSATogether((member,)).initial(task, Init(0.1), seed, jnp.float64) for seed in seeds]
    if guess is not None:
        models = [eqx.tree_at(lambda m: m.guess, model, jnp.asarray(guess)[None]) for model in models]
    return descend(engine, models, [(Optimizer("adam", lr), steps) for lr, steps in STAGES])


def _stacked(models: Sequence[LSAGroup]) -> LSAGroup:
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])), *models)


def exact_losses(
    lab: Lab, name: str, axis: str, tasks: Mapping[Any, LinearRegression], members: Sequence[LSA]
) -> xr.DataArray:
    """Losses after exact training of each member on each task, stored: (axis, seed, member)."""

    def compute() -> xr.Dataset:
        jobs = list(product(tasks.values(), members))
        with small_work(), ThreadPoolExecutor(lab.workers) as pool:
            ends = list(pool.map(lambda job: _stacked(_ends(job[0], job[1], lab.seeds)), jobs))
            parts = [ends[i : i + len(members)] for i in range(0, len(ends), len(members))]
            spec = LSATogether(tuple(members))
            found = [
                _losses(_form(task), spec, _together(part)) for task, part in zip(tasks.values(), parts, strict=True)
            ]
        return xr.Dataset({"loss": ((axis, "seed", "member"), np.array(found))}, {axis: list(tasks)})

    parameters = {
        "tasks": [task.to_dict() for task in tasks.values()],
        "members": [member.to_dict() for member in members],
        "stages": STAGES,
        "seeds": lab.num_seeds,
        axis: list(tasks),
    }
    return lab.dataset(name, parameters, compute)["loss"]


def _together(groups: Sequence[LSAGroup]) -> dict[str, np.ndarray]:
    """Weights of groups of one member each as those of one group, with as many heads as the largest: (seed, member, …)."""
    most = max(group.p.shape[2] for group in groups)

    def filled_up(heads: Array | np.ndarray) -> np.ndarray:
        return np.pad(heads, ((0, 0), (0, 0), (0, most - heads.shape[2]), *((0, 0),) * (heads.ndim - 3)))

    parts = [{"p": filled_up(group.p), "q": filled_up(group.q), "guess": group.guess} for group in groups]
    return {name: np.concatenate([part[name] for part in parts], 1) for name in parts[0]}
