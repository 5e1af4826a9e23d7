"""The step of a larger model as loops: each contraction a nest of loops whose innermost one runs along memory.

For one run at a time. Arrays are arguments that do not overlap, lengths are constants, so the compiler vectorizes the
innermost loop. The second moments of P prompts are the large part: for every pair j ≤ l of entries of x_q a symmetric
matrix, stored in full with rows padded to whole vectors, of which every entry read from memory is used twice.
"""

from __future__ import annotations

import itertools

import numpy as np

from ..contractions import Contraction, Sizes, backward, forward, kronecker_force, pair_indices, table_axes, weight_axes

VECTOR = 8  # rows of the second moments are padded to a multiple of it, and so many are taken at a time


def padded_rows(sizes: Sizes) -> int:
    """Rows of the coefficients, rounded up to whole vectors."""
    return -(-sizes.rows // VECTOR) * VECTOR


def loop_numbers(numbers: np.ndarray, sizes: Sizes) -> np.ndarray:
    """The numbers of a form as the loops read them: scale, constant, cross term (j, row), second moments.

    Args:
        numbers: (number) as `batch.rows.unroll` makes them.
        sizes: what the step depends on.

    Returns:
        The numbers, the moments unpacked: (pair j ≤ l, row, padded row).
    """
    d, rows, wide = sizes.dim, sizes.rows, padded_rows(sizes)
    scale, rest = numbers[:2], numbers[2:]
    if sizes.form == "diagonal":
        return np.concatenate([scale, np.diag(rest[:d]).ravel(), rest[d:]])
    if sizes.form == "kronecker":
        return numbers
    cross = np.zeros((d, wide), numbers.dtype)
    cross[:, :rows] = rest[: rows * d].reshape(rows, d).T
    packed = rest[rows * d :].reshape(len(pair_indices(d)), -1)
    first, last = np.array(pair_indices(rows)).T
    second = np.zeros((len(packed), wide, wide), numbers.dtype)
    second[:, first, last] = packed
    second[:, last, first] = packed
    return np.concatenate([scale, cross.ravel(), second.ravel()])


def gradient_sources(sizes: Sizes) -> dict[str, str]:
    """The functions that make up ``gradient(weights, numbers, work, out) → loss`` of one run.

    Args:
        sizes: what the step depends on.

    Returns:
        Name → source without a decorator, each after those it calls; ``gradient`` is the last.
    """
    lists = [forward(sizes), kronecker_force() if sizes.form == "kronecker" else [], backward(sizes)]
    arrays, functions, calls = _slices(sizes), {}, []
    for steps in lists:
        part = []
        for given in steps:
            step = contiguous(given)
            if step != given:
                functions["transpose"] = _transpose(sizes)
                part.append(f"transpose({arrays['force']}, {arrays['force_t']})")
            name = f"make_{step.out}"
            functions[name] = contraction_source(name, step, sizes)
            part.append(f"{name}({arrays[step.left]}, {arrays[step.right]}, {arrays[step.out]})")
        calls.append(part)
    functions |= _moments_sources(sizes) if sizes.full else _expectation_source(sizes)
    used = ("table", "coefficients", "product", "force") if sizes.full else ("table", "force")
    form = f"loss = form(numbers, {', '.join(arrays[name] for name in used)})"
    lines = [*calls[0], *calls[1], form, *calls[2], "return loss"]
    functions["gradient"] = _source("gradient(weights, numbers, work, out)", *(f"    {line}" for line in lines))
    return functions


def work_size(sizes: Sizes) -> int:
    """Numbers that ``gradient`` needs room for; the room must begin as zeros."""
    return sum(_work_lengths(sizes).values())


def _work_lengths(sizes: Sizes) -> dict[str, int]:
    """Name → length of every array that is neither a weight nor its gradient."""
    table = sizes.length(table_axes(sizes))
    made = [*forward(sizes), *(kronecker_force() if sizes.form == "kronecker" else []), *backward(sizes)]
    lengths = {step.out: sizes.length(step.parts[2]) for step in made if step.out not in _weights(sizes)}
    lengths |= {"table": table, "force": table, "force_t": table}
    if sizes.full:
        lengths |= {name: sizes.dim * padded_rows(sizes) for name in ("coefficients", "product")}
    return lengths


def _weights(sizes: Sizes) -> set[str]:
    return {name for weight in weight_axes(sizes) for name in (weight, f"d_{weight}")}


def _slices(sizes: Sizes) -> dict[str, str]:
    """Name → the expression that is this array inside ``gradient``."""
    found, start, d = {}, 0, sizes.dim
    for name, letters in weight_axes(sizes).items():
        end = start + sizes.length(letters)
        found |= {name: f"weights[{start}:{end}]", f"d_{name}": f"out[{start}:{end}]"}
        start = end
    start = 0
    for name, length in _work_lengths(sizes).items():
        found[name] = f"work[{start}:{start + length}]"
        start += length
    if sizes.form == "kronecker":
        found |= {"second": f"numbers[{2 + d * d}:{2 + 2 * d * d}]", "inputs": f"numbers[{2 + 2 * d * d}:]"}
    return found


def contiguous(step: Contraction) -> Contraction:
    """The same contraction with the force transposed, where its result would otherwise be read across memory.

    Args:
        step: the contraction.

    Returns:
        One whose innermost loop runs along memory, or the same.

    >>> contiguous(Contraction("pulled", "ij,hrj->hri", "force", "query")).subscripts
    'ji,hrj->hri'
    """
    first, second, out = step.parts
    if step.left == "force" and len(first) == 2 and out[-1] in first[:-1]:
        return Contraction(step.out, f"{first[::-1]},{second}->{out}", "force_t", step.right)
    return step


def contraction_source(name: str, step: Contraction, sizes: Sizes) -> str:
    """A contraction as loops: ``name(left, right, out)``.

    Args:
        name: of the function.
        step: the contraction.
        sizes: what the lengths of its axes depend on.

    Returns:
        Its source. Where the last axis of the result is the last one of every operand that has it, a few neighbors
        along it are added up side by side; else the sum itself is, in as many parts.
    """
    parts, spans = _fused(step, sizes)
    first, second, out = parts
    summed = [c for c in dict.fromkeys(first + second) if c not in out]
    places = [_place(part, spans) for part in parts]
    along = all(part[-1] == out[-1] for part in parts if out[-1] in part)
    inner = out[-1] if along else summed[-1]
    width = _width(spans[inner])
    group, lines = range(width), []
    depth = _open(lines, list(out[:-1] if along else out), spans, 1)
    if along:
        lines.append(f"{_tab(depth)}for {inner} in range(0, {spans[inner]}, {width}):")
        depth += 1
    lines += [f"{_tab(depth)}s{n} = REAL(0)" for n in group] if summed else []
    within = _open(lines, summed if along else summed[:-1], spans, depth)
    if not along:
        lines.append(f"{_tab(within)}for {inner} in range(0, {spans[inner]}, {width}):")
        within += 1
    reads = []
    for operand, part, place in zip(("left", "right"), parts[:2], places[:2], strict=True):
        reads.append(f"{operand}[{place} + {{}}]")
        if inner not in part:
            lines.append(f"{_tab(within)}factor = {operand}[{place}]")
            reads[-1] = "factor"
    sign = "+=" if summed else "="
    lines += [f"{_tab(within)}s{n} {sign} {reads[0].format(n)} * {reads[1].format(n)}" for n in group]
    if along:
        lines += [f"{_tab(depth)}out[{places[2]} + {n}] = s{n}" for n in group]
    else:
        lines.append(f"{_tab(depth)}out[{places[2]}] = {_tree([f's{n}' for n in group])}")
    return _source(f"{name}(left, right, out)", *lines)


def _tree(terms: list[str]) -> str:
    """A sum in pairs."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        pairs = [f"({a} + {b})" for a, b in zip(terms[:half], terms[half:], strict=False)]
        terms = pairs + terms[len(pairs) : half]
    return terms[0]


def _fused(step: Contraction, sizes: Sizes) -> tuple[tuple[str, str, str], dict[str, int]]:
    """Axes that always come one after the other become one; letters, and the length of each."""
    parts = step.parts
    spans = {letter: sizes.length(letter) for part in parts for letter in part}
    for left, right in [pair for part in parts for pair in itertools.pairwise(part)]:
        if all((left + right in part) or (left not in part and right not in part) for part in parts):
            if left not in spans or right not in spans:
                continue
            parts = tuple(part.replace(left + right, right) for part in parts)
            spans[right] *= spans.pop(left)
    return parts, spans  # type: ignore[return-value]


def _place(part: str, spans: dict[str, int]) -> str:
    text = part[0]
    for letter in part[1:]:
        text = f"({text}) * {spans[letter]} + {letter}" if " " in text else f"{text} * {spans[letter]} + {letter}"
    return text


def _open(lines: list[str], letters: list[str], spans: dict[str, int], depth: int) -> int:
    for letter in letters:
        lines.append(f"{_tab(depth)}for {letter} in range({spans[letter]}):")
        depth += 1
    return depth


def _tab(depth: int) -> str:
    return "    " * depth


def _source(head: str, *lines: str) -> str:
    return f"def {head}:\n" + "".join(f"{line}\n" for line in lines)


def _transpose(sizes: Sizes) -> str:
    d = sizes.dim
    loops = [f"    for i in range({d}):", f"        for j in range({d}):"]
    return _source("transpose(force, out)", *loops, f"            out[j * {d} + i] = force[i * {d} + j]")


def _expectation_source(sizes: Sizes) -> dict[str, str]:
    """``form(numbers, table, force) → loss``; a form that is not diagonal finds its product in ``force``."""
    size = sizes.dim**2
    product = f"numbers[n + {2 + size} + {{0}}] * table[n + {{0}}]" if sizes.form == "diagonal" else "force[n + {0}]"
    lines = [*_loss_lines(size, "table", product, "force"), "    return numbers[1] + total / numbers[0]"]
    return {"form": _source("form(numbers, table, force)", *lines)}


def _loss_lines(size: int, table: str, product: str, force: str) -> list[str]:
    """Subtract the cross term from a product, keep that as the force, and add up what the loss needs in ``total``."""
    group = range(_width(size))
    return [
        *(f"    s{n} = REAL(0)" for n in group),
        f"    for n in range(0, {size}, {len(group)}):",
        *(f"        g{n} = {product.format(n)} - numbers[n + {2 + n}]" for n in group),
        *(f"        s{n} += {table}[n + {n}] * (g{n} - numbers[n + {2 + n}])" for n in group),
        *(f"        {force}[n + {n}] = g{n}" for n in group),
        f"    total = {_tree([f's{n}' for n in group])}",
    ]


def _width(length: int) -> int:
    """How many neighbors of so many are taken at a time."""
    return max(n for n in range(1, VECTOR + 1) if length % n == 0)


def _moments_sources(sizes: Sizes) -> dict[str, str]:
    """``form(numbers, table, coefficients, product, force) → loss``, and the product with the second moments."""
    d, wide, group = sizes.dim, padded_rows(sizes), range(VECTOR)
    sums = [" + ".join(f"second[at + {n * wide} + p] * {c}{n}" for n in group) for c in "ab"]
    loops = [f"    for q in range(0, {wide}, {VECTOR}):", f"        at = q * {wide}"]
    one = [*loops, *(f"        a{n} = a[q + {n}]" for n in group), f"        for p in range({wide}):"]
    two = [*loops, *(f"        {c}{n} = {c}[q + {n}]" for n in group for c in "ab"), f"        for p in range({wide}):"]
    add = [f"            out[p] += {sums[0]}", f"            other[p] += {sums[1]}"]
    rows = {name: f"[{name} * {wide}:({name} + 1) * {wide}]" for name in "jl"}
    matrix = f"second[pair * {wide * wide}:(pair + 1) * {wide * wide}]"
    product = [
        f"    for n in range({d * wide}):",
        "        out[n] = REAL(0)",
        "    pair = 0",
        f"    for j in range({d}):",
        f"        same_entry({matrix}, c{rows['j']}, out{rows['j']})",
        "        pair += 1",
        f"        for l in range(j + 1, {d}):",
        f"            two_entries({matrix}, c{rows['l']}, c{rows['j']}, out{rows['j']}, out{rows['l']})",
        "            pair += 1",
    ]
    start = 2 + d * wide
    form = [
        "    collect(table, coefficients)",
        f"    multiply(numbers[{start}:], coefficients, product)",
        *_loss_lines(d * wide, "coefficients", "product[n + {0}]", "product"),
        "    spread(product, force)",
        "    return numbers[1] + total / numbers[0]",
    ]
    return {
        "same_entry": _source("same_entry(second, a, out)", *one, add[0]),
        "two_entries": _source("two_entries(second, a, b, out, other)", *two, *add),
        "multiply": _source("multiply(second, c, out)", *product),
        **_order_sources(sizes),
        "form": _source("form(numbers, table, coefficients, product, force)", *form),
    }


def _order_sources(sizes: Sizes) -> dict[str, str]:
    """Between the table and coefficients (entry of x_q, row): ``collect`` and, for the force, ``spread``."""
    d, wide, entry = sizes.dim, padded_rows(sizes), sizes.dim + 1
    if not sizes.gram:
        loops = [f"    for i in range({d}):", f"        for j in range({d}):"]
        return {
            "collect": _source("collect(table, out)", *loops, f"            out[j * {wide} + i] = table[i * {d} + j]"),
            "spread": _source("spread(values, out)", *loops, f"            out[i * {d} + j] = values[j * {wide} + i]"),
        }
    inner = f"for j in range({d}):"
    pair, mirrored = (f"table[({text}) * {d} + j]" for text in (f"a * {entry} + b", f"b * {entry} + a"))
    collect = [
        "    p = 0",
        f"    for a in range({entry}):",
        f"        {inner}",
        f"            out[j * {wide} + p] = table[a * {(entry + 1) * d} + j]",
        "        p += 1",
        f"        for b in range(a + 1, {entry}):",
        f"            {inner}",
        f"                out[j * {wide} + p] = {pair} + {mirrored}",
        "            p += 1",
    ]
    spread = [
        "    p = 0",
        f"    for a in range({entry}):",
        f"        for b in range(a, {entry}):",
        f"            {inner}",
        f"                value = values[j * {wide} + p]",
        f"                out[(a * {entry} + b) * {d} + j] = value",
        f"                out[(b * {entry} + a) * {d} + j] = value",
        "            p += 1",
    ]
    return {"collect": _source("collect(table, out)", *collect), "spread": _source("spread(values, out)", *spread)}
