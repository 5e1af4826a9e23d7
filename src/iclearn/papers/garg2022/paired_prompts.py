"""Prompts of many shifts from the same draws, and what networks and algorithms answer to them: few and large programs.

Prompts are drawn and algorithms asked on the CPU: their programs are long to compile and short to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...core.jax_settings import small_work
from ...core.model import AbstractModel
from ...tasks.function_class import TEST, FunctionClass
from ...tasks.function_points import Points
from ...tasks.prompt_shifts import OF_QUERIES, Shift

EVALUATION_SEED = 0  # of the prompts: the same for every network


class Row(NamedTuple):
    """One evaluation.

    Args:
        task: the law of the prompts without the shift.
        shift: of them (None: none).
        clean: whether errors are measured to labels without noise.
        draw: 0, 1, …: further evaluations of the same law.
    """

    task: FunctionClass
    shift: Shift | None = None
    clean: bool = False
    draw: int = 0

    @property
    def separate(self) -> bool:
        """Whether the queries are not the points themselves."""
        return self.shift is not None and self.shift.name in OF_QUERIES


class PromptRows(NamedTuple):
    """The prompts of many evaluations, those whose queries are their points first.

    Args:
        x: (row, prompt, point, dim) the inputs.
        y: (row, prompt, point, 1) the labels as shown.
        query: (separate, prompt, point, dim) the queries of the last rows.
        target: (row, prompt, point) what answers are measured to.
    """

    x: np.ndarray
    y: np.ndarray
    query: np.ndarray
    target: np.ndarray

    @property
    def plain(self) -> int:
        """How many rows have their points as queries."""
        return len(self.x) - len(self.query)


def drawn_rows(rows: Sequence[Row], prompts: int) -> PromptRows:
    """All prompts, by one program: what shifts have in common is drawn once.

    Args:
        rows: the evaluations, those with separate queries last.
        prompts: of each.

    Returns:
        The prompts.
    """

    @jax.jit
    def draw(seed: jax.Array) -> list[tuple[jax.Array, ...]]:
        found = []
        for row in rows:
            shift = row.task.shift if row.shift is None else row.shift
            law = row.task.replace(shift=shift, test_prompts=prompts, test_shifts=(), curriculum=None)
            points = law.source(seed + row.draw, "float64", TEST).sequences()
            found.append((points.x, points.y, points.asked(), points.targets(row.clean)[..., 0]))
        return found

    if [row.separate for row in rows] != sorted(row.separate for row in rows):
        raise ValueError("rows with separate queries come last")
    with small_work():
        parts = jax.device_get(draw(jnp.asarray(EVALUATION_SEED)))
    x, y, query, target = (np.stack(part) for part in zip(*parts, strict=True))
    return PromptRows(x, y, query[sum(not row.separate for row in rows) :], target)


def stacked_models(models: Sequence[AbstractModel]) -> Any:
    """Models of one form as one with an axis of models in front of every weight; nothing is compiled for it."""

    def together(*leaves: Any) -> Any:
        return jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])) if eqx.is_array(leaves[0]) else leaves[0]

    return jax.tree.map(together, *models)


@eqx.filter_jit
def _network_answers(models: Any, x: jax.Array, y: jax.Array, query: jax.Array) -> tuple[jax.Array, jax.Array]:
    def all_of(inputs: jax.Array, labels: jax.Array) -> jax.Array:
        answer = eqx.filter_vmap(lambda m: m.predict_sequences(inputs, labels)[..., 0], in_axes=(eqx.if_array(0),))
        return answer(models)  # (network, prompt, point)

    def asked(at: tuple[jax.Array, jax.Array]) -> jax.Array:
        row, place = at
        inputs = x[plain + row].at[:, place].set(query[row, :, place])  # what comes after it is not read
        return all_of(inputs, y[plain + row])[..., place]

    plain, points = x.shape[0] - query.shape[0], x.shape[2]
    own = jax.lax.map(lambda row: all_of(*row), (x[:plain], y[:plain]))  # (row, network, prompt, point)
    if not query.shape[0]:
        return jnp.swapaxes(own, 0, 1), jnp.zeros((own.shape[1], 0, *own.shape[2:]), own.dtype)
    row, place = (jnp.asarray(a.ravel()) for a in np.indices((query.shape[0], points)))
    other = jax.lax.map(asked, (row, place)).reshape(query.shape[0], points, *own.shape[1:3])
    return jnp.swapaxes(own, 0, 1), jnp.transpose(other, (2, 0, 3, 1))


def network_answers(models: Sequence[AbstractModel], rows: PromptRows) -> np.ndarray:
    """Answers of trained networks of one shape, in single precision, all in one program.

    Args:
        models: the networks.
        rows: the prompts.

    Returns:
        (network, row, prompt, point) the answers.
    """
    x, y, query = (jnp.asarray(a.astype(np.float32)) for a in (rows.x, rows.y, rows.query))
    own, other = _network_answers(stacked_models(models), x, y, query)
    return np.concatenate([np.asarray(own, float), np.asarray(other, float)], 1)


@eqx.filter_jit
def _algorithm_answers(models: tuple[AbstractModel, ...], x: jax.Array, y: jax.Array, query: jax.Array) -> jax.Array:
    def one(row: tuple[jax.Array, ...], separate: bool) -> jax.Array:
        points = Points(row[0], row[1], row[1], {}, row[2] if separate else None)
        return jnp.stack([points.answers(model) for model in models])

    plain = x.shape[0] - query.shape[0]
    parts = [jax.lax.map(lambda row: one(row, False), (x[:plain], y[:plain]))] if plain else []
    if query.shape[0]:
        parts.append(jax.lax.map(lambda row: one(row, True), (x[plain:], y[plain:], query)))
    return jnp.swapaxes(jnp.concatenate(parts), 0, 1)


def algorithm_answers(models: Sequence[AbstractModel], rows: PromptRows) -> np.ndarray:
    """Answers of algorithms, in double precision, all in one program on the host.

    Args:
        models: the algorithms.
        rows: the prompts.

    Returns:
        (algorithm, row, prompt, point) the answers.
    """
    with small_work():
        return np.asarray(_algorithm_answers(tuple(models), *(jnp.asarray(a) for a in rows[:3])))


@eqx.filter_jit
def _own_answers(models: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    def one(row: tuple[Any, jax.Array, jax.Array]) -> jax.Array:
        return Points(row[1], row[2], row[2], {}).answers(row[0])

    arrays, rest = eqx.partition(models, eqx.is_array)
    return jax.lax.map(lambda row: one((eqx.combine(row[0], rest), *row[1:])), (arrays, x, y))


def row_answers(models: Sequence[AbstractModel], rows: PromptRows) -> np.ndarray:
    """Answers of algorithms of one form, a different one for every row (Bayes for the law of the row).

    Args:
        models: one for each row.
        rows: the prompts, none with separate queries.

    Returns:
        (row, prompt, point) the answers.
    """
    with small_work():
        return np.asarray(_own_answers(stacked_models(models), jnp.asarray(rows.x), jnp.asarray(rows.y)))


class Spread(NamedTuple):
    """Means over prompts and their standard errors.

    Args:
        mean: over prompts.
        error: its standard error.
    """

    mean: np.ndarray
    error: np.ndarray


def spread(values: np.ndarray) -> Spread:
    """Mean and standard error over the prompts, the axis before the last.

    Args:
        values: (…, prompt, point).

    Returns:
        (…, point) both.
    """
    return Spread(values.mean(-2), values.std(-2, ddof=1) / values.shape[-2] ** 0.5)
