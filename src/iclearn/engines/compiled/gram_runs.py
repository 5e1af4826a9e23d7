"""Runs of heads on a Gram matrix whose whole steps are made by compiled code, and those of them on the exact loss."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from ...core.forms import as_array
from ...core.model import AbstractModel, GramHeads
from ...tasks.gram_moments import GramForm
from ..base import AbstractEngine
from ..batch.inputs import RunInputs
from ..loop import Chunk, State
from ..optimizers import Hyper
from ..quadratic import QuadraticEngine
from .gram_steps import exact_source
from .modules import load_module
from .row_products import TERMS_AT_ONCE, filled
from .update_rules import MEMORY


def heads_of(model: AbstractModel, hyper: Hyper) -> GramHeads | None:
    """The heads of a run of which compiled code makes whole steps.

    Args:
        model: of the run.
        hyper: its update rule.

    Returns:
        The heads; None for other models, and for rules that are not compiled or have options.
    """
    return model.gram_heads() if hyper.rule in MEMORY and hyper.options is None else None


def exact_form(engine: AbstractEngine, model: AbstractModel, hyper: Hyper) -> GramForm | None:
    """The loss of a run of which `ExactGramRun` makes whole steps.

    Args:
        engine: the training loss.
        model: of the run.
        hyper: its update rule.

    Returns:
        The form; None for other runs.
    """
    if not isinstance(engine, QuadraticEngine) or engine.tests or not isinstance(engine.train, GramForm):
        return None
    return engine.train if heads_of(model, hyper) is not None else None


class GramRun:
    """One run in progress; subclasses say where the loss comes from.

    Its state has the form that the loop in JAX gives it, so a run kept by one can go on in the other. The program gets
    the weights that are trained, flat, and as p, Q and w_q; their derivatives in the same four forms; what the rule
    remembers, its numbers (gradient descent has lr in the derivative), and 1 for each member whose guess is trained;
    room for coefficients (member and dim, pair), their derivatives and heads; the number of the first step, steps from
    one record to the next, losses and records.

    Args:
        run: before its first step, without a leading axis.
    """

    multiple: ClassVar[int] = TERMS_AT_ONCE  # to which coefficients of an entry of the query are filled up

    def __init__(self, run: RunInputs) -> None:
        heads = heads_of(run.model, run.hyper)
        assert heads is not None
        self.rule, self.dtype = run.hyper.rule, str(run.hyper.lr.dtype)
        self._state = State(run.model, run.optimizer, as_array(0))
        self._shapes = [leaf.shape for leaf in self._model_leaves()]
        self._trained = sum(leaf.size for leaf in self._model_leaves())
        self._flat, *weights = self._forms(heads)
        out, *along = self._forms(heads)
        dim, entries = heads.guess.shape[-1], heads.p.shape[-1]
        self._rows, self._pairs = heads.p.shape[0] * dim, filled(1 + entries * (entries + 1) // 2, self.multiple)
        tables = [np.zeros((self._rows, self._pairs), self.dtype) for _ in range(2)]
        room = [np.zeros(shape, self.dtype) for shape in (entries * dim, (entries, entries * dim), entries * dim)]
        self._before = (self._flat, *weights, out, *along)
        self._hyper, self._after = _numbers(run.hyper), (np.asarray(heads.moves, self.dtype), *tables, *room)
        self.load([np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(self._state, eqx.is_array))])

    def _forms(self, heads: GramHeads) -> list[np.ndarray]:
        """Numbers for all weights, which start as theirs: those that are trained, flat, and p, Q and w_q."""
        parts = [np.asarray(part, self.dtype) for part in (heads.p, heads.q, heads.guess)]
        flat = np.concatenate([part.ravel() for part in parts])
        ends = np.cumsum([part.size for part in parts])
        views = [flat[end - part.size : end].reshape(part.shape) for part, end in zip(parts, ends, strict=True)]
        return [flat[: self._trained], *views]

    def _model_leaves(self) -> list[Any]:
        return jax.tree.leaves(eqx.filter(self._state.model, eqx.is_array))

    def load(self, leaves: list[np.ndarray]) -> int:
        """Go on from a state.

        Args:
            leaves: those of `state`.

        Returns:
            The step it is at.
        """
        count = len(self._shapes)
        flat = [np.asarray(leaf, self.dtype).ravel() for leaf in leaves[:-1] if np.ndim(leaf)]
        self._flat[:] = np.concatenate(flat[:count])
        self.memory = np.concatenate([np.zeros(0, self.dtype), *flat[count:]])
        self.step = int(leaves[-1])
        return self.step

    def restart(self, hyper: Hyper) -> None:
        """Begin anew from the weights of now, with an empty memory and other numbers of the same rule.

        Args:
            hyper: the rule.
        """
        assert hyper.rule == self.rule
        self._hyper, self.step = _numbers(hyper), 0
        self.memory[:] = 0

    def advance(self, stop: int, every: int) -> Chunk:
        """Train to a step.

        Args:
            stop: the step to stop at.
            every: steps from one record of the weights to the next.

        Returns:
            What was recorded.
        """
        losses = np.empty(stop - self.step, self.dtype)
        records = np.empty((-(-len(losses) // every), self._trained), self.dtype)
        given = (*self._before, self.memory, self._hyper, *self._after, self.step, every, losses, records)
        self._run_program(given, np.arange(self.step, stop))
        self.step = stop
        names = self._state.model.axes
        weights: dict[str, Any] = dict(zip(names, self._cut(records), strict=True))
        return Chunk(losses, np.zeros((len(losses), 0), self.dtype), weights)

    def _run_program(self, given: tuple[Any, ...], steps: np.ndarray) -> None:
        raise NotImplementedError

    def _cut(self, flat: np.ndarray) -> list[np.ndarray]:
        """Arrays of the shapes of the weights, from entries along the last axis."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes])
        parts = np.split(flat, ends[:-1], axis=-1)
        return [part.reshape(*flat.shape[:-1], *shape) for part, shape in zip(parts, self._shapes, strict=True)]

    @property
    def state(self) -> State:
        """The state after the steps made so far."""
        arrays, rest = eqx.partition(self._state.model, eqx.is_array)
        weights = [as_array(part.copy()) for part in self._cut(self._flat)]
        model = eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), weights), rest)
        slots = [part for slot in self.memory.reshape(-1, self._trained) for part in self._cut(slot.copy())]
        leaves, structure = jax.tree.flatten(self._state.optimizer)
        kept = iter(slots)  # a number without axes says how many updates Adam has made
        made = [as_array(np.asarray(next(kept) if np.ndim(leaf) else self.step, leaf.dtype)) for leaf in leaves]
        return State(model, jax.tree.unflatten(structure, made), as_array(self.step))


def _numbers(hyper: Hyper) -> np.ndarray:
    return np.stack([np.asarray(number) for number in (hyper.lr, hyper.momentum, hyper.weight_decay)])


class ExactGramRun(GramRun):
    """One run on the exact loss of infinitely many prompts.

    Args:
        run: before its first step, with an `exact_form`.
    """

    multiple = 8  # whole vectors

    def __init__(self, run: RunInputs) -> None:
        super().__init__(run)
        form = exact_form(run.engine, run.model, run.hyper)
        assert form is not None
        second, cross, root = (np.asarray(a, self.dtype) for a in (form.moments.second, form.moments.cross, form.root))
        more = self._pairs - len(second)
        white = np.array_equal(root, np.eye(len(root)))
        room = [np.zeros((rows, self._pairs), self.dtype) for rows in (self._rows, len(root))]
        wide = (np.pad(second, (0, more)), np.pad(cross.T, ((0, 0), (0, more))), root[:0] if white else root)
        self._form = (*(np.array(part, order="C") for part in wide), float(form.moments.constant), *room)
        self._program = load_module(exact_source(self.dtype, run.hyper.rule)).advance

    def _run_program(self, given: tuple[Any, ...], steps: np.ndarray) -> None:
        self._program(*given, *self._form)
