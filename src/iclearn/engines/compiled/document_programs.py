"""Source of the loss and its gradient on fresh documents, for layers that attend once to the words of a document.

The documents are those of the loop in JAX: the same threefry words, through the inverse of the error function. Words
are drawn a block of documents at a time, one embedding entry after another, so that a processor makes many normals at
once, and never leave its caches. Runs that have the key of a step in common read the same words, drawn once. Sizes are
arguments and not constants: compiling takes longer than some of the trainings.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from ...core.rng import KEY_PARITY, LOG_SERIES
from .document_layers import LABEL_LAYER, LABEL_ROWS, QUERY_LAYER, QUERY_ROWS
from .fresh_prompts import horner, threefry_lines

_SPLIT = 5.0  # of w = −log(1 − u²): erfinv(u)/u is a polynomial of w below, of √w above
_LAST = 16.7  # w of the largest u below 1


def documents_source(dtype: str, query: bool) -> str:
    """The program.

    Args:
        dtype: ``float32`` or ``float64``, of everything but the draws.
        query: whether the query words attend (`DocumentReader`).

    Returns:
        Source with one function, ``gradient(vector, matrix, radius, starts, keys, documents, words, block, logs,
        to_vector, to_matrix, loss)``: vector (run, dim + 1) and matrix (run, dim, dim + 1) of `DocumentReader`, radius
        (run) of `WhiteDocuments`; runs starts[g] to starts[g + 1] have the keys (g, 4) of the words and of the
        directions of x in common; `block` of all documents are drawn at a time. It writes the losses and their
        derivatives in vector and matrix.
    """
    common = 'nogil=True, error_model="numpy", boundscheck=False'
    exact = f'@numba.njit(fastmath={{"contract"}}, {common})'
    # with its types said a function is compiled once, whatever constants it is called with
    normals = exact.replace("(", '("void(float32[:, ::1], int32[:, ::1], int64, int64, float32[::1])", ', 1)
    threefry = exact.replace("(", '("void(uint32, uint32, int64, int64, int64, boolean, uint32[:, ::1])", ', 1)
    sums = f'@numba.njit(fastmath={{"contract", "reassoc", "nsz"}}, {common})'
    copies = sums.replace("(", f'("void(float32[:, ::1], int64, int64, boolean, {dtype}[:, ::1])", ', 1)
    order = f'@numba.njit(fastmath={{"nnan", "nsz"}}, {common})'
    one, two, three = f"{dtype}[::1]", f"{dtype}[:, ::1]", f"{dtype}[:, :, ::1]"
    given = f"{two}, {three}, {one}, int64[::1], uint32[:, ::1], int64, int64, int64, boolean"
    entry = f'@numba.njit("void({given}, {two}, {three}, {one})", cache=CACHE, fastmath={{"contract"}}, {common})'
    single, layer = dtype == "float32", QUERY_LAYER if query else LABEL_LAYER
    last = _GRADIENT.replace("ROOM", QUERY_ROWS if query else LABEL_ROWS)
    constants = {
        "REAL": f"np.{dtype}", "INT": "np.int32" if single else "np.int64", "BIAS": 127 if single else 1023,
        "SHIFT": 23 if single else 52, "LEAST": -80.0 if single else -700.0,
    }  # fmt: skip
    head = "import math\n\nimport numba\nimport numpy as np\n\n"
    head += "\n".join(f"{name} = {value}" for name, value in constants.items())
    parts = [
        f"{normals}\n{_normals()}", f"{threefry}\n{_words()}", f"{exact}\n{_DRAW}", f"{copies}\n{_SPREAD}",
        f"{exact}\n{_ALONG}", f"{sums}\n{_ACROSS}", f"{order}\n{_LARGEST}",
        f"{sums}\n{_TOTAL}", f"{sums}\n{_INNER}", f"{exact}\n{_softmax(dtype)}", f"{exact}\n{_LABELS}",
        f"{exact}\n{layer}", f"{entry}\n{last}",
    ]  # fmt: skip
    return head + "\n\n\n" + "\n\n\n".join(parts) + "\n"


@functools.cache
def erfinv_series() -> tuple[tuple[float, ...], tuple[float, ...]]:
    """erfinv(u)/u for numbers in single precision, in the variables of Giles (2010).

    Returns:
        Coefficients of powers of w − 2.5 for w = −log(1 − u²) below 5, and of √w − 3 above.
    """
    from scipy.special import erfcinv

    def ratio(w: np.ndarray) -> np.ndarray:
        u = np.sqrt(-np.expm1(-w))
        return np.where(w < 1e-12, np.sqrt(np.pi) / 2, erfcinv(np.exp(-w) / (1 + u)) / np.maximum(u, 1e-30))

    below = Chebyshev.interpolate(ratio, 9, [0, _SPLIT]).convert(kind=Polynomial)(Polynomial([2.5, 1]))
    above = Chebyshev.interpolate(lambda s: ratio(s * s), 9, [_SPLIT**0.5, _LAST**0.5]).convert(kind=Polynomial)
    return tuple(below.coef), tuple(above(Polynomial([3.0, 1])).coef)


def _normals() -> str:
    below, above = erfinv_series()
    text = _NORMALS.replace("LOG_SERIES", horner(LOG_SERIES, "f")).replace("BELOW", horner(below, "c"))
    return text.replace("ABOVE", horner(above, "d")).replace("SPLIT", f"np.float32({_SPLIT})")


def _words() -> str:
    return _WORDS.replace("PARITY", str(KEY_PARITY)).replace("ROUNDS", "\n        ".join(threefry_lines()))


def _softmax(kind: str) -> str:
    """``softmax(values, words, ints, floats)``: in place, of the first `words`; the others become 0."""
    degree = 6 if kind == "float32" else 13
    series = Chebyshev.interpolate(np.exp, degree, [-np.log(2) / 2, np.log(2) / 2]).convert(kind=Polynomial).coef
    high = float(np.float32(0.693359375)) if kind == "float32" else 0.6931471803691238
    text = _SOFTMAX.replace("EXP_SERIES", horner(tuple(series), "r", kind)).replace("HIGH", repr(high))
    return text.replace("LOW", repr(float(np.log(2) - high)))


# the words of the generator in floats[side] become normals in out; u² is rounded before it is taken from 1, as in XLA
_NORMALS = """def normals(floats, ints, side, count, out):
    lowest = np.float32(-0.9999999403953552)
    for l in range(count):
        u = max(lowest, (floats[side, l] - np.float32(1.0)) * np.float32(2.0) + lowest)
        floats[2, l] = u
        floats[3, l] = u * u
    for l in range(count):
        floats[3, l] = np.float32(1.0) - floats[3, l]
    for l in range(count):  # 1 - u^2 = 2^e m with m between 1/sqrt(2) and sqrt(2)
        e = np.int32(np.int32(ints[3, l] - np.int32(0x3F3504F3)) >> np.int32(23))
        ints[4, l] = np.int32(ints[3, l] - np.int32(e << np.int32(23)))
        floats[5, l] = np.float32(e) * np.float32(0.6931471805599453)
    for l in range(count):
        f = floats[4, l] - np.float32(1.0)
        w = -(((LOG_SERIES * f * f * f - np.float32(0.5) * f * f) + f) + floats[5, l])
        c = w - np.float32(2.5)
        d = math.sqrt(w) - np.float32(3.0)
        ratio = BELOW if w < SPLIT else ABOVE
        out[l] = np.float32(1.4142135381698608) * (ratio * floats[2, l])"""

# words with the counters start + l·stride; where `one`, the two of each are made one, as jax.random does
_WORDS = """def draw_words(key0, key1, start, stride, count, one, words):
    key2 = np.uint32(key0 ^ key1 ^ np.uint32(PARITY))
    base = np.uint32(np.uint32(start) + key1)
    for l in range(count):
        a = np.uint32(key0)
        b = np.uint32(base + np.uint32(np.uint32(l) * np.uint32(stride)))
        ROUNDS
        a = np.uint32(a ^ b) if one else a
        words[0, l] = np.uint32(np.uint32(a >> np.uint32(9)) | np.uint32(0x3F800000))
        words[1, l] = np.uint32(np.uint32(b >> np.uint32(9)) | np.uint32(0x3F800000))"""

_DRAW = """def draw(keys, first, block, words, floats, ints, context, query, flat, directions):
    dim, count = context.shape
    for k in range(dim):
        draw_words(keys[0], keys[1], first * count // block * dim + k, dim, count, False, words)
        normals(floats, ints, 0, count, context[k])
        normals(floats, ints, 1, count, query[k])
    draw_words(keys[2], keys[3], first * dim, 1, block * dim, True, words)
    normals(floats, ints, 0, block * dim, flat)
    for p in range(block):
        square = REAL(0.0)
        for k in range(dim):
            directions[p, k] = REAL(flat[p * dim + k])
            square += directions[p, k] * directions[p, k]
        share = REAL(1.0) / math.sqrt(square)
        for k in range(dim):
            directions[p, k] *= share"""

_SPREAD = """def spread(rows, offset, words, center, out):
    for k in range(rows.shape[0]):
        mean = REAL(0.0)
        if center:
            total = REAL(0.0)
            for l in range(words):
                total += REAL(rows[k, offset + l])
            mean = total / REAL(words)
        for l in range(words):
            out[k, l] = REAL(rows[k, offset + l]) - mean"""

# out[l] = Σ_j weights[j] rows[j, l] over the first `count` rows, ten at a time
_ALONG = """def along(rows, weights, count, out):
    lanes = out.shape[0]
    for l in range(lanes):
        out[l] = REAL(0.0)
    j = 0
    while j + 10 <= count:
        w0, w1, w2, w3, w4 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3], weights[j + 4]
        w5, w6, w7, w8, w9 = weights[j + 5], weights[j + 6], weights[j + 7], weights[j + 8], weights[j + 9]
        for l in range(lanes):
            low = (w0 * rows[j, l] + w1 * rows[j + 1, l]) + (w2 * rows[j + 2, l] + w3 * rows[j + 3, l])
            high = (w5 * rows[j + 5, l] + w6 * rows[j + 6, l]) + (w7 * rows[j + 7, l] + w8 * rows[j + 8, l])
            out[l] += (low + w4 * rows[j + 4, l]) + (high + w9 * rows[j + 9, l])
        j += 10
    while j < count:
        w0 = weights[j]
        for l in range(lanes):
            out[l] += w0 * rows[j, l]
        j += 1"""

# out[j] = Σ_l rows[j, l] weights[l], four rows at a time
_ACROSS = """def across(rows, weights, out):
    dim, lanes = rows.shape
    j = 0
    while j + 4 <= dim:
        s0, s1, s2, s3 = REAL(0.0), REAL(0.0), REAL(0.0), REAL(0.0)
        for l in range(lanes):
            s0 += rows[j, l] * weights[l]
            s1 += rows[j + 1, l] * weights[l]
            s2 += rows[j + 2, l] * weights[l]
            s3 += rows[j + 3, l] * weights[l]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
        j += 4
    while j < dim:
        s0 = REAL(0.0)
        for l in range(lanes):
            s0 += rows[j, l] * weights[l]
        out[j] = s0
        j += 1"""

_LARGEST = """def largest(values, words):
    found = values[0]
    for l in range(words):
        found = values[l] if values[l] > found else found
    return found"""

_TOTAL = """def total_of(values, words):
    total = REAL(0.0)
    for l in range(words):
        total += values[l]
    return total"""

_INNER = """def inner(left, right):
    total = REAL(0.0)
    for l in range(left.shape[0]):
        total += left[l] * right[l]
    return total"""

_SOFTMAX = """def softmax(values, words, ints, floats):
    lanes = values.shape[0]
    top = largest(values, words)
    for l in range(lanes):
        x = values[l] - top
        x = REAL(LEAST) if x < REAL(LEAST) else x  # NaN stays
        k = np.floor(x * REAL(1.4426950408889634) + REAL(0.5))
        r = (x - k * REAL(HIGH)) - k * REAL(LOW)
        values[l] = EXP_SERIES
        ints[l] = INT(INT(INT(k) + INT(BIAS)) << INT(SHIFT))
    for l in range(lanes):
        values[l] *= floats[l]
    for l in range(words, lanes):
        values[l] = REAL(0.0)
    share = REAL(1.0) / total_of(values, words)
    for l in range(lanes):
        values[l] *= share"""

_LABELS = """def write_labels(shown, words, radius, logs, ints, floats, labels):
    for l in range(labels.shape[0]):
        labels[l] = radius * shown[l]
    if logs:
        mean = total_of(labels, words) / REAL(words)
        for l in range(labels.shape[0]):
            labels[l] -= mean
    else:
        softmax(labels, words, ints, floats)
        for l in range(labels.shape[0]):
            labels[l] = REAL(words) * labels[l] - REAL(1.0)"""

_GRADIENT = """def gradient(
    vector, matrix, radius, starts, keys, documents, words, block, logs, to_vector, to_matrix, loss
):
    dim, count, lanes = matrix.shape[1], block * words, (words + 7) // 8 * 8
    scratch = np.zeros((6, block * max(words, dim)), np.uint32)
    flat, directions = np.empty(block * dim, np.float32), np.empty((block, dim), REAL)
    floats, ints = scratch.view(np.float32), scratch.view(np.int32)
    drawn = np.empty((2, dim, count), np.float32)
    context, query = np.zeros((dim, lanes), REAL), np.zeros((dim, lanes), REAL)
    both, powers = np.zeros((2, lanes), REAL), np.zeros(lanes, INT)
    scales, rows, small = powers.view(REAL), np.zeros((ROOM, lanes), REAL), np.zeros((3, dim + 1), REAL)
    to_vector[:] = REAL(0.0)
    to_matrix[:] = REAL(0.0)
    loss[:] = REAL(0.0)
    for g in range(keys.shape[0]):
        for first in range(0, documents, block):
            draw(keys[g], first, block, scratch, floats, ints, drawn[0], drawn[1], flat, directions)
            for p in range(block):
                spread(drawn[0], p * words, words, True, context)
                spread(drawn[1], p * words, words, False, query)
                along(context, directions[p], dim, both[0])
                along(query, directions[p], dim, both[1])
                for r in range(starts[g], starts[g + 1]):
                    write_labels(both[0], words, radius[r], logs, powers, scales, rows[0])
                    for l in range(lanes):
                        rows[1, l] = radius[r] * both[1, l]
                    softmax(rows[1], words, powers, scales)
                    loss[r] += layer(
                        context, query, words, vector[r], matrix[r], rows, powers, scales, small, to_vector[r],
                        to_matrix[r]
                    )
    factor = REAL(words / documents)
    for r in range(loss.shape[0]):
        loss[r] *= REAL(0.5) * factor
        for e in range(dim + 1):
            to_vector[r, e] *= factor
            for j in range(dim):
                to_matrix[r, j, e] *= factor"""
