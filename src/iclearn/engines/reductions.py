"""What is kept of a run that is one of a million: a few numbers, computed on the device from its sampled loss curve.

Everything here is a function of the loss at the steps that `sample_steps` names, however the run was trained: alone,
vmapped, or in a Pallas kernel.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..core.crossing import first_below

STATUS_CODES = {"finished": 0, "converged": 1, "diverged": 2}
BLOW_UP = 1e6  # a loss this many times the first one is a divergence, not a fluctuation
CONVERGED = 1e-4  # share of the initial excess over the known minimum that counts as none
NEAR = 0.1  # a curve dwells at a level while it is within this share of the gap to the next one
SLOW = 0.1  # without theory: a slow stretch falls at most this share of the curve's mean speed
SETTLED = 0.02  # what is this close to the end (share of the whole fall) is the floor, and no slow stretch
MOST = 8  # slow stretches that are kept


def sample_steps(steps: int, samples: int) -> Int[np.ndarray, " sample"]:
    """Steps at which the loss of a run is sampled: evenly spaced from 0, and the last step.

    Args:
        steps: of the run.
        samples: how many samples are wanted.

    Returns:
        The steps, at most samples + 1 of them.

    >>> sample_steps(11, 4)
    array([ 0,  3,  6,  9, 10])
    """
    stride = max(1, -(-(steps - 1) // max(1, samples)))
    marks = np.arange(0, steps, stride)
    return marks if marks[-1] == steps - 1 else np.append(marks, steps - 1)


def run_status(
    curve: Float[Array, " sample"], steps: Int[Array, " sample"], minimum: Float[Array, ""]
) -> tuple[Int[Array, ""], Int[Array, ""]]:
    """How a run ended.

    Args:
        curve: (sample) sampled losses.
        steps: (sample) their steps.
        minimum: () the least loss the run could reach (NaN where it is not known).

    Returns:
        The code of how it ended (STATUS_CODES), and the sampled step at which it diverged or the number of its steps.
    """
    bad = ~jnp.isfinite(curve) | (curve > BLOW_UP * jnp.maximum(curve[0], 1e-300))
    at_rest = curve[-1] - minimum <= CONVERGED * jnp.maximum(curve[0] - minimum, 0)  # false where it is not known
    code = jnp.where(bad.any(), 2, jnp.where(at_rest, 1, 0)).astype(jnp.int8)
    return code, jnp.where(bad.any(), steps[jnp.argmax(bad)], steps[-1] + 1)


def crossings(
    curve: Float[Array, " sample"], steps: Int[Array, " sample"], levels: Float[Array, " level"]
) -> Float[Array, " drop"]:
    """When a curve passes from each level to the next.

    Args:
        curve: (sample) sampled losses.
        steps: (sample) their steps.
        levels: (level) heights, decreasing.

    Returns:
        (level − 1) the first step at which the loss is below half way from each level to the next, interpolated; NaN
        where it never is.
    """
    return jax.vmap(lambda height: first_below(curve, steps, height, jnp))((levels[:-1] + levels[1:]) / 2)


def dwells(
    curve: Float[Array, " sample"], steps: Int[Array, " sample"], levels: Float[Array, " level"]
) -> Float[Array, " level"]:
    """How long a curve stays near each level: within NEAR of the gap to its neighbor on that side.

    Args:
        curve: (sample) sampled losses.
        steps: (sample) their steps.
        levels: (level) heights, decreasing.

    Returns:
        (level) numbers of steps.
    """
    gaps = levels[:-1] - levels[1:]
    above = jnp.concatenate([gaps[:1], gaps]) * NEAR
    below = jnp.concatenate([gaps, gaps[-1:]]) * NEAR
    width = jnp.diff(steps, append=steps[-1:] + 1)
    near = (curve[None] <= (levels + above)[:, None]) & (curve[None] >= (levels - below)[:, None])
    return jnp.sum(jnp.where(near, width[None], 0), axis=1).astype(curve.dtype)


def slow_stretches(
    curve: Float[Array, " sample"], steps: Int[Array, " sample"], minimum: Float[Array, ""]
) -> dict[str, Array]:
    """Stretches in which the curve falls at most SLOW times as fast as on average, before it settles.

    They need not be the plateaus that `probes.find_plateaus` finds, which compares a stretch with the drops beside it
    and reads the whole curve.

    Args:
        curve: (sample) sampled losses.
        steps: (sample) their steps.
        minimum: () the least loss the run could reach (NaN where it is not known).

    Returns:
        ``slow_count``, which is NaN where the curve has left nothing: where it does not fall, or by no more than the
        share SETTLED of what it could; and of the first MOST stretches in the order of time ``slow_height``,
        ``slow_start`` and ``slow_steps``, filled up with NaN.
    """
    size = curve.shape[0]
    if size == 1:  # a single step has no stretches
        none = jnp.full(MOST, jnp.nan, curve.dtype)
        return {"slow_count": none[0], "slow_height": none, "slow_start": none, "slow_steps": none}
    lowest = jnp.min(curve)
    fall = jnp.maximum(curve[0] - lowest, jnp.finfo(curve.dtype).tiny)
    could = jnp.where(jnp.isnan(minimum), 0, SETTLED * (curve[0] - minimum))
    left = curve[0] - lowest > jnp.maximum(could, 0)
    settled = curve[1:] <= lowest + SETTLED * fall
    slope = (curve[:-1] - curve[1:]) / jnp.diff(steps)
    slow = (slope <= SLOW * fall / (steps[-1] - steps[0])) & ~settled & left
    begins = slow & ~jnp.concatenate([jnp.zeros(1, bool), slow[:-1]])
    number = jnp.where(slow, jnp.cumsum(begins) - 1, size)  # of the stretch each interval belongs to
    count = jnp.sum(begins)

    def one(index: Array) -> tuple[Array, Array, Array]:
        inside = number == index
        first, last = jnp.argmax(inside), size - 2 - jnp.argmax(inside[::-1])
        here = index < count
        length = jnp.where(here, steps[last + 1] - steps[first], jnp.nan)
        middle = (first + last + 1) // 2
        return jnp.where(here, curve[middle], jnp.nan), jnp.where(here, steps[first], jnp.nan), length

    height, start, length = jax.vmap(one)(jnp.arange(MOST))
    count = jnp.where(left, count, jnp.nan).astype(curve.dtype)
    return {"slow_count": count, "slow_height": height, "slow_start": start, "slow_steps": length}


@jax.jit
def reduce_curves(
    curves: Float[Array, "run sample"],
    steps: Int[Array, " sample"],
    minimum: Float[Array, " run"],
    levels: Float[Array, "run level"] | None = None,
) -> dict[str, Array]:
    """The reductions of every run.

    Args:
        curves: (run, sample) losses at `steps`.
        steps: (sample) the sampled steps.
        minimum: (run) the least loss each run could reach (NaN where it is not known).
        levels: (run, level) heights at which theory expects plateaus, decreasing.

    Returns:
        Name → array with a leading axis of runs: first and final loss, minimum, status, `slow_stretches`, and with
        levels ``crossing_step`` (`crossings`) and ``dwell_steps`` (`dwells`).
    """

    def one(curve: Array, least: Array, heights: Array | None) -> dict[str, Array]:
        code, step = run_status(curve, steps, least)
        found = {"first_loss": curve[0], "final_loss": curve[-1], "minimum": least, "status": code, "status_step": step}
        found |= slow_stretches(curve, steps, least)
        if heights is not None:
            passed, stayed = crossings(curve, steps, heights), dwells(curve, steps, heights)
            found |= {"crossing_step": passed, "dwell_steps": stayed}
        return found

    if levels is None:
        return jax.vmap(lambda c, m: one(c, m, None))(curves, minimum)
    return jax.vmap(one)(curves, minimum, levels)
