"""Whole programs as source: training of one run, and of a block of runs, for one set of sizes and one rule.

Of "fast math" a compiler is allowed one thing: to fuse a multiplication and an addition (``contract``).
"""

from __future__ import annotations

from ..contractions import Sizes
from . import flows, loops, straight
from .update_rules import MEMORY, constants_source, update_source

MOST_STRAIGHT = 900  # multiplications of a step; beyond, straight lines take long to compile and loops are as fast
INNER = "no_cpython_wrapper=True, no_cfunc_wrapper=True"  # called by compiled code only
RULES = (*MEMORY, "flow")


def is_straight(sizes: Sizes) -> bool:
    """Whether the step of these sizes is written out, or made of loops.

    Args:
        sizes: what the step depends on.

    Returns:
        True where it is small enough.
    """
    return sizes.products <= MOST_STRAIGHT


def run_source(sizes: Sizes, dtype: str, rule: str, entry: str = "advance") -> str:
    """The program of one run.

    Args:
        sizes: what the step depends on.
        dtype: name of the precision.
        rule: name of the update rule.
        entry: the function that is wanted.

    Returns:
        Source with it. ``advance(weights, numbers, memory, hyper, first, steps, every, losses, records)`` makes `steps`
        steps, the first of which has number `first`, writes the loss before each and the weights every so many steps.
        ``sample(weights, numbers, memory, hyper, lengths, losses)`` writes losses at sampled steps only.
    """
    functions, room = _gradient(sizes)
    functions["update"] = update_source(sizes.num_weights, rule)
    begin = f"    work, out = np.zeros({room}, REAL), np.empty({sizes.num_weights}, REAL)"
    step = "update(weights, out, memory, hyper, {})"
    advance = [
        begin,
        "    for s in range(steps):",
        "        if s % every == 0:",
        "            for n in range(weights.size):",
        "                records[s // every, n] = weights[n]",
        "        losses[s] = gradient(weights, numbers, work, out)",
        f"        {step.format('first + s')}",
    ]
    sample = [
        begin,
        "    s = 0",
        "    for k in range(lengths.size):",
        "        losses[k] = gradient(weights, numbers, work, out)",
        f"        {step.format('s')}",
        "        s += 1",
        "        for _ in range(lengths[k] - 1):",
        "            gradient(weights, numbers, work, out)",
        f"            {step.format('s')}",
        "            s += 1",
    ]
    real = f"{dtype}[::1]"
    entries = {
        "advance": (f"void({', '.join([real] * 4)}, int64, int64, int64, {real}, {dtype}[:, ::1])",
                    "advance(weights, numbers, memory, hyper, first, steps, every, losses, records)", advance),
        "sample": (f"void({', '.join([real] * 4)}, int64[::1], {real})",
                   "sample(weights, numbers, memory, hyper, lengths, losses)", sample),
    }  # fmt: skip
    return _module(dtype, functions, {entry: entries[entry]})


def flow_source(sizes: Sizes, dtype: str) -> str:
    """The program of a gradient flow.

    Args:
        sizes: what the gradient depends on.
        dtype: name of the precision.

    Returns:
        Source with one function, ``flow(weights, numbers, interval, rtol, losses, records)``: see `flows.flow_lines`.
    """
    functions, room = _gradient(sizes)
    signature = f"void({dtype}[::1], {dtype}[::1], {dtype}, {dtype}, {dtype}[::1], {dtype}[:, ::1])"
    head = "flow(weights, numbers, interval, rtol, losses, records)"
    entry = (signature, head, flows.flow_lines(sizes.num_weights, room))
    return _module(dtype, functions, {"flow": entry}, flows.tableau_source())


def _gradient(sizes: Sizes) -> tuple[dict[str, str], int]:
    """The functions of the gradient of one run, and the numbers that it needs room for."""
    if is_straight(sizes):
        return {"gradient": straight.gradient_source(sizes)}, 0
    return loops.gradient_sources(sizes), loops.work_size(sizes)


def block_source(sizes: Sizes, dtype: str, rule: str, lanes: int) -> str:
    """The program of a block of runs; `is_straight` must hold.

    Args:
        sizes: what the step depends on.
        dtype: name of the precision.
        rule: name of the update rule.
        lanes: runs of a block.

    Returns:
        Source with one function, ``train(rows, lengths, losses)``: rows (row, run) flat as `straight.block_rows` says;
        losses (sample, run) flat are those before `lengths` steps each.
    """
    lines = [
        "    step = 0",
        "    for k in range(lengths.size):",
        f"        loss(rows, losses[k * {lanes}:(k + 1) * {lanes}])",
        "        for _ in range(lengths[k]):",
        "            one_step(rows, step)",
        "            step += 1",
    ]
    entry = (f"void({dtype}[::1], int64[::1], {dtype}[::1])", "train(rows, lengths, losses)", lines)
    return _module(dtype, straight.block_sources(sizes, rule, lanes), {"train": entry})


def _module(
    dtype: str, functions: dict[str, str], entries: dict[str, tuple[str, str, list[str]]], constants: str = ""
) -> str:
    parts = ["import math\n\nimport numba\nimport numpy as np\n", constants_source(dtype), constants]
    common = 'fastmath={"contract"}, nogil=True, error_model="numpy"'
    for source in functions.values():
        parts.append(f"@numba.njit({common}, {INNER})\n{source}")
    for signature, head, lines in entries.values():
        body = "".join(f"{line}\n" for line in lines)
        decorator = f'@numba.njit("{signature}", cache=CACHE, {common})'
        parts.append(f"{decorator}\ndef {head}:\n{body}")
    return "\n\n".join(parts)
