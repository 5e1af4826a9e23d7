"""The step of a small model as straight lines of source over a block of runs: every weight is a row of the block.

The list of multiplications and additions is that of `batch.unrolled`, recorded with symbols. All rows of a block lie in
one flat array, so that the compiler sees that they do not overlap and turns the loop over runs into vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from ..batch.unrolled import unrolled_gradient
from ..contractions import Sizes
from .record import Symbol, Tape


def gradient_source(sizes: Sizes) -> str:
    """The function ``gradient(weights, numbers, work, out) → loss`` of one run.

    Args:
        sizes: what the step depends on.

    Returns:
        Its source without a decorator.
    """
    tape, weights, gradient, loss = _recorded(sizes, "weights[{}]", "numbers[{}]")
    lines, results = tape.lines([*gradient(weights), loss(weights)])
    stores = [f"out[{i}] = {text}" for i, text in enumerate(results[:-1])]
    return _function("gradient(weights, numbers, work, out)", "", [*lines, *stores, f"return {results[-1]}"])


def block_sources(sizes: Sizes, lanes: int, fused: bool) -> dict[str, str]:
    """The functions of a block of runs, without decorators.

    Args:
        sizes: what the step depends on.
        lanes: runs side by side.
        fused: whether a step of gradient descent is wanted, or the gradient for another rule.

    Returns:
        ``step(rows)`` (or ``gradient(rows, out)``) and ``loss(rows, out)``.
    """
    tape, weights, gradient, loss = _recorded(
        sizes, *(f"rows[({first} + {{}}) * {lanes} + n]" for first in (0, sizes.num_weights))
    )
    moves = gradient(weights)
    results = [value - move for value, move in zip(weights, moves, strict=True)] if fused else list(moves)
    lines, texts = tape.lines(results)
    target = "rows" if fused else "out"
    made = [f"r{i} = {text}" for i, text in enumerate(texts)]  # all read before any is written
    stores = [f"{target}[{i} * {lanes} + n] = r{i}" for i in range(len(texts))]
    loop = f"for n in range({lanes}):"
    head = "step(rows)" if fused else "gradient(rows, out)"
    first = _function(head, loop, [*lines, *made, *stores])
    lines, texts = tape.lines([loss(weights)])
    return {head.partition("(")[0]: first, "loss": _function("loss(rows, out)", loop, [*lines, f"out[n] = {texts[0]}"])}


def operations(sizes: Sizes) -> int:
    """Multiplications and additions of one step of gradient descent, each counted once.

    Args:
        sizes: what the step depends on.

    Returns:
        Their number.

    >>> operations(Sizes(4, 5, 1, "diagonal"))
    564
    """
    tape, weights, gradient, _ = _recorded(sizes, "weights[{}]", "numbers[{}]")
    return tape.operations([value - move for value, move in zip(weights, gradient(weights), strict=True)])


def _recorded(sizes: Sizes, weight: str, number: str) -> tuple[Tape, list[Symbol], Callable, Callable]:
    """A tape, the weights on it, and the gradient and the loss as functions of them."""
    tape = Tape()
    gradient, loss = unrolled_gradient(sizes, lambda i: tape.given(number.format(i)))
    return tape, [tape.given(weight.format(i)) for i in range(sizes.num_weights)], gradient, loss


def _function(head: str, loop: str, lines: list[str]) -> str:
    indent = "        " if loop else "    "
    body = "".join(f"{indent}{line}\n" for line in lines)
    return f"def {head}:\n" + (f"    {loop}\n" if loop else "") + body
