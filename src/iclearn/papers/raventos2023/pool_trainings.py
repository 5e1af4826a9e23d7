"""Transformers trained on pools of tasks, and measured against ridge regression and dMMSE while they train.

Models are measured as soon as they are trained and their weights are not kept: a table for each length and seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...core import interrupts
from ...core.model import AbstractModel
from ...core.status import Status
from ...core.trace import Trace
from ...engines.simulate import simulate_many
from ...models.predictors import DiscreteMMSE, Ridge
from ...probes import interpolated_tasks, joint_pca, prediction_distance
from ..lab import Lab, on_accelerator
from .setup import NOISE, Length, Options, Preset, recipe_of, task_of

TESTS, REFERENCES = ("pool", "new"), ("truth", "ridge", "dmmse")
BETWEEN = ("ridge-truth", "dmmse-truth", "dmmse-ridge")
PATH_MEASURES = ("transformer-truth", "ridge-truth", "dmmse-truth", "transformer-ridge", "transformer-dmmse")
PLACES = tuple(np.linspace(0, 1, 11).round(2).tolist())
COMPONENTS = 4
AT_ONCE = 512  # sequences that dMMSE answers together


class AnsweredSet(NamedTuple):
    """Sequences, and what the reference predictors answer to every prefix.

    Args:
        x: (sequence, token, dim) the inputs.
        y: (sequence, token, 1) the labels with noise.
        answers: (reference, sequence, token) labels without noise, ridge, dMMSE.
    """

    x: jax.Array
    y: jax.Array
    answers: jax.Array


@eqx.filter_jit
def every_answer(model: AbstractModel, x: jax.Array, y: jax.Array) -> jax.Array:
    """Answers of a predictor without weights to every prefix, some sequences at a time.

    Args:
        model: the predictor.
        x: (sequence, token, dim) the inputs.
        y: (sequence, token, 1) the labels.

    Returns:
        (sequence, token) the answers.
    """
    return jax.lax.map(lambda s: model.predict_prefixes(*s), (x, y), batch_size=min(AT_ONCE, len(x)))[..., 0]


def with_references(x: jax.Array, y: jax.Array, truth: jax.Array, tasks: jax.Array) -> AnsweredSet:
    """Sequences with the answers of ridge and of dMMSE for a pool."""
    answers = [truth[..., 0], every_answer(Ridge(NOISE), x, y), every_answer(DiscreteMMSE(tasks, NOISE), x, y)]
    return AnsweredSet(x, y, jnp.stack(answers))


def answered_set(preset: Preset, num_tasks: int, seed: int, which: str) -> AnsweredSet:
    """The sequences of ``pool`` or ``new``; those of ``new`` are the same for every pool of a seed."""
    task = task_of(preset, num_tasks, preset.sequences)
    drawn = task.source(seed, "float64", which).sequences()
    return with_references(drawn.x, drawn.y, drawn.truth, task.pool(seed))


def first_task(preset: Preset, num_tasks: int, seed: int) -> AnsweredSet:
    """Sequences of the first task, which is in every pool, with dMMSE for a pool."""
    drawn = task_of(preset, 1, preset.first).source(seed, "float64", "pool").sequences()
    return with_references(drawn.x, drawn.y, drawn.truth, task_of(preset, num_tasks).pool(seed))


def path_set(preset: Preset, num_tasks: int, seed: int) -> AnsweredSet:
    """Sequences of tasks between tasks of a pool, place by place; inputs and noise are the same at every place."""
    task = task_of(preset, num_tasks, preset.pairs * preset.each)
    drawn, tasks = task.source(seed, "float64", "new").sequences(), np.asarray(task.pool(seed))
    ends = tasks[: 2 * preset.pairs].reshape(preset.pairs, 2, -1)
    between = np.repeat(interpolated_tasks(ends[:, 0], ends[:, 1], PLACES), preset.each, 0)
    truth = jnp.einsum("std,sad->ast", drawn.x, between).reshape(-1, preset.points, 1)
    x = jnp.tile(drawn.x, (len(PLACES), 1, 1))
    noise = jnp.tile(drawn.y - drawn.truth, (len(PLACES), 1, 1))
    return with_references(x, truth + noise, truth, jnp.asarray(tasks))


@eqx.filter_jit
def _answers(model: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    return model.predict_sequences(x, y)[..., 0]


def answers_of(model: Any, test: AnsweredSet) -> np.ndarray:
    """(sequence, token) the answers of a trained model, which works in single precision."""
    return np.asarray(_answers(model, test.x.astype(jnp.float32), test.y.astype(jnp.float32)), np.float64)


def rows_of(answers: np.ndarray, test: AnsweredSet) -> np.ndarray:
    """(reference, sequence) squared differences over dim, their mean over prefixes."""
    return ((answers - np.asarray(test.answers)) ** 2).mean(-1) / test.x.shape[-1]


def records_of(trace: Trace) -> list[Any]:
    """The model at every recorded step after the start; none of a run that diverged."""
    if trace.status is Status.DIVERGED:
        return []
    paths, recipe = trace.weight_paths(), trace.recipe
    wanted = np.flatnonzero(trace.data["record"].values > 0)
    return [recipe.model.rebuild(recipe.task.dim, {n: path[i] for n, path in paths.items()}) for i in wanted]


def measured(models: list[Any], num_tasks: int, seed: int, preset: Preset, length: Length) -> dict[str, np.ndarray]:
    """One transformer measured at the records of its training.

    Args:
        models: the model at every record (none: NaN, a run that diverged).
        num_tasks: of its pool.
        seed: of its pool and of the test sequences.
        preset: the sizes.
        length: ``short`` or ``long``; only long runs are asked about the first task and about paths.

    Returns:
        ``delta`` and ``error`` (record, test, reference): Δ to the reference and its standard error; ``between``
        (test, pair): Δ between references; ``cross`` and ``cross_error`` (test): by how much the transformer's error
        differs from that of the best predictor plus Δ to it, at the last record; for long runs ``first`` (record, feature),
        ``first_ridge`` and ``first_dmmse`` (feature), and ``path`` (place, measure).
    """
    count = preset.of(length).records
    sets = [answered_set(preset, num_tasks, seed, which) for which in TESTS]
    rows = np.full((count, len(TESTS), len(REFERENCES), preset.sequences), np.nan)
    for i, model in enumerate(models):
        rows[i] = [rows_of(answers_of(model, test), test) for test in sets]
    bases = np.stack([_between(test) for test in sets])  # (test, pair, sequence)
    # the posterior mean on the pool is dMMSE and on new tasks ridge: error of f = its error + Δ(f, it)
    ends, best = rows[-1], (2, 1)
    gap = np.stack([ends[t, 0] - ends[t, best[t]] - bases[t, best[t] - 1] for t in range(len(TESTS))])
    found = {
        "delta": rows.mean(-1), "error": rows.std(-1, ddof=1) / preset.sequences**0.5,
        "between": bases.mean(-1), "cross": gap.mean(-1), "cross_error": gap.std(-1, ddof=1) / preset.sequences**0.5,
    }  # fmt: skip
    return found | (_of_long(models, preset, num_tasks, seed) if length == "long" else {})


def _between(test: AnsweredSet) -> np.ndarray:
    truth, ridge, dmmse = np.asarray(test.answers)
    return np.stack(
        [((a - b) ** 2).mean(-1) / test.x.shape[-1] for a, b in ((ridge, truth), (dmmse, truth), (dmmse, ridge))]
    )


def _of_long(models: list[Any], preset: Preset, num_tasks: int, seed: int) -> dict[str, np.ndarray]:
    test = first_task(preset, num_tasks, seed)
    flat = np.asarray(test.answers).reshape(len(REFERENCES), -1)
    first = np.full((preset.long.records, flat.shape[1]), np.nan)
    for i, model in enumerate(models):
        first[i] = answers_of(model, test).ravel()
    path = np.full((len(PLACES), len(PATH_MEASURES)), np.nan)
    if models and num_tasks in preset.roles.paths:
        path = _path(models[-1], path_set(preset, num_tasks, seed))
    return {"first": first, "first_ridge": flat[1], "first_dmmse": flat[2], "path": path}


def _path(model: Any, test: AnsweredSet) -> np.ndarray:
    dim, (truth, ridge, dmmse) = test.x.shape[-1], np.asarray(test.answers)
    own = answers_of(model, test)
    pairs = ((own, truth), (ridge, truth), (dmmse, truth), (own, ridge), (own, dmmse))
    parts = [[p.reshape(len(PLACES), -1, p.shape[-1]) for p in pair] for pair in pairs]
    return np.array([[prediction_distance(a[i], b[i], dim).mean for a, b in parts] for i in range(len(PLACES))])


def train_and_measure(preset: Preset, length: Length, seeds: Sequence[int]) -> list[xr.Dataset]:
    """Train a transformer on every pool of every seed, side by side, and measure each.

    Args:
        preset: the sizes.
        length: ``short`` or ``long``.
        seeds: of pools, initial weights, training and test sequences.

    Returns:
        For each seed what `measured` gives, over ``pool``, ``record``, ``test`` and ``reference``; for long runs the joint PCA too.
    """
    runs = [(seed, pool) for seed in seeds for pool in preset.of(length).pools]
    found: dict[tuple[int, int], dict[str, np.ndarray]] = {}

    def keep(index: int, trace: Trace) -> None:
        seed, pool = runs[index]
        found[seed, pool] = measured(records_of(trace), pool, seed, preset, length)
        interrupts.check()

    simulate_many([recipe_of(preset, length, pool, seed) for seed, pool in runs], finished=keep)
    return [as_table([found[seed, pool] for pool in preset.of(length).pools], preset, length) for seed in seeds]


def as_table(found: list[dict[str, np.ndarray]], preset: Preset, length: Length) -> xr.Dataset:
    """The measures of all pools of one seed as a dataset."""
    trainings = preset.of(length)
    many = {name: np.stack([one[name] for one in found]) for name in found[0]}
    over = ("pool", "record", "test", "reference")
    steps = trainings.steps * np.arange(1, trainings.records + 1) // trainings.records
    variables: dict[str, Any] = {
        "delta": (over, many["delta"]), "error": (over, many["error"]),
        "between": (("pool", "test", "pair"), many["between"]),
        "cross": (("pool", "test"), many["cross"]), "cross_error": (("pool", "test"), many["cross_error"]),
    }  # fmt: skip
    labels: dict[str, Any] = {
        "pool": list(trainings.pools), "record": steps, "test": list(TESTS), "reference": list(REFERENCES), "pair": list(BETWEEN),
    }  # fmt: skip
    if length == "long":
        variables |= _components(many) | {"path": (("pool", "place", "measure"), many["path"])}
        labels |= {"component": np.arange(1, COMPONENTS + 1), "place": list(PLACES), "measure": list(PATH_MEASURES)}
    return xr.Dataset(variables, labels)


def _components(many: dict[str, np.ndarray]) -> dict[str, Any]:
    """The joint PCA of all runs that did not diverge, and where ridge and the dMMSE of every pool are in it."""
    runs, there = many["first"], np.isfinite(many["first"]).all((1, 2))
    scores = np.full((*runs.shape[:2], COMPONENTS), np.nan)
    ridge, dmmse = np.full(COMPONENTS, np.nan), np.full((len(runs), COMPONENTS), np.nan)
    share = np.full(COMPONENTS, np.nan)
    if there.any():
        found = joint_pca(list(runs[there]), COMPONENTS)
        scores[there], share = np.stack(found.scores), found.share
        ridge, dmmse = found.project(many["first_ridge"][0]), found.project(many["first_dmmse"])
    return {
        "score": (("pool", "record", "component"), scores), "ridge_score": ("component", ridge),
        "dmmse_score": (("pool", "component"), dmmse), "share": ("component", share),
    }  # fmt: skip


def trained(lab: Lab, length: Length) -> xr.Dataset:
    """The table of a length over all seeds, stored seed by seed.

    Args:
        lab: where it is stored; its options name the preset.
        length: ``short`` or ``long``.

    Returns:
        The table, with an axis ``seed``.
    """
    options = lab.options if isinstance(lab.options, Options) else Options()
    preset = options.sizes
    sizes = {name: getattr(preset, name) for name in ("sequences", "first", "pairs", "each")}
    name, made = f"pools-{length}", dict[int, xr.Dataset]()

    def told(seed: int) -> dict[str, Any]:
        hashes = [recipe_of(preset, length, k, seed).hash for k in preset.of(length).pools]
        return {"recipes": hashes, "paths": list(preset.roles.paths), "version": 1, **sizes}

    def make(seed: int) -> xr.Dataset:
        if seed not in made:  # a GPU has room for all seeds at once
            others = [s for s in lab.seeds if s > seed and on_accelerator() and not lab.is_stored(name, told(s))]
            made.update(zip([seed, *others], train_and_measure(preset, length, [seed, *others]), strict=True))
        return made[seed]

    with lab.only_once(f"{name} of {preset}"):
        return over_seeds([lab.dataset(name, told(seed), lambda s=seed: make(s)) for seed in lab.seeds])


def over_seeds(tables: Sequence[xr.Dataset]) -> xr.Dataset:
    """Tables of seeds 0, 1, 2, … as one with an axis ``seed``."""
    found: Any = xr.concat(tables, "seed", combine_attrs="drop")
    return found.assign_coords(seed=np.arange(len(tables)))
