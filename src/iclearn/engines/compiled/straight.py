"""The step of a small model as straight lines of source over a block of runs: every weight is a row of the block.

The list of multiplications and additions is that of `batch.unrolled`, recorded with symbols. All rows of a block lie in
one flat array, so that the compiler sees that they do not overlap and turns the loop over runs into vectors.
"""

from __future__ import annotations

from collections.abc import Callable

from ..batch.unrolled import unrolled_gradient
from ..contractions import Sizes
from .record import Symbol, Tape
from .update_rules import HYPER, MEMORY, moved, unbias_lines


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
    body = [f"    {line}" for line in (*lines, *stores, f"return {results[-1]}")]
    return _function("gradient(weights, numbers, work, out)", body)


def block_sources(sizes: Sizes, rule: str, lanes: int) -> dict[str, str]:
    """The functions of a block of runs, without decorators.

    Args:
        sizes: what the step depends on.
        rule: name of the update rule.
        lanes: runs side by side.

    Returns:
        ``step(rows, step)``, which makes step number `step`, and ``loss(rows, out)``. Rows are the weights, the numbers
        of the form, what the rule remembers, and its numbers.
    """
    count, at = sizes.num_weights, f"rows[{{}} * {lanes} + n]"
    rows = block_rows(sizes, rule)
    places = (f"rows[({rows[name]} + {{}}) * {lanes} + n]" for name in ("weights", "numbers"))
    tape, weights, gradient, loss = _recorded(sizes, *places)
    hyper = {name: tape.given(at.format(rows["hyper"] + i)) for i, name in enumerate(HYPER)}
    moves, new = gradient(weights), {}
    for i in range(count):
        kept = [rows["memory"] + slot * count + i for slot in range(MEMORY[rule])]
        results = moved(rule, tape, weights[i], moves[i], [tape.given(at.format(row)) for row in kept], hyper)
        new |= dict(zip([rows["weights"] + i, *kept], results, strict=True))
    lines, texts = tape.lines(list(new.values()))
    made = [f"r{i} = {text}" for i, text in enumerate(texts)]  # all is read before anything is written
    stores = [f"{at.format(row)} = r{i}" for i, row in enumerate(new)]
    loop = f"    for n in range({lanes}):"
    body = [f"        {line}" for line in (*lines, *made, *stores)]
    lines, texts = tape.lines([loss(weights)])
    return {
        "one_step": _function("one_step(rows, step)", [*unbias_lines(rule), loop, *body]),
        "loss": _function("loss(rows, out)", [loop, *(f"        {line}" for line in (*lines, f"out[n] = {texts[0]}"))]),
    }


def block_rows(sizes: Sizes, rule: str) -> dict[str, int]:
    """Where each part of a block begins, in rows.

    Args:
        sizes: what the step depends on.
        rule: name of the update rule.

    Returns:
        The first row of ``weights``, ``numbers``, ``memory`` and ``hyper``, and ``end``.

    >>> block_rows(Sizes(4, 5, 1, "diagonal"), "momentum")
    {'weights': 0, 'numbers': 45, 'memory': 67, 'hyper': 112, 'end': 115}
    """
    memory = sizes.num_weights + sizes.num_numbers
    hyper = memory + MEMORY[rule] * sizes.num_weights
    return {"weights": 0, "numbers": sizes.num_weights, "memory": memory, "hyper": hyper, "end": hyper + len(HYPER)}


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


def _function(head: str, lines: list[str]) -> str:
    return f"def {head}:\n" + "".join(f"{line}\n" for line in lines)
