"""The unrolled training step in a Pallas (Triton) kernel: one run per thread, all its weights in registers.

A launch trains a block of runs from beginning to end; memory is touched once per sampled loss. The expressions are
those of `unrolled.unrolled_step`, generated for any small number of dimensions, heads and rank.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .rows import Unrolled
from .unrolled import unrolled_step

BLOCK = 128  # runs of a program: one per thread


def available() -> bool:
    """Whether the default device takes Triton kernels."""
    return jax.default_backend() == "gpu"


@eqx.filter_jit
def train_pallas(
    written: Unrolled, lengths: Int[Array, " sample"], *, interpret: bool = False, block: int = BLOCK
) -> tuple[Float[Array, "sample run"], Float[Array, "weight run"]]:
    """As `unrolled.train_unrolled`, in one kernel.

    Args:
        written: the runs.
        lengths: (sample) steps from each sampled one to the next.
        interpret: run the kernel without a GPU, slowly, for tests.
        block: runs of a program.

    Returns:
        (sample, run) the losses, and (weight, run) the final weights.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_weights, runs = written.weights.shape
    num_numbers = written.numbers.shape[0]
    samples = lengths.shape[0]
    padded = -(-runs // block) * block
    fill = ((0, 0), (0, padded - runs))
    weights, numbers = (jnp.pad(a, fill, mode="edge") for a in (written.weights, written.numbers))
    keep_numbers = not written.sizes.full  # moments are too many for registers: read again, from the cache

    def kernel(lengths_ref: Any, weights_ref: Any, numbers_ref: Any, curve_ref: Any, final_ref: Any) -> None:
        held = [numbers_ref[i, :] for i in range(num_numbers)] if keep_numbers else None
        step, loss = unrolled_step(written.sizes, lambda i: numbers_ref[i, :] if held is None else held[i])

        def segment(index: Array, now: tuple[Array, ...]) -> tuple[Array, ...]:
            curve_ref[index, :] = loss(now)
            return jax.lax.fori_loop(0, lengths_ref[index], lambda _, w: step(w), now)

        start = tuple(weights_ref[i, :] for i in range(num_weights))
        for i, row in enumerate(jax.lax.fori_loop(0, samples, segment, start)):
            final_ref[i, :] = row

    def columns(rows: int) -> Any:
        return pl.BlockSpec((rows, block), lambda i: (0, i))

    curve, final = pl.pallas_call(
        kernel,
        out_shape=tuple(jax.ShapeDtypeStruct((rows, padded), weights.dtype) for rows in (samples, num_weights)),
        grid=(padded // block,),
        in_specs=[pl.BlockSpec((samples,), lambda i: (0,)), columns(num_weights), columns(num_numbers)],
        out_specs=(columns(samples), columns(num_weights)),
        interpret=interpret,
        compiler_params=None if interpret else triton.CompilerParams(num_warps=max(1, block // 32), num_stages=1),
    )(lengths, weights, numbers)
    return curve[:, :runs], final[:, :runs]
