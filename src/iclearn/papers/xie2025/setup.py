"""What the figures of xie2025 share: the paper's task and optimizer, exact training, and the theory beside it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from ...core.jax_settings import small_work
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...core.trace import Trace
from ...engines.simulate import simulate
from ...models import LSA, LSATogether
from ...tasks import Covariance, LinearRegression
from ...tasks.gram_moments import GramForm, gram_form
from ...theory.xie2025 import Law
from ..lab import Lab

DIM = CONTEXT = 10
NORMS = (0.0, 1.0, 3.0, 10.0)
HEADS = (1, 2, 5, 10, 11, 20)
STEPS = 5000
YQ = LSA(1, "trainable")
MEMBERS = (YQ, *(LSA(h) for h in HEADS))
NAMES = ("yq", *HEADS)
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


def online_recipe(norm: float, seed: int, members: Sequence[LSA] = MEMBERS, lr: float = 5e-4) -> Recipe:
    """The paper's training: Adam, 2048 fresh prompts a step, 5000 steps, weights from N(0, 0.1²)."""
    return Recipe(
        task=paper_task(norm),
        model=LSATogether(tuple(members)),
        init=Init(0.1),
        optimizer=Optimizer("adam", lr, batch_size=2048),
        steps=STEPS,
        engine="samples",
        seed=seed,
        record=Record(weights=51, candidates=51),
        dtype="float32",
    )


def exact_twin(recipe: Recipe) -> Recipe:
    """The same run on the exact loss: what is left of its distance to the optimum is not gradient noise."""
    optimizer = Optimizer("adam", recipe.optimizer.lr)
    return recipe.replace(
        optimizer=optimizer, engine="population", dtype="float64", record=Record(weights=11, candidates=11)
    )


def online_runs(lab: Lab) -> dict[float, list[Trace]]:
    """The sampled runs of the paper, by ‖w*‖: all models of a run see the same prompts."""
    recipes = [online_recipe(norm, seed) for norm in NORMS for seed in lab.seeds]
    traces = lab.run(recipes)
    count = lab.num_seeds
    return {norm: traces[i * count : (i + 1) * count] for i, norm in enumerate(NORMS)}


def member_losses(trace: Trace, record: int = -1) -> np.ndarray:
    """The exact loss of every member at one record: nothing is sampled, so nothing but the seed varies."""
    weights = {name: weight[None] for name, weight in trace.weights(record).items()}
    return _losses_of(trace, weights)[0]


def losses_over_training(trace: Trace) -> np.ndarray:
    """The exact losses at every record: (record, member)."""
    names = [str(name) for name in trace.data.data_vars if str(name).startswith("weight_")]
    return _losses_of(trace, {name.removeprefix("weight_"): trace.data[name].values for name in names})


def _losses_of(trace: Trace, weights: dict[str, np.ndarray]) -> np.ndarray:
    recipe = trace.recipe
    task, spec = recipe.task, recipe.model
    assert isinstance(task, LinearRegression)
    assert isinstance(spec, LSATogether)
    return group_losses(task, spec, weights)


def group_losses(task: LinearRegression, spec: LSATogether, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Exact losses (record, member) of weights with a leading axis of records."""
    with small_work():
        return np.asarray(_losses(_form(task), spec, {n: jnp.asarray(w, float) for n, w in weights.items()}))


@functools.lru_cache(maxsize=64)
def _form(task: LinearRegression) -> GramForm:
    return gram_form(task, 0, "float64")


@eqx.filter_jit
def _losses(form: GramForm, spec: LSATogether, weights: dict[str, Array]) -> Float[Array, "record member"]:
    def at(record: dict[str, Array]) -> Array:
        tables = spec.rebuild(form.root.shape[0], record).coefficients()
        return jax.vmap(lambda column: form(column[:, None]), in_axes=1)(tables)

    return jax.lax.map(at, weights)


def train_exactly(task: LinearRegression, members: Sequence[LSA], *, seed: int = 0) -> tuple[np.ndarray, Any]:
    """Adam on the exact loss with falling learning rates, until nothing moves: final losses, and the weights."""
    spec = LSATogether(tuple(members))
    weights: dict[str, np.ndarray] | None = None
    for lr, steps in STAGES:
        recipe = Recipe(
            task=task,
            model=spec,
            init=Init(0.1) if weights is None else Init.given(weights),
            optimizer=Optimizer("adam", lr),
            steps=steps,
            seed=seed,
            record=Record(weights=2, candidates=2),
        )
        weights = simulate(recipe, weights=weights).weights()
    assert weights is not None
    return group_losses(task, spec, {name: weight[None] for name, weight in weights.items()})[0], weights


def exact_losses(
    lab: Lab, name: str, axis: str, tasks: dict[float, LinearRegression], members: Sequence[LSA]
) -> xr.DataArray:
    """Losses after exact training on each task, stored: (axis, member)."""

    def compute() -> xr.Dataset:
        with ThreadPoolExecutor(lab.workers) as pool:
            table = np.stack(list(pool.map(lambda task: train_exactly(task, members)[0], tasks.values())))
        return xr.Dataset({"loss": ((axis, "member"), table)}, {axis: list(tasks)})

    parameters = {
        "tasks": [task.to_dict() for task in tasks.values()],
        "members": [member.to_dict() for member in members],
        "stages": STAGES,
        axis: list(tasks),
    }
    return lab.dataset(name, parameters, compute)["loss"]


def standard_error(values: np.ndarray, axis: int = 0) -> np.ndarray:
    return np.std(values, axis=axis, ddof=1) / np.sqrt(np.shape(values)[axis])


def gap_law(norm: float | np.ndarray, dim: int = DIM, context: int = CONTEXT) -> Any:
    """2m²/(Cd+2): what multi-head LSA without a guess loses to one gradient step from w*."""
    return 2 * np.square(norm) / (context * dim + 2)


def measured_losses(lab: Lab, runs: dict[float, list[Trace]]) -> xr.DataArray:
    """Exact losses of the weights each sampled run ended with: (norm, seed, member)."""

    def compute() -> xr.Dataset:
        table = np.stack([[member_losses(trace) for trace in traces] for traces in runs.values()])
        return xr.Dataset(
            {"loss": (("norm", "seed", "member"), table)},
            {"norm": list(runs), "member": np.array([str(name) for name in NAMES], dtype=object)},
        )

    ids = [trace.run_id for traces in runs.values() for trace in traces]
    return lab.dataset("measured", {"runs": ids}, compute)["loss"]
