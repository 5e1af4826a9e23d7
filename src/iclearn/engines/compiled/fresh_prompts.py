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

LANES = 128  # prompts of a block


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


def prompts_source(sizes: PromptSizes) -> str:
    """The program.

    Args:
        sizes: what it depends on.

    Returns:
        Source with one function, ``gradient(table, keys, mean, half, out)``: table and out (member, dim, pair), the
        coefficients W with ŷ = uᵀ W x_q and the derivative of the loss in them; keys (4), the words of the keys of
        inputs and of task vectors; mean (dim) of the task vectors; half, the number of prompts divided by two. It
        returns the loss.
    """
    common = 'nogil=True, error_model="numpy", boundscheck=False'
    exact, sums = (
        f'@numba.njit(fastmath={{"contract"}}, {common})',
        f'@numba.njit(fastmath={{"contract", "reassoc"}}, {common})',
    )
    signature = "float64(float32[:, :, ::1], uint32[::1], float32[::1], int64, float32[:, :, ::1])"
    entry = f'@numba.njit("{signature}", cache=CACHE, fastmath={{"contract"}}, {common})'
    constants = [f"{name.upper()} = {value}" for name, value in sizes._asdict().items()]
    constants += ["PAIRS = 1 + (DIM + 1) * (DIM + 2) // 2", "ROWS = (CONTEXT + 1) * DIM"]
    head = "import math\n\nimport numba\nimport numpy as np\n\n" + "\n".join(constants)
    parts = [
        f"{exact}\n{_draw()}",
        f"{exact}\n{_GRAM}",
        f"{sums}\n{_BACK}",
        f"{exact}\n{_ERRORS}",
        f"{entry}\n{_GRADIENT}",
    ]
    return head + "\n\n\n" + "\n\n\n".join(parts) + "\n"


def _draw() -> str:
    """``draw(key0, key1, start, stride, words, floats, ints, first, second)``: rows of normals, a prompt a lane.

    Number k of lane l has the counter start + k + l·stride; `words`, `floats` and `ints` are three views of one array.
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
    for k in range(first.shape[0]):
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
        for l in range(LANES):
            first[k, l] = floats[6, l]
            second[k, l] = floats[7, l]"""

_GRAM = """def gram(tokens, tasks, mean, entries, target):
    for j in range(DIM):
        for l in range(LANES):
            tasks[j, l] += mean[j]
    labels = np.empty((CONTEXT + 1, LANES), np.float32)
    for t in range(CONTEXT + 1):
        for l in range(LANES):
            labels[t, l] = tokens[t * DIM, l] * tasks[0, l]
        for j in range(1, DIM):
            for l in range(LANES):
                labels[t, l] += tokens[t * DIM + j, l] * tasks[j, l]
    for l in range(LANES):
        target[l] = labels[CONTEXT, l]
        entries[0, l] = np.float32(1.0)
    share = np.float32(1.0 / CONTEXT)
    p = 1
    for a in range(DIM + 1):
        for b in range(a, DIM + 1):
            for l in range(LANES):
                entries[p, l] = np.float32(0.0)
            for t in range(CONTEXT):
                left = labels[t] if a == DIM else tokens[t * DIM + a]
                right = labels[t] if b == DIM else tokens[t * DIM + b]
                for l in range(LANES):
                    entries[p, l] += left[l] * right[l]
            for l in range(LANES):
                entries[p, l] *= share
            p += 1"""

_ERRORS = """def errors(table, entries, queries, target, found):
    row = np.empty(LANES, np.float32)
    total = 0.0
    for m in range(table.shape[0]):
        for l in range(LANES):
            found[m, l] = -target[l]
        for j in range(DIM):
            for l in range(LANES):
                row[l] = np.float32(0.0)
            p = 0
            while p + 4 <= PAIRS:
                w0, w1, w2, w3 = table[m, j, p], table[m, j, p + 1], table[m, j, p + 2], table[m, j, p + 3]
                for l in range(LANES):
                    sums = w0 * entries[p, l] + w1 * entries[p + 1, l]
                    row[l] += sums + (w2 * entries[p + 2, l] + w3 * entries[p + 3, l])
                p += 4
            while p < PAIRS:
                w0 = table[m, j, p]
                for l in range(LANES):
                    row[l] += w0 * entries[p, l]
                p += 1
            for l in range(LANES):
                found[m, l] += row[l] * queries[j, l]
        for l in range(LANES):
            total += found[m, l] * found[m, l]
    return total"""

_BACK = """def back(entries, queries, found, out):
    row = np.empty(LANES, np.float32)
    for m in range(out.shape[0]):
        for j in range(DIM):
            for l in range(LANES):
                row[l] = found[m, l] * queries[j, l]
            p = 0
            while p + 4 <= PAIRS:  # four at once, for which a number of the row is read once
                s0, s1, s2, s3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
                for l in range(LANES):
                    s0 += row[l] * entries[p, l]
                    s1 += row[l] * entries[p + 1, l]
                    s2 += row[l] * entries[p + 2, l]
                    s3 += row[l] * entries[p + 3, l]
                out[m, j, p] += s0
                out[m, j, p + 1] += s1
                out[m, j, p + 2] += s2
                out[m, j, p + 3] += s3
                p += 4
            while p < PAIRS:
                s0 = np.float32(0.0)
                for l in range(LANES):
                    s0 += row[l] * entries[p, l]
                out[m, j, p] += s0
                p += 1"""

_GRADIENT = """def gradient(table, keys, mean, half, out):
    words = np.zeros((8, LANES), np.uint32)
    floats, ints = words.view(np.float32), words.view(np.int32)
    tokens = np.empty((2, ROWS, LANES), np.float32)
    tasks = np.empty((2, DIM, LANES), np.float32)
    entries = np.empty((PAIRS, LANES), np.float32)
    target = np.empty(LANES, np.float32)
    found = np.empty((table.shape[0], LANES), np.float32)
    out[:] = np.float32(0.0)
    total = 0.0
    for block in range(half // LANES):
        start = block * LANES
        draw(keys[0], keys[1], np.uint32(start * ROWS), np.uint32(ROWS), words, floats, ints, tokens[0], tokens[1])
        draw(keys[2], keys[3], np.uint32(start * DIM), np.uint32(DIM), words, floats, ints, tasks[0], tasks[1])
        for side in range(2):
            gram(tokens[side], tasks[side], mean, entries, target)
            queries = tokens[side][CONTEXT * DIM:]
            total += errors(table, entries, queries, target, found)
            back(entries, queries, found, out)
    share = 1.0 / (2 * half * table.shape[0])
    factor = np.float32(2.0 * share)
    for m in range(table.shape[0]):
        for j in range(DIM):
            for p in range(PAIRS):
                out[m, j, p] *= factor
    return total * share"""
