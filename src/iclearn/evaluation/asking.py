"""The answers of predictors on the prompts of every shift: all of them on the same ones, a few prompts at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..core.prompt import Prompt, full_prompt
from ..tasks.function_points import Points
from .baselines import Cost


class Turns:
    """Who may run: programs that call LAPACK alone, others beside each other.

    On few cores two programs that solve systems in batches wait for each other's threads forever, and others beside
    one of them wait for most of the time.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0  # −1: one that runs alone

    @contextmanager
    def taken(self, alone: bool) -> Iterator[None]:
        """Wait for a turn, and give it back at the end of the block.

        Args:
            alone: whether nothing else may run meanwhile.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._running == 0 if alone else self._running >= 0)
            self._running += -1 if alone else 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= -1 if alone else 1
                self._changed.notify_all()


TURNS = Turns()
MOST_PROGRAMS = 256
_COMPILED: dict[Any, Any] = {}
TOGETHER = 32  # prompts answered at once: what loops until all have ended wastes little, and it stays in the cache


@dataclass(frozen=True)
class Effort:
    """How much predictors that take long are asked.

    Args:
        exact: every predictor everything.
        slow_prompts: prompts for ``slow`` predictors, and for ``costly`` ones where sequences are longer than those of
            training.
        few: (position) the positions that predictors of both kinds are asked.
    """

    exact: bool
    slow_prompts: int
    few: tuple[int, ...]

    def asked(self, cost: Cost, prompts: int, points: int, usual_points: int) -> tuple[int, tuple[int, ...] | None]:
        """How many prompts and which positions a predictor is asked.

        Args:
            cost: of the predictor.
            prompts: that there are.
            points: of each.
            usual_points: of a prompt of training.

        Returns:
            The number of prompts and the positions (None: all).
        """
        if self.exact or cost == "quick":
            return prompts, None
        longer = points > usual_points
        extra = {points - 1} if longer else set()
        count = min(prompts, self.slow_prompts) if longer or cost == "slow" else prompts
        return count, tuple(sorted({i for i in self.few if i < points} | extra))


def answers(
    model: AbstractModel, points: Points, prompts: int, positions: tuple[int, ...] | None = None, room: int = 0
) -> Float[np.ndarray, "prompt point"]:
    """The answers of a model to the first prompts of a set.

    Args:
        model: reads prompts of this dimension.
        points: the set.
        prompts: how many of it.
        positions: which (None: all; by one pass where the model has one and the points themselves are asked).
        room: points to which sequences are filled up, so that those of several lengths are one program; what comes
            after a position has no part in its answer.

    Returns:
        (prompt, point) in double precision; NaN at positions that were not asked.
    """
    dtype = model_dtype(model)
    count = -(-prompts // TOGETHER) * TOGETHER
    rows = np.minimum(np.arange(count), prompts - 1)  # the last group is filled up
    x, y, asked = (np.asarray(part, dtype)[rows] for part in (points.x, points.y, points.asked()))
    length = x.shape[1]
    if room > length:
        x, y, asked = (part[:, np.arange(room) % length] for part in (x, y, asked))
    if positions is None and points.query is None:
        found = _run(_sequences, model, *_grouped(x, y))[..., :length]
    else:
        where = np.arange(length) if positions is None else np.asarray(positions)
        part = _run(_positions, model, *_grouped(x, y, asked[:, where]), where)
        found = np.full((*part.shape[:-1], length), np.nan)
        found[..., where] = part
    return found.reshape(count, -1)[:prompts]


def model_dtype(model: AbstractModel) -> str:
    """The precision a model computes in: that of its weights; double for algorithms."""
    kinds = {leaf.dtype for leaf in model.weights().values()} if model.axes else set()
    return "float32" if kinds == {np.dtype("float32")} else "float64"


def _run(program: Any, *args: Any) -> Float[np.ndarray, "..."]:
    """Compile a program where that is still to be done, then run it in its turn."""
    dynamic, static = eqx.partition(args, eqx.is_array)
    shapes = tuple((leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(dynamic))
    key = (program, jax.tree.structure(dynamic), jax.tree.structure(static), tuple(jax.tree.leaves(static)), shapes)
    found = _COMPILED.get(key)
    if found is None:
        if len(_COMPILED) >= MOST_PROGRAMS:
            _COMPILED.clear()
        compiled = program.lower(*args).compile()
        found = _COMPILED[key] = compiled, "lapack" in compiled.compiled.as_text()
    compiled, solves = found
    with TURNS.taken(alone=solves):
        return np.asarray(compiled(*args), float)


def _grouped(*arrays: Any) -> list[Any]:
    return [array.reshape(-1, TOGETHER, *array.shape[1:]) for array in arrays]


@eqx.filter_jit
def _sequences(model: AbstractModel, x: Array, y: Array) -> Float[Array, "group prompt point"]:
    return jax.lax.map(lambda group: model.predict_sequences(*group)[..., 0], (x, y))


@eqx.filter_jit
def _positions(
    model: AbstractModel, x: Array, y: Array, asked: Array, where: Int[Array, " position"]
) -> Float[Array, "group prompt position"]:
    """Prompt by prompt: the queries `asked` (group, prompt, position, dim) at the positions `where`."""

    def group(part: tuple[Array, Array, Array]) -> Array:
        x, y, queries = part
        points = Points(x, y, y, {}, query=jnp.zeros_like(x).at[:, where].set(queries))
        return jax.vmap(jax.vmap(model.predict))(points.prompts(where))[..., 0].T

    return jax.lax.map(group, (x, y, asked))


def check_reads(model: AbstractModel, name: str, dim: int, out_dim: int = 1) -> None:
    """Refuse a model that cannot read prompts of this kind, and say why.

    Args:
        model: the model.
        name: its name, for the message.
        dim: dimension of the inputs.
        out_dim: numbers that it answers.
    """
    if model.prompt_type is not Prompt:
        raise IclearnError(f"{name} reads {model.prompt_type.__name__}s and no pairs: it cannot be evaluated here")
    kind = jnp.dtype(model_dtype(model))
    prompt = full_prompt(jnp.zeros((2, dim), kind), jnp.zeros((2, out_dim), kind), jnp.zeros(dim, kind))
    try:
        shape = eqx.filter_eval_shape(lambda m, p: m.predict(p), model, prompt).shape
    except IclearnError:
        raise
    except (TypeError, ValueError) as error:
        reason = str(error).split("\n")[0][:120]
        raise IclearnError(f"{name} cannot read inputs of {dim} dimensions: {reason}") from None
    if shape != (out_dim,):
        raise IclearnError(f"{name} answers {shape[0]} numbers a prompt, and one is asked for")
