"""Source of the loss and its gradient on fresh Gaussian prompts, for models that read the Gram matrix of the context.

The prompts are those that `tasks.LinearRegression.fresh` draws by `core.rng.paired_normals`: the same threefry words,
Box and Muller on them, in an order in which a processor does many prompts at once. A pair of normals that share a block
of words belongs to prompts half a batch apart, so blocks of LANES prompts are made two at a time and never leave the
nearest cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...core.rng import COS_SERIES, KEY_PARITY, LOG_SERIES, ROTATIONS, SIN_SERIES
from .row_products import inner_source, product_source

LANES = 128  # prompts of a block
TERMS = 10  # tokens whose products are summed at once


class PromptSizes(NamedTuple):
    """What the program depends on.

    Args:
        dim: dimension of the inputs.
        context: pairs of a prompt.
        lanes: prompts of a block.
    """

    dim: int
    context: int
    lanes: int


def size_constants(sizes: PromptSizes) -> list[str]:
    """Lines that say what the functions of the program depend on.

    Args:
        sizes: the same.

    Returns:
        The lines.
    """
    return [*(f"{name.upper()} = {value}" for name, value in sizes._asdict().items()), "ROWS = (CONTEXT + 1) * DIM"]


def prompt_functions(sizes: PromptSizes) -> list[tuple[str, str]]:
    """The functions of the program.

    Args:
        sizes: what they depend on.

    Returns:
        Their sources without decorators; before each, whether it may reorder sums (``sums``) or not (``exact``). The
        last is ``gradient(table, slope, keys, …)``: table and slope (member and dim, pair), the coefficients W with
        ŷ = uᵀ W x_q and the derivative of the loss in them. It returns the loss.
    """
    return [
        ("exact", _draw()),
        ("exact", _gram(sizes.dim, sizes.context)),
        ("exact", product_source("forward", "LANES")),
        ("sums", inner_source("backward", "LANES")),
        ("exact", _ERRORS),
        ("exact", _GRADIENT),
    ]


def _draw() -> str:
    """``draw(key0, key1, start, stride, words, floats, ints, first, second)``: rows of normals, a prompt a lane.

    Number k of lane l has the counter start + k + l·stride and goes to row k + k // DIM: a row is left out after
    every DIM; `words`, `floats` and `ints` are three views of one array.
    """
    series = {"LOG": horner(LOG_SERIES, "f"), "SIN": horner(SIN_SERIES, "s"), "COS": horner(COS_SERIES, "s")}
    text = _DRAW.replace("PARITY", str(KEY_PARITY)).replace("ROUNDS", "\n            ".join(threefry_lines()))
    for name, value in series.items():
        text = text.replace(f"{name}_SERIES", value)
    return text


def threefry_lines() -> list[str]:
    """The rounds of threefry (`core.rng.threefry`) on the words a and b under the keys key0, key1 and key2.

    Returns:
        Lines of source.
    """
    lines, names = [], ("key0", "key1", "key2")
    for group in range(5):
        for turn in ROTATIONS[group % 2]:
            lines.append("a = np.uint32(a + b)")
            left, right = f"np.uint32(b << np.uint32({turn}))", f"np.uint32(b >> np.uint32({32 - turn}))"
            lines.append(f"b = np.uint32(np.uint32({left} | {right}) ^ a)")
        lines.append(f"a = np.uint32(a + {names[(group + 1) % 3]})")
        lines.append(f"b = np.uint32(b + np.uint32({names[(group + 2) % 3]} + np.uint32({group + 1})))")
    return lines


def horner(series: Sequence[Any], variable: str, kind: str = "float32") -> str:
    """A polynomial as source.

    Args:
        series: its coefficients, the constant one first.
        variable: name of what it is a polynomial of.
        kind: name of its type, one of numpy's.

    Returns:
        The expression.
    """
    text = f"np.{kind}({float(series[-1])!r})"
    for term in reversed(series[:-1]):
        text = f"({text} * {variable} + np.{kind}({float(term)!r}))"
    return text


_DRAW = """def draw(key0, key1, start, stride, words, floats, ints, first, second):
    key2 = np.uint32(key0 ^ key1 ^ np.uint32(PARITY))
    for k in range(stride):
        base = np.uint32(np.uint32(start + k) + key1)
        for l in range(LANES):
            a = np.uint32(key0)
            b = np.uint32(base + np.uint32(np.uint32(l) * np.uint32(stride)))
            ROUNDS
            words[0, l] = np.uint32(np.uint32(a >> np.uint32(9)) | np.uint32(0x3F800000))
            words[1, l] = np.uint32(np.uint32(b >> np.uint32(9)) | np.uint32(0x3F800000))
            words[2, l] = b
        for l in range(LANES):
            floats[3, l] = np.float32(2.0) - floats[0, l]
        for l in range(LANES):  # u = 2^e m with m between 1/sqrt(2) and sqrt(2)
            e = np.int32(np.int32(ints[3, l] - np.int32(0x3F3504F3)) >> np.int32(23))
            ints[4, l] = np.int32(ints[3, l] - np.int32(e << np.int32(23)))
            floats[5, l] = np.float32(e) * np.float32(0.6931471805599453)
        for l in range(LANES):
            f = floats[4, l] - np.float32(1.0)
            log = ((LOG_SERIES * f * f * f - np.float32(0.5) * f * f) + f) + floats[5, l]
            radius = math.sqrt(np.float32(-2.0) * log)
            angle = floats[1, l] - np.float32(1.0)
            s = angle * angle
            sine = radius * angle * SIN_SERIES
            cosine = radius * COS_SERIES
            odd = (words[2, l] & np.uint32(1)) != np.uint32(0)
            floats[6, l] = sine if odd else cosine
            floats[7, l] = cosine if odd else sine
        for l in range(LANES):
            sign = words[2, l]
            words[6, l] = np.uint32(words[6, l] ^ np.uint32(np.uint32(sign << np.uint32(30)) & np.uint32(0x80000000)))
            words[7, l] = np.uint32(words[7, l] ^ np.uint32(np.uint32(sign << np.uint32(29)) & np.uint32(0x80000000)))
        row = k + k // DIM
        for l in range(LANES):
            first[row, l] = floats[6, l]
            second[row, l] = floats[7, l]"""


def _gram(dim: int, context: int) -> str:
    """``gram(tokens, tasks, mean, entries, target)``: labels, and the entries of the Gram matrix, a prompt a lane.

    Row t·(DIM + 1) + j of `tokens` is entry j of token t, its label the last, which is filled in here.
    """
    lines = []
    for start in range(0, context, TERMS):
        rows = range(start, min(start + TERMS, context))
        lines += [f"{side}{t} = tokens[{t * (dim + 1)} + {side}]" for side in "ab" for t in rows]
        before, after = ("entries[p, l] + " if start else ""), (" * share" if rows.stop == context else "")
        total = " + ".join(f"a{t}[l] * b{t}[l]" for t in rows)
        lines += ["for l in range(LANES):", f"    entries[p, l] = ({before}{total}){after}"]
    return _GRAM.replace("            PRODUCTS", "\n".join(f"            {line}" for line in lines))


_GRAM = """def gram(tokens, tasks, mean, entries, target):
    for j in range(DIM):
        for l in range(LANES):
            tasks[j, l] += mean[j]
    for t in range(CONTEXT + 1):
        for l in range(LANES):
            target[l] = ZERO
        for j in range(DIM):
            for l in range(LANES):
                target[l] += tokens[t * (DIM + 1) + j, l] * tasks[j, l]
        for l in range(LANES):
            tokens[t * (DIM + 1) + DIM, l] = target[l]
    for l in range(LANES):
        entries[0, l] = np.float32(1.0)
    share = np.float32(1.0 / CONTEXT)
    p = 1
    for a in range(DIM + 1):
        for b in range(a, DIM + 1):
            PRODUCTS
            p += 1"""

# the errors of the predictions, and then what the derivative is made of: errors times queries
_ERRORS = """def errors(found, tokens, target, error):
    last = CONTEXT * (DIM + 1)
    total = 0.0
    for m in range(found.shape[0] // DIM):
        for l in range(LANES):
            error[l] = -target[l]
        for j in range(DIM):
            for l in range(LANES):
                error[l] += found[m * DIM + j, l] * tokens[last + j, l]
        for l in range(LANES):
            total += error[l] * error[l]
        for j in range(DIM):
            for l in range(LANES):
                found[m * DIM + j, l] = error[l] * tokens[last + j, l]
    return total"""

_GRADIENT = """def gradient(table, slope, keys, mean, half, words, floats, ints, tokens, tasks, entries, target, found):
    for r in range(slope.shape[0]):
        for n in range(slope.shape[1]):
            slope[r, n] = ZERO
    total = 0.0
    for start in range(0, half, LANES):
        draw(keys[0], keys[1], np.uint32(start * ROWS), np.uint32(ROWS), words, floats, ints, tokens[0], tokens[1])
        draw(keys[2], keys[3], np.uint32(start * DIM), np.uint32(DIM), words, floats, ints, tasks[0], tasks[1])
        for side in range(2):
            gram(tokens[side], tasks[side], mean, entries, target)
            forward(table, entries, found)
            total += errors(found, tokens[side], target, floats[0])
            backward(found, entries, slope)
    members = table.shape[0] // DIM
    share = 1.0 / (2 * half * members)
    factor = np.float32(2.0 * share)
    for r in range(slope.shape[0]):
        for n in range(slope.shape[1]):
            slope[r, n] *= factor
    return total * share"""
