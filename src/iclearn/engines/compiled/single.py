"""Single runs by compiled code: the loss of every step, weights at recorded steps, a state that can be kept."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ...core.forms import as_array
from ...core.kept_programs import kept
from ..base import AbstractEngine
from ..batch.inputs import RunInputs
from ..batch.rows import form_numbers, trained_factors, weight_rows
from ..contractions import Sizes
from ..loop import Chunk, State, flow_tolerance
from .loops import loop_numbers
from .machine_code import load_entry
from .programs import flow_source, is_straight, run_source
from .update_rules import MEMORY


class CompiledRun:
    """One run in progress.

    Args:
        run: before its first step, without a leading axis.
        sizes: what its step depends on.

    Its state has the form that the training loop in JAX gives it, so a run kept by one path can go on in the other.
    """

    def __init__(self, run: RunInputs, sizes: Sizes) -> None:
        self.sizes, self.rule, self.dtype = sizes, run.hyper.rule, str(run.hyper.lr.dtype)
        self._state = State(run.model, run.optimizer, as_array(0))
        self._numbers = form_numbers(run.engine.train, run.hyper, sizes, None)  # type: ignore[attr-defined]
        if not is_straight(self.sizes):
            self._numbers = loop_numbers(self._numbers, self.sizes)
        self._hyper = np.stack([np.asarray(a) for a in (run.hyper.lr, run.hyper.momentum, run.hyper.weight_decay)])
        self._places = np.asarray(_places(run.model, run.engine))
        if self.rule == "flow":
            self._flow = load_entry(flow_source(self.sizes, self.dtype))
        else:
            self._advance = load_entry(run_source(self.sizes, self.dtype, self.rule))
        self.load(self._state_leaves())

    def _leaves(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(self._state.model, eqx.is_array))]

    def _state_leaves(self) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(self._state, eqx.is_array))]

    def load(self, leaves: list[np.ndarray]) -> None:
        """Go on from a state.

        Args:
            leaves: those of `state`.
        """
        count = len(self._leaves())
        self._flat = np.concatenate([np.asarray(leaf, self.dtype).ravel() for leaf in leaves[:count]])
        self.step = int(leaves[-1])
        kept = [np.asarray(leaf, self.dtype).ravel() for leaf in leaves[count:-1] if np.ndim(leaf)]
        slots = [np.concatenate(kept[i : i + count])[self._places] for i in range(0, len(kept), count)]
        self.weights = self._flat[self._places]
        self.memory = np.concatenate(slots) if slots else np.zeros(0, self.dtype)
        assert len(self.memory) == MEMORY.get(self.rule, 0) * len(self.weights)

    def advance(self, stop: int, every: int) -> Chunk:
        """Train to a step.

        Args:
            stop: the step.
            every: steps from one record of the weights to the next; a flow records them at each.

        Returns:
            What was recorded.
        """
        count = stop - self.step
        every = 1 if self.rule == "flow" else every
        losses = np.empty(count, self.dtype)
        records = np.empty((-(-count // every), len(self.weights)), self.dtype)
        if self.rule == "flow":
            self._flow(self.weights, self._numbers, 2 * self._hyper[0], flow_tolerance(self.dtype), losses, records)
        else:
            given = (self.weights, self._numbers, self.memory, self._hyper)
            self._advance(*given, self.step, count, every, losses, records)
        self.step = stop
        rows = np.repeat(self._flat[None], len(records), 0)
        rows[:, self._places] = records
        model = self._model(rows)
        return Chunk(losses, np.zeros((count, 0), self.dtype), {name: getattr(model, name) for name in model.axes})

    def _model(self, rows: np.ndarray) -> Any:
        """The model whose weights are these, with the leading axes of `rows`."""
        arrays, rest = eqx.partition(self._state.model, eqx.is_array)
        return eqx.combine(_refilled(arrays, rows), rest)

    @property
    def state(self) -> State:
        """The state after the steps made so far."""
        flat = self._flat.copy()
        flat[self._places] = self.weights
        slots = []
        for part in np.split(self.memory, MEMORY[self.rule]) if len(self.memory) else ():
            slots.append(np.zeros_like(flat))
            slots[-1][self._places] = part
        leaves, structure = jax.tree.flatten(self._state.optimizer)
        memory, made = iter(np.concatenate(slots) if slots else ()), []
        for leaf in leaves:
            counts = np.ndim(leaf) == 0  # how many updates Adam has made
            values = self.step if counts else np.array([next(memory) for _ in range(np.size(leaf))])
            made.append(np.asarray(values, leaf.dtype).reshape(leaf.shape))
        state = State(self._model(flat), jax.tree.unflatten(structure, made), as_array(self.step))
        return jax.tree.map(as_array, state)


def _refilled(tree: Any, rows: np.ndarray) -> Any:
    """The arrays of a tree replaced by consecutive entries along the last axis of `rows`."""
    leaves, structure = jax.tree.flatten(tree)
    ends = np.cumsum([leaf.size for leaf in leaves])
    parts = [
        rows[..., end - leaf.size : end].reshape(*rows.shape[:-1], *leaf.shape)
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    return jax.tree.unflatten(structure, parts)


@kept
def _places(model: Any, engine: AbstractEngine) -> Array:
    """Where each number of `weight_rows` lies among all weights of the model: the rows of numbered weights."""
    arrays, rest = eqx.partition(model, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    starts = np.cumsum([0, *(leaf.size for leaf in leaves)])
    numbered = [
        start + jnp.arange(leaf.size, dtype=float).reshape(leaf.shape)
        for start, leaf in zip(starts[:-1], leaves, strict=True)
    ]
    factors = trained_factors(eqx.combine(jax.tree.unflatten(structure, numbered), rest), engine)
    assert factors is not None
    return jnp.concatenate([row.ravel() for row in weight_rows(factors)]).astype(int)
