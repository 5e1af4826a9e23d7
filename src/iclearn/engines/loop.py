"""The one training loop: many steps inside one compiled program.

Bounds are traced, so any number of steps, any chunking and any recording interval share one program; that is why the
loop is a `fori_loop` over preallocated buffers (what `scan` itself becomes) and not a `scan` of fixed length.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key

from ..core.forms import as_array, numpy_of
from ..core.kept_programs import kept
from ..core.model import AbstractModel
from .base import AbstractEngine
from .optimizers import Hyper

STEP_SLOTS = 2048  # losses one call can hold
RECORD_SLOTS = 256  # weights one call can hold
RECORD_BYTES = 1 << 24  # fewer of large models, of which these many bytes are held
FLOW_STEPS = 256  # save points of one call of the gradient flow
FLOW_RTOL = 1e-9


class State(eqx.Module):
    """What a run needs to go on, and therefore what a checkpoint holds.

    Args:
        model: the model.
        optimizer: what the update rule remembers.
        step: () how many updates were made.
    """

    model: AbstractModel
    optimizer: Any
    step: Array


class Chunk(eqx.Module):
    """What one call of the loop recorded; only the first stop − start entries count.

    Args:
        loss: (step) the loss before each update.
        test_loss: (step, test_set) the test losses before each update.
        weights: name → (record, …) the weights at the recorded steps.
    """

    loss: Float[Array | np.ndarray, " step"]
    test_loss: Float[Array | np.ndarray, "step test_set"]
    weights: dict[str, Array | np.ndarray]


def record_slots(weight_bytes: int) -> int:
    """How many records of the weights one call of the loop can hold.

    Args:
        weight_bytes: of all weights of a model.

    Returns:
        RECORD_SLOTS, or as many as RECORD_BYTES hold (at least 8).

    >>> record_slots(100), record_slots(1 << 20)
    (256, 16)
    """
    return min(RECORD_SLOTS, max(8, RECORD_BYTES // max(1, weight_bytes)))


def initial_state(model: AbstractModel, hyper: Hyper) -> State:
    """The state before the first update.

    Args:
        model: with its initial weights.
        hyper: the update rule.

    Returns:
        The state.
    """
    # numbers as numpy's: the rules compute with them, and JAX would compile a program for each product
    plain = jax.tree.map(lambda number: numpy_of(number).asarray(number), hyper)
    optimizer = None if hyper.rule == "flow" else plain.transformation().init(eqx.filter(model, eqx.is_array))
    return State(model, optimizer, as_array(0))


def take_step(
    engine: AbstractEngine, transformation: optax.GradientTransformation, now: State, key: Key[Array, ""]
) -> tuple[State, Float[Array, ""]]:
    """One update.

    Args:
        engine: the training loss.
        transformation: the update rule.
        now: the state before it.
        key: of the run; a stochastic engine gets fold_in(key, step).

    Returns:
        The state after it, and () the loss before it.
    """
    step_key = jax.random.fold_in(key, now.step) if engine.stochastic else key
    loss, gradient = eqx.filter_value_and_grad(engine.at_step(now.step).loss)(now.model, step_key)
    updates, optimizer = transformation.update(gradient, now.optimizer, now.model)  # type: ignore[arg-type]
    return State(eqx.apply_updates(now.model, updates), optimizer, now.step + 1), loss


@kept
def advance(
    engine: AbstractEngine, state: State, hyper: Hyper, key: Key[Array, ""], stop: Array, every: Array
) -> tuple[State, Chunk]:
    """Train from ``state.step`` to `stop`, recording the loss before each update and the weights every so many steps.

    Args:
        engine: the training loss.
        state: the state to start from.
        hyper: the update rule.
        key: of the run.
        stop: () the step to stop at, at most STEP_SLOTS steps on.
        every: () steps from one record of the weights to the next; at most `record_slots` records fit.

    Returns:
        The state at `stop`, and what was recorded.
    """
    transformation = hyper.transformation()
    start = state.step
    dtype = hyper.lr.dtype
    num_tests = jax.eval_shape(engine.test_losses, state.model).shape[0]
    slots = record_slots(state.model.weight_bytes())
    empty = Chunk(
        jnp.zeros(STEP_SLOTS, dtype),
        jnp.zeros((STEP_SLOTS, num_tests), dtype),
        {n: jnp.zeros((slots, *w.shape), w.dtype) for n, w in state.model.weights().items()},
    )

    def update(step: Array, carry: tuple[State, Any]) -> tuple[State, Chunk]:
        now, chunk = carry
        after, loss = take_step(engine, transformation, now, key)
        tests = chunk.test_loss
        if num_tests:
            tests = tests.at[step - start].set(engine.test_losses(now.model))
        return after, Chunk(chunk.loss.at[step - start].set(loss), tests, chunk.weights)

    def segment(index: Array, carry: tuple[State, Any]) -> tuple[State, Chunk]:
        now, chunk = carry
        weights = {n: chunk.weights[n].at[index].set(w) for n, w in now.model.weights().items()}
        begin = start + index * every
        carry = (now, Chunk(chunk.loss, chunk.test_loss, weights))
        return jax.lax.fori_loop(begin, jnp.minimum(begin + every, stop), update, carry)

    return jax.lax.fori_loop(0, -((start - stop) // every), segment, (state, empty))


def advance_sampled(
    engine: AbstractEngine, state: State, hyper: Hyper, key: Key[Array, ""], marks: Int[Array, " mark"]
) -> tuple[State, Float[Array, " sample"]]:
    """Train from ``marks[0]`` to ``marks[-1]`` and keep nothing but the loss at all marks but the last.

    Args:
        engine: the training loss.
        state: the state to start from.
        hyper: the update rule.
        key: of the run.
        marks: (mark) steps, increasing.

    Returns:
        The state at the last mark, and (mark − 1) the losses.
    """
    transformation = hyper.transformation()

    def between(_: Array, now: State) -> State:
        return take_step(engine, transformation, now, key)[0]

    def segment(now: State, span: tuple[Array, Array]) -> tuple[State, Float[Array, ""]]:
        begin, end = span
        now, loss = take_step(engine, transformation, now, key)
        return jax.lax.fori_loop(begin + 1, end, between, now), loss

    return jax.lax.scan(segment, state, (marks[:-1], marks[1:]))


def flow_tolerance(dtype: Any) -> float:
    """The relative error that a step of a gradient flow may make.

    Args:
        dtype: the precision.

    Returns:
        FLOW_RTOL, or what single precision can meet.

    >>> flow_tolerance("float64")
    1e-09
    """
    return max(FLOW_RTOL, 16 * float(np.finfo(dtype).eps))


@eqx.filter_jit
def advance_flow(engine: AbstractEngine, state: State, hyper: Hyper, key: Key[Array, ""]) -> tuple[State, Chunk]:
    """FLOW_STEPS steps of gradient flow, τẆ = −½ ∂L/∂W, read at t/τ = 2·lr·step where gradient descent would be.

    Every call integrates anew from its first point, so a resumed run repeats the same numbers.

    Args:
        engine: the training loss.
        state: the state to start from.
        hyper: gives the learning rate, which is half the time between two steps.
        key: of the run.

    Returns:
        The state FLOW_STEPS steps on, and what was recorded: weights at every step and at the end.
    """
    import diffrax  # a second of import time that only flows need

    arrays, rest = eqx.partition(state.model, eqx.is_array)
    flat, unraveled = ravel_pytree(arrays)  # one array: the solver goes through all of them at every stage

    def model_of(y: Array) -> AbstractModel:
        return eqx.combine(unraveled(y), rest)

    def field(t: Any, y: Array, args: None) -> Array:
        return -0.5 * jax.grad(lambda a: engine.loss(model_of(a), key))(y)

    interval = 2 * hyper.lr
    times = interval * jnp.arange(FLOW_STEPS + 1, dtype=hyper.lr.dtype)
    rtol = flow_tolerance(times.dtype)
    atol = jnp.maximum(rtol * jnp.max(jnp.abs(flat)), jnp.finfo(flat.dtype).tiny)  # above 0: weights of 0 do not move
    control = diffrax.PIDController(rtol=rtol, atol=atol)
    path: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Dopri8(), t0=times[0], t1=times[-1], dt0=interval, y0=flat,
        saveat=diffrax.SaveAt(ts=times), stepsize_controller=control, max_steps=1_000_000, throw=False,
    ).ys  # fmt: skip
    loss = jax.vmap(lambda y: engine.loss(model_of(y), key))(path)
    tests = jax.vmap(lambda y: engine.test_losses(model_of(y)))(path)
    weights = eqx.combine(jax.vmap(unraveled)(path), rest).weights()
    final = model_of(path[-1])
    return State(final, None, state.step + FLOW_STEPS), Chunk(loss[:-1], tests[:-1], weights)
