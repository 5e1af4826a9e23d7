"""Runs on fresh documents: documents, loss and its gradient by compiled code, the update by the step of the loop.

The documents are those of the loop in JAX, so losses and weights agree with it to single precision, and a checkpoint of
either can be continued by the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ...core.forms import as_array
from ...core.model import AbstractModel
from ...core.prompt import WhiteDocuments
from ...core.recipe import Recipe
from ...core.rng import folded_words, split_words
from ..base import AbstractEngine, stack_losses
from ..batch.inputs import RunInputs, stack_runs
from ..build import Setup
from ..loop import Chunk, State, take_step
from ..samples import FreshEngine
from .batches import each_in_threads
from .document_programs import documents_source
from .modules import load_module
from .switch import choice, draws_here, thread_count

LEAST_STEPS = 200  # below, compiling takes longer
MOST_ROWS = 512  # words of a block


class DocumentSizes(NamedTuple):
    """What runs that are trained together have in common.

    Args:
        dim: dimension of the embeddings.
        words: of the context, and of the query.
        documents: of a step.
        dtype: of everything but the draws.
        labels: whether labels are ``log`` or ``raw``.
        query: whether the query words attend.
    """

    dim: int
    words: int
    documents: int
    dtype: str
    labels: str
    query: bool

    @property
    def block(self) -> int:
        """Documents of a block: a power of two that divides them all, with MOST_ROWS words at most."""
        block = 1
        while self.documents % (2 * block) == 0 and 2 * block * self.words <= MOST_ROWS:
            block *= 2
        return block


def document_sizes(recipe: Recipe, setup: Setup) -> DocumentSizes | None:
    """The sizes of the compiled program of a run on fresh documents.

    Args:
        recipe: the experiment.
        setup: where it starts.

    Returns:
        The sizes; None where the loop in JAX trains it.
    """
    documents, batch = setup.task.white_prompts(), recipe.optimizer.batch_size
    if not isinstance(documents, WhiteDocuments) or not isinstance(setup.engine, FreshEngine):
        return None
    if batch is None or setup.task.tests:
        return None
    reader = setup.model.document_reader()
    short = recipe.steps < LEAST_STEPS and choice() != "require"
    if reader is None or short or recipe.optimizer.rule == "flow":
        return None
    if not draws_here():
        return None
    return DocumentSizes(setup.task.dim, documents.words, batch, recipe.dtype, reader.labels, reader.query)


class _Along(AbstractEngine[AbstractModel]):
    """The inner product of what a model reads with a gradient: its gradient in the weights is that of the loss."""

    vector: Float[Array, " entry"]
    matrix: Float[Array, "dim entry"]

    @property
    def stochastic(self) -> bool:
        return False

    def loss(self, model: AbstractModel, key: Key[Array, ""]) -> Float[Array, ""]:
        reader = model.document_reader()
        assert reader is not None
        return jnp.sum(self.vector * reader.vector) + jnp.sum(self.matrix * reader.matrix)

    def test_losses(self, model: AbstractModel) -> Float[Array, " test_set"]:
        return stack_losses([])

    def minimum(self) -> None:
        return None


def _read(model: AbstractModel) -> tuple[Array, Array]:
    reader = model.document_reader()
    assert reader is not None
    return reader.vector, reader.matrix


@functools.partial(jax.jit, static_argnums=0)
def _updated(structure: Any, leaves: list[Array], hyper: Any, key: Array, vector: Array, matrix: Array) -> Any:
    """The states after a step, and what their models read; leaves and not trees, because Python goes through them."""

    def one(state: State, hyper: Any, key: Array, vector: Array, matrix: Array) -> tuple[State, tuple[Array, Array]]:
        after, _ = take_step(_Along(vector, matrix), hyper.transformation(), state, key)
        return after, _read(after.model)

    after, read = jax.vmap(one)(jax.tree.unflatten(structure, leaves), hyper, key, vector, matrix)
    return jax.tree.leaves(after), read


@functools.partial(jax.jit, static_argnums=0)
def _first_read(structure: Any, leaves: list[Array]) -> tuple[Array, Array]:
    return jax.vmap(_read)(jax.tree.unflatten(structure, leaves).model)


def document_keys(key: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The words of the keys of words and directions of each step.

    Args:
        key: (2) the words of the key of the run.
        steps: (step) numbers of the steps.

    Returns:
        (step, 4) the words of both keys: `split(fold_in(key, step))`.
    """
    return split_words(folded_words(key, steps))


