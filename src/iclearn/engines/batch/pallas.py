"""The unrolled training step in a Pallas kernel: one run per thread, all its weights in registers.

A launch trains a block of runs from beginning to end; memory is touched once per sampled loss. The expressions are
those of `unrolled.unrolled_step`, generated for any small number of dimensions, heads and rank. On NVIDIA GPUs since
Hopper the kernel is compiled by Mosaic, on older ones by Triton, which JAX no longer recommends (docs/sweeps.md has
both measured).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .rows import Unrolled
from .unrolled import unrolled_step

BLOCK = 128  # runs of a program: one per thread
Backend = Literal["mosaic", "triton", "interpret"]


def available() -> bool:
    """Whether the default device takes these kernels."""
    return jax.default_backend() == "gpu"


def default_backend() -> Backend:
    """What compiles the kernel for the default device: Mosaic needs Hopper (compute capability 9.0) or later."""
    capability = str(getattr(jax.devices()[0], "compute_capability", "0"))
    return "mosaic" if capability.split(".")[0].isdigit() and int(capability.split(".")[0]) >= 9 else "triton"


@eqx.filter_jit
def train_pallas(
    written: Unrolled, lengths: Int[Array, " sample"], *, backend: Backend | None = None, block: int = BLOCK
) -> tuple[Float[Array, "sample run"], Float[Array, "weight run"]]:
    """As `unrolled.train_unrolled`, in one kernel.

    Args:
        written: the runs.
        lengths: (sample) steps from each sampled one to the next.
        backend: what compiles the kernel (None: `default_backend`); ``interpret`` runs it without a GPU, slowly, for
            tests.
        block: runs of a program.

    Returns:
        (sample, run) the losses, and (weight, run) the final weights.
    """
    num_weights, runs = written.weights.shape
    num_numbers = written.numbers.shape[0]
    samples = lengths.shape[0]
    padded = -(-runs // block) * block
    fill = ((0, 0), (0, padded - runs))
    weights, numbers = (jnp.pad(a, fill, mode="edge") for a in (written.weights, written.numbers))
    keep_numbers = not written.sizes.full  # moments are too many for registers: read again, from the cache

    def kernel(at: Any, lengths_ref: Any, weights_ref: Any, numbers_ref: Any, curve_ref: Any, final_ref: Any) -> None:
        held = [numbers_ref[i, at] for i in range(num_numbers)] if keep_numbers else None
        step, loss = unrolled_step(written.sizes, lambda i: numbers_ref[i, at] if held is None else held[i])

        def segment(index: Array, now: tuple[Array, ...]) -> tuple[Array, ...]:
            curve_ref[index, at] = loss(now)
            return jax.lax.fori_loop(0, lengths_ref[index], lambda _, w: step(w), now)

        start = tuple(weights_ref[i, at] for i in range(num_weights))
        for i, row in enumerate(jax.lax.fori_loop(0, samples, segment, start)):
            final_ref[i, at] = row

    shapes = tuple(jax.ShapeDtypeStruct((rows, padded), weights.dtype) for rows in (samples, num_weights))
    backend = backend or default_backend()
    if backend == "mosaic":
        call = _by_mosaic(kernel, shapes, padded // block, block)
    else:
        call = _by_triton(kernel, shapes, padded // block, block, interpret=backend == "interpret")
    curve, final = call(lengths, weights, numbers)
    return curve[:, :runs], final[:, :runs]


def _by_mosaic(kernel: Callable[..., None], shapes: Any, programs: int, block: int) -> Callable:
    """The kernel compiled by Mosaic; each program reads and writes its columns of the whole arrays."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import mosaic_gpu

    def body(*refs: Any) -> None:
        kernel(pl.ds(jax.lax.axis_index("program") * block, block), *refs)

    # every operation is one instruction per thread: nothing has to be laid out, which takes most of the time to compile
    lanes = mosaic_gpu.CompilerParams(lowering_semantics=mosaic_gpu.LoweringSemantics.Lane)
    return mosaic_gpu.kernel(body, out_type=shapes, grid=(programs,), grid_names=("program",), compiler_params=lanes)


def _by_triton(kernel: Callable[..., None], shapes: Any, programs: int, block: int, *, interpret: bool) -> Callable:
    """The kernel compiled by Triton, or interpreted; each program is given its columns."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    def columns(rows: int) -> Any:
        return pl.BlockSpec((rows, block), lambda i: (0, i))

    def call(lengths: Array, weights: Array, numbers: Array) -> Any:
        return pl.pallas_call(
            functools.partial(kernel, slice(None)),
            out_shape=shapes,
            grid=(programs,),
            in_specs=[pl.BlockSpec(lengths.shape, lambda i: (0,)), columns(len(weights)), columns(len(numbers))],
            out_specs=tuple(columns(shape.shape[0]) for shape in shapes),
            interpret=interpret,
            compiler_params=None if interpret else triton.CompilerParams(num_warps=max(1, block // 32), num_stages=1),
        )(lengths, weights, numbers)

    return call
