"""What the host loop drives: one run or several side by side, by the loop in JAX or by compiled code."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ..core.forms import as_array
from ..core.recipe import Recipe
from .batch.inputs import RunInputs, run_inputs, stack_runs
from .build import Setup
from .compiled.choose import run_sizes
from .compiled.document_runs import DocumentSizes, ThreadedDocuments, document_sizes
from .compiled.fresh_prompts import PromptSizes
from .compiled.sampled import SampledRun, prompt_sizes
from .compiled.switch import path_name
from .contractions import Sizes
from .finish import Log
from .loop import FLOW_STEPS, RECORD_BYTES, RECORD_SLOTS, STEP_SLOTS, Chunk, State, advance, advance_flow, record_slots
from .tried_kernels import TUNED_PATH, is_tuned, tuned


class Runs:
    """Runs that are trained together, from one look of the host loop to the next.

    Args:
        count: how many there are.
    """

    path = "xla"  # which code makes the numbers
    step_slots, record_slots = STEP_SLOTS, RECORD_SLOTS  # losses and weights that one call can hold

    def __init__(self, count: int) -> None:
        self.logs = [Log() for _ in range(count)]
        self.bad_steps: list[int | None] = [None] * count

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        """Train all runs to a step.

        Args:
            start: the step they are at.
            stop: the step to stop at.
            every: steps from one record of the weights to the next.

        Returns:
            What was recorded, with a leading axis of runs.
        """
        raise NotImplementedError

    def final_state(self, index: int) -> State:
        """The state of one run after the last call of `advance`."""
        raise NotImplementedError


class KeptRun(Runs):
    """One run whose state can be kept and restored."""

    spent = 0.0  # seconds before a resume

    def load(self, saved: dict[str, np.ndarray]) -> int:
        """Go on from what `freeze` gave.

        Args:
            saved: the arrays.

        Returns:
            The step it is at.
        """
        leaves = [saved[f"state_{i}"] for i in range(sum(name.startswith("state_") for name in saved))]
        self.logs, self.spent = [Log.of(saved)], float(saved["seconds"])
        return self._restore(leaves)

    def freeze(self, seconds: float) -> dict[str, np.ndarray]:
        """What a checkpoint holds.

        Args:
            seconds: time this run has taken since it was started or loaded.

        Returns:
            Name → array.
        """
        leaves = jax.tree.leaves(eqx.filter(self.final_state(0), eqx.is_array_like))
        state = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(leaves)}
        return {**self.logs[0].joined(), **state, "seconds": np.asarray(self.spent + seconds)}

    def at_rest(self, step: int) -> bool:
        """Whether a further step would change no weight at all; to be asked last, for it takes that step.

        Args:
            step: the step the run is at.
        """
        before = {name: np.array(weight) for name, weight in self.final_state(0).model.weights().items()}
        self.advance(step, step + 1, 1)
        after = self.final_state(0).model.weights()
        return all(np.array_equal(before[name], np.asarray(after[name])) for name in before)

    def _restore(self, leaves: list[np.ndarray]) -> int:
        raise NotImplementedError


class OneRun(KeptRun):
    """One run by the loop in JAX.

    Args:
        run: before its first step.
    """

    def __init__(self, run: RunInputs) -> None:
        super().__init__(1)
        self.run = run
        self.record_slots = record_slots(run.model.weight_bytes())
        self.tuned = is_tuned(run.model)
        self.path = TUNED_PATH if self.tuned else self.path
        self.state = State(run.model, run.optimizer, as_array(0))

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        given = (self.run.engine, self.state, self.run.hyper, self.run.key)
        if self.run.hyper.rule == "flow":
            self.state, chunk = advance_flow(*given)
            if stop - start < FLOW_STEPS:  # the last call went beyond the last step
                ends = [as_array(path[stop - start]) for path in chunk.weights.values()]
                self.state = eqx.tree_at(lambda s: [getattr(s.model, n) for n in chunk.weights], self.state, ends)
        else:
            program: Any = tuned(advance.wrapped) if self.tuned else advance  # type: ignore[attr-defined]
            self.state, chunk = program(*given, as_array(stop), as_array(every))
            chunk = _filled(chunk, 0, -(-(stop - start) // every))
        return jax.tree.map(lambda a: np.asarray(a)[None], chunk)

    def final_state(self, index: int) -> State:
        return self.state

    def _restore(self, leaves: list[np.ndarray]) -> int:
        arrays, rest = eqx.partition(self.state, eqx.is_array)
        now, structure = jax.tree.flatten(arrays)
        loaded = [as_array(leaf, old.dtype) for leaf, old in zip(leaves, now, strict=True)]
        self.state = eqx.combine(jax.tree.unflatten(structure, loaded), rest)
        return int(self.state.step)


class ManyRuns(Runs):
    """Runs that share a program, vmapped. The step number is the same for all, so the loop stays one loop.

    Args:
        inputs: before their first step.
    """

    def __init__(self, inputs: Sequence[RunInputs]) -> None:
        super().__init__(len(inputs))
        self.record_slots = record_slots(inputs[0].model.weight_bytes())
        self.tuned = is_tuned(inputs[0].model)
        self.path = TUNED_PATH if self.tuned else self.path
        self.inputs = stack_runs(inputs)
        self.states: State | None = None
        self._ended: State | None = None

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        program: Any = tuned(advanced_together) if self.tuned else advance_many
        states, chunk = program(self.inputs, as_array(start), as_array(stop), as_array(every))
        self.states, self._ended = states, None
        moved = (states.model, states.optimizer)
        self.inputs = eqx.tree_at(lambda s: (s.model, s.optimizer), self.inputs, moved, is_leaf=lambda x: x is None)
        return jax.tree.map(np.asarray, _filled(chunk, 1, -(-(stop - start) // every)))

    def final_state(self, index: int) -> State:
        if self._ended is None:  # all runs are fetched at once
            self._ended = jax.tree.map(np.asarray, self.states)
        return jax.tree.map(lambda a: as_array(a[index]), self._ended)


def _filled(chunk: Chunk, axis: int, records: int) -> Chunk:
    """The chunk with fewer of the records it has room for and does not hold, where they are much to carry about."""
    if sum(path.nbytes for path in chunk.weights.values()) <= RECORD_BYTES:
        return chunk
    room = next(iter(chunk.weights.values())).shape[axis]
    kept = min(room, 1 << (records - 1).bit_length())  # a power of two, so that programs are few
    return eqx.tree_at(lambda c: c.weights, chunk, _first_records(chunk.weights, axis, kept))


@functools.partial(jax.jit, static_argnums=(1, 2))  # one program for all weights
def _first_records(weights: dict[str, Any], axis: int, records: int) -> dict[str, Any]:
    return jax.tree.map(lambda path: jax.lax.slice_in_dim(path, 0, records, axis=axis), weights)


def advanced_together(inputs: RunInputs, step: Any, stop: Any, every: Any) -> tuple[State, Chunk]:
    """`loop.advance` of runs that share a program, vmapped.

    Args:
        inputs: the runs, with a leading axis.
        step: () the step they are at.
        stop: () the step to stop at.
        every: () steps from one record of the weights to the next.

    Returns:
        Their states and what was recorded, with a leading axis.
    """

    def one(run: RunInputs) -> tuple[State, Chunk]:
        return advance(run.engine, State(run.model, run.optimizer, step), run.hyper, run.key, stop, every)

    return jax.vmap(one)(inputs)


advance_many = eqx.filter_jit(advanced_together)


class CompiledRuns(KeptRun):
    """One run or several by compiled code, in threads.

    Args:
        inputs: before their first step.
        sizes: what their step depends on.
    """

    step_slots, record_slots = 1 << 18, 1 << 12

    def __init__(self, inputs: Sequence[RunInputs], sizes: Sizes) -> None:
        from .compiled.single import CompiledRun

        super().__init__(len(inputs))
        self.path = path_name()
        self.runs = [CompiledRun(run, sizes) for run in inputs]

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        from .compiled.batches import each_in_threads

        chunks: list[Chunk | None] = [None] * len(self.runs)

        def work(index: int) -> None:
            chunks[index] = self.runs[index].advance(stop, every)

        each_in_threads(work, range(len(self.runs)))
        return jax.tree.map(lambda *parts: np.stack(parts), *chunks)

    def final_state(self, index: int) -> State:
        return self.runs[index].state

    def _restore(self, leaves: list[np.ndarray]) -> int:
        self.runs[0].load(leaves)
        return self.runs[0].step


class SampledRuns(KeptRun):
    """One run on fresh prompts by compiled code.

    Args:
        run: before its first step.
        setup: where it starts.
        sizes: of its program.
        batch: prompts of a step.
    """

    step_slots, record_slots = 1 << 14, 1 << 12

    def __init__(self, run: RunInputs, setup: Setup, sizes: PromptSizes, batch: int) -> None:
        super().__init__(1)
        self.path = path_name("numba")
        self.sizes, self.run = sizes, SampledRun(run, setup, sizes, batch)

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        return jax.tree.map(lambda a: a[None], self.run.advance(stop, every))

    def final_state(self, index: int) -> State:
        return self.run.state

    def _restore(self, leaves: list[np.ndarray]) -> int:
        return self.run.load(leaves)


class FreshDocuments(KeptRun):
    """One run or several on fresh documents by compiled code, in threads.

    Args:
        inputs: before their first step.
        sizes: of their program.
    """

    step_slots, record_slots = 1 << 14, 1 << 10

    def __init__(self, inputs: Sequence[RunInputs], sizes: DocumentSizes) -> None:
        super().__init__(len(inputs))
        self.path, self.runs = path_name("numba"), ThreadedDocuments(inputs, sizes)

    def advance(self, start: int, stop: int, every: int) -> Chunk:
        return self.runs.advance(start, stop, every)

    def final_state(self, index: int) -> State:
        return self.runs.state(index)

    def _restore(self, leaves: list[np.ndarray]) -> int:
        return self.runs.parts[0].load(leaves)


def one_run(recipe: Recipe, setup: Setup) -> KeptRun:
    """What trains one recipe: compiled code where there is some, else the loop in JAX.

    Args:
        recipe: the experiment.
        setup: where it starts.

    Returns:
        The run, before its first step.
    """
    run = run_inputs(recipe, setup.model, setup.engine)
    prompts = prompt_sizes(recipe, setup)
    if prompts is not None:
        return SampledRuns(run, setup, prompts, recipe.optimizer.batch_size or 0)
    documents = document_sizes(recipe, setup)
    if documents is not None:
        return FreshDocuments([run], documents)
    sizes = run_sizes(recipe, setup)
    return OneRun(run) if sizes is None else CompiledRuns([run], sizes)


def many_runs(recipe: Recipe, setup: Setup, inputs: Sequence[RunInputs]) -> Runs:
    """As `one_run`, for runs that share a program.

    Args:
        recipe: of one of them.
        setup: of the same.
        inputs: of all of them.

    Returns:
        The runs, before their first step.
    """
    documents = document_sizes(recipe, setup)
    if documents is not None:
        return FreshDocuments(inputs, documents)
    sizes = run_sizes(recipe, setup)
    return ManyRuns(inputs) if sizes is None else CompiledRuns(inputs, sizes)