class DocumentRuns:
    """Runs in progress that share a program, in one thread.

    Args:
        inputs: before their first step; runs with the same key follow each other.
        sizes: of their program.
    """

    def __init__(self, inputs: Sequence[RunInputs], sizes: DocumentSizes) -> None:
        stacked = stack_runs(inputs)
        states = State(stacked.model, stacked.optimizer, as_array(np.zeros(len(inputs), np.int64)))
        self._sizes, self._given = sizes, (stacked.hyper, stacked.key)
        self._leaves, self._structure = jax.tree.flatten(states)
        words = [tuple(np.asarray(jax.random.key_data(run.key)).tolist()) for run in inputs]
        first = [i for i in range(len(words)) if i == 0 or words[i] != words[i - 1]]
        self._starts = np.array([*first, len(words)])
        self._keys = [np.array(words[i], np.uint32) for i in first]
        self._radius = np.array([_radius(run) for run in inputs], sizes.dtype)
        self._gradient = load_module(documents_source(sizes.dtype, sizes.query)).gradient
        self._names = tuple(stacked.model.axes)

    def state(self, index: int) -> State:
        """The state of one run.

        Args:
            index: which.

        Returns:
            Its state.
        """
        return jax.tree.unflatten(self._structure, [as_array(np.asarray(leaf)[index]) for leaf in self._leaves])

    def load(self, leaves: list[np.ndarray]) -> int:
        """Go on from a state, of a run that is alone.

        Args:
            leaves: those of `state`.

        Returns:
            The step it is at.
        """
        self._leaves = [as_array(leaf, old.dtype)[None] for leaf, old in zip(leaves, self._leaves, strict=True)]
        return int(self.state(0).step)

    def advance(self, start: int, stop: int, every: int) -> list[Chunk]:
        """Train to a step.

        Args:
            start: the step they are at.
            stop: the step to stop at.
            every: steps from one record of the weights to the next.

        Returns:
            What was recorded of each run.
        """
        count, sizes = len(self._radius), self._sizes
        losses, records = np.empty((stop - start, count), sizes.dtype), []
        leaves, sized = self._leaves, (sizes.documents, sizes.words, sizes.block, sizes.labels == "log")
        vector, matrix = map(np.array, _first_read(self._structure, leaves))
        to_vector, to_matrix = np.empty_like(vector), np.empty_like(matrix)
        keys = np.stack([document_keys(key, np.arange(start, stop)) for key in self._keys], 1)
        for index in range(stop - start):
            if index % every == 0:
                model = jax.tree.unflatten(self._structure, leaves).model
                records.append([np.array(getattr(model, name)) for name in self._names])
            given = (self._radius, self._starts, keys[index], *sized)
            self._gradient(vector, matrix, *given, to_vector, to_matrix, losses[index])
            leaves, read = _updated(self._structure, leaves, *self._given, to_vector, to_matrix)
            np.copyto(vector, read[0])
            np.copyto(matrix, read[1])
        self._leaves = leaves
        paths = [np.stack(parts) for parts in zip(*records, strict=True)]
        tests = np.zeros((stop - start, 0), sizes.dtype)
        named: list[dict[str, Any]] = [
            {name: path[:, run] for name, path in zip(self._names, paths, strict=True)} for run in range(count)
        ]
        return [Chunk(losses[:, run], tests, weights) for run, weights in enumerate(named)]


def _radius(run: RunInputs) -> float:
    engine = run.engine
    assert isinstance(engine, FreshEngine)
    documents = engine.task.unchecked(**engine.parameters).white_prompts()
    assert isinstance(documents, WhiteDocuments)
    return float(documents.scale)


class ThreadedDocuments:
    """Runs in progress that share a program, in threads; neither threads nor other runs change a number.

    Args:
        inputs: before their first step.
        sizes: of their program.
    """

    def __init__(self, inputs: Sequence[RunInputs], sizes: DocumentSizes) -> None:
        same: dict[tuple[int, ...], list[int]] = {}  # runs that read the same documents
        for index, run in enumerate(inputs):
            same.setdefault(tuple(np.asarray(jax.random.key_data(run.key)).tolist()), []).append(index)
        several, groups = min(thread_count(), len(same)), list(same.values())
        self.members = [[i for group in groups[first::several] for i in group] for first in range(several)]
        self.parts = [DocumentRuns([inputs[i] for i in members], sizes) for members in self.members]
        self.places = {i: (p, k) for p, members in enumerate(self.members) for k, i in enumerate(members)}

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        """As `DocumentRuns.advance`, of all runs in their order, with a leading axis."""
        chunks: dict[int, Chunk] = {}

        def work(part: int) -> None:
            found = self.parts[part].advance(start, stop, every)
            chunks.update(zip(self.members[part], found, strict=True))

        each_in_threads(work, range(len(self.parts)))
        return jax.tree.map(lambda *parts: np.stack(parts), *(chunks[index] for index in range(len(chunks))))

    def state(self, index: int) -> State:
        """The state of one run."""
        part, place = self.places[index]
        return self.parts[part].state(place)
