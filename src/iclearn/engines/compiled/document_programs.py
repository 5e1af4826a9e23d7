"""Source of the loss and its gradient on fresh documents, for layers that attend once to the words of a document.

The documents are those of the loop in JAX: the same threefry words, through the inverse of the error function. Words
are drawn a block of documents at a time, one embedding entry after another, so that a processor makes many normals at
once, and never leave its caches. Runs that have the key of a step in common read the same words, drawn once.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from ...core.rng import KEY_PARITY, LOG_SERIES
from .fresh_prompts import horner, threefry_lines

MOST_ROWS = 512  # words of a block
_SPLIT = 5.0  # of w = −log(1 − u²): erfinv(u)/u is a polynomial of w below, of √w above
_LAST = 16.7  # w of the largest u below 1


class DocumentSizes(NamedTuple):
    """What the program depends on.

    Args:
        dim: dimension of the embeddings.
        words: of the context, and of the query.
        documents: of a step.
        dtype: ``float32`` or ``float64``, of everything but the draws.
        logs: whether labels are log b − mean; otherwise n b − 1.
    """

    dim: int
    words: int
    documents: int
    dtype: str
    logs: bool

    @property
    def block(self) -> int:
        """Documents of a block: a power of two that divides them all, with MOST_ROWS words at most."""
        block = 1
        while self.documents % (2 * block) == 0 and 2 * block * self.words <= MOST_ROWS:
            block *= 2
        return block


def documents_source(sizes: DocumentSizes) -> str:
    """The program.

    Args:
        sizes: what it depends on.

    Returns:
        Source with one function, ``gradient(attend, value, radius, starts, keys, directions, to_attend, to_value,
        loss)``: attend (run, dim + 1), value (run, dim, dim + 1) and radius (run) of `LabelReader` and
        `WhiteDocuments`; runs starts[g] to starts[g + 1] have the keys (g, 2) of the words in common and the directions
        (g, document, dim) of x, of length 1. It writes the losses and their derivatives in attend and value.
    """
    kind = sizes.dtype
    common = 'nogil=True, error_model="numpy", boundscheck=False'
    exact = f'@numba.njit(fastmath={{"contract"}}, {common})'
    sums = f'@numba.njit(fastmath={{"contract", "reassoc", "nsz"}}, {common})'
    order = f'@numba.njit(fastmath={{"nnan", "nsz"}}, {common})'
    two, three = f"{kind}[:, ::1]", f"{kind}[:, :, ::1]"
    signature = f"void({two}, {three}, {kind}[::1], int64[::1], uint32[:, ::1], {three}, {two}, {three}, {kind}[::1])"
    entry = f'@numba.njit("{signature}", cache=CACHE, fastmath={{"contract"}}, {common})'
    constants = {
        "DIM": sizes.dim, "WORDS": sizes.words, "DOCUMENTS": sizes.documents, "BLOCK": sizes.block,
        "ROWS": sizes.block * sizes.words, "LANES": -(-sizes.words // 8) * 8, "REAL": f"np.{kind}",
        "INT": "np.int32" if kind == "float32" else "np.int64",
        "BIAS": 127 if kind == "float32" else 1023, "SHIFT": 23 if kind == "float32" else 52,
        "LEAST": -80.0 if kind == "float32" else -700.0,
    }  # fmt: skip
    head = "import math\n\nimport numba\nimport numpy as np\n\n"
    head += "\n".join(f"{name} = {value}" for name, value in constants.items())
    body = _BODY.replace("LABELS", _LOG_LABELS if sizes.logs else _RAW_LABELS)
    parts = [
        f"{exact}\n{_draw()}", f"{exact}\n{_SPREAD}", f"{exact}\n{_along()}", f"{sums}\n{_across()}",
        f"{order}\n{_LARGEST}", f"{sums}\n{_TOTAL}", f"{sums}\n{_INNER}", f"{exact}\n{_softmax(kind)}",
        f"{exact}\n{body}", f"{entry}\n{_GRADIENT}",
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


def _draw() -> str:
    """``draw(key0, key1, start, words, floats, ints, context, query)``: (dim, row) normals, number start + row·dim + k.

    `words`, `floats` and `ints` are three views of one array. u² is rounded before it is taken from 1, as XLA does.
    """
    below, above = erfinv_series()
    text = _DRAW.replace("PARITY", str(KEY_PARITY)).replace("ROUNDS", "\n            ".join(threefry_lines()))
    text = text.replace("LOG_SERIES", horner(LOG_SERIES, "f")).replace("BELOW", horner(below, "c"))
    return text.replace("ABOVE", horner(above, "d")).replace("SPLIT", f"np.float32({_SPLIT})")


def _softmax(kind: str) -> str:
    """``softmax(values, ints, floats)``: in place, of the first WORDS; the others become 0."""
    degree = 6 if kind == "float32" else 13
    series = Chebyshev.interpolate(np.exp, degree, [-np.log(2) / 2, np.log(2) / 2]).convert(kind=Polynomial).coef
    high = float(np.float32(0.693359375)) if kind == "float32" else 0.6931471803691238
    text = _SOFTMAX.replace("EXP_SERIES", horner(series, "r", kind)).replace("HIGH", repr(high))
    return text.replace("LOW", repr(float(np.log(2) - high)))


def _along() -> str:
    """``along(rows, weights, out)``: out[l] = Σ_j weights[j] rows[j, l], four rows at a time."""
    return """def along(rows, weights, out):
    for l in range(LANES):
        out[l] = REAL(0.0)
    j = 0
    while j + 4 <= DIM:
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        for l in range(LANES):
            pair = w0 * rows[j, l] + w1 * rows[j + 1, l]
            out[l] += pair + (w2 * rows[j + 2, l] + w3 * rows[j + 3, l])
        j += 4
    while j < DIM:
        w0 = weights[j]
        for l in range(LANES):
            out[l] += w0 * rows[j, l]
        j += 1"""


def _across() -> str:
    """``across(rows, weights, out)``: out[j] = Σ_l rows[j, l] weights[l], four rows at a time."""
    return """def across(rows, weights, out):
    j = 0
    while j + 4 <= DIM:
        s0, s1, s2, s3 = REAL(0.0), REAL(0.0), REAL(0.0), REAL(0.0)
        for l in range(LANES):
            s0 += rows[j, l] * weights[l]
            s1 += rows[j + 1, l] * weights[l]
            s2 += rows[j + 2, l] * weights[l]
            s3 += rows[j + 3, l] * weights[l]
        out[j], out[j + 1], out[j + 2], out[j + 3] = s0, s1, s2, s3
        j += 4
    while j < DIM:
        s0 = REAL(0.0)
        for l in range(LANES):
            s0 += rows[j, l] * weights[l]
        out[j] = s0
        j += 1"""


_DRAW = """def draw(key0, key1, start, words, floats, ints, context, query):
    lowest = np.float32(-0.9999999403953552)
    key2 = np.uint32(key0 ^ key1 ^ np.uint32(PARITY))
    for k in range(DIM):
        base = np.uint32(np.uint32(start + k) + key1)
        for l in range(ROWS):
            a = np.uint32(key0)
            b = np.uint32(base + np.uint32(np.uint32(l) * np.uint32(DIM)))
            ROUNDS
            words[0, l] = np.uint32(np.uint32(a >> np.uint32(9)) | np.uint32(0x3F800000))
            words[1, l] = np.uint32(np.uint32(b >> np.uint32(9)) | np.uint32(0x3F800000))
        for side in range(2):
            out = context if side == 0 else query
            for l in range(ROWS):
                u = max(lowest, (floats[side, l] - np.float32(1.0)) * np.float32(2.0) + lowest)
                floats[2, l] = u
                floats[3, l] = u * u
            for l in range(ROWS):
                floats[3, l] = np.float32(1.0) - floats[3, l]
            for l in range(ROWS):  # 1 - u^2 = 2^e m with m between 1/sqrt(2) and sqrt(2)
                e = np.int32(np.int32(ints[3, l] - np.int32(0x3F3504F3)) >> np.int32(23))
                ints[4, l] = np.int32(ints[3, l] - np.int32(e << np.int32(23)))
                floats[5, l] = np.float32(e) * np.float32(0.6931471805599453)
            for l in range(ROWS):
                f = floats[4, l] - np.float32(1.0)
                w = -(((LOG_SERIES * f * f * f - np.float32(0.5) * f * f) + f) + floats[5, l])
                c = w - np.float32(2.5)
                d = math.sqrt(w) - np.float32(3.0)
                ratio = BELOW if w < SPLIT else ABOVE
                out[k, l] = np.float32(1.4142135381698608) * (ratio * floats[2, l])"""

_SPREAD = """def spread(rows, offset, center, out):
    for k in range(DIM):
        mean = REAL(0.0)
        if center:
            total = REAL(0.0)
            for l in range(WORDS):
                total += REAL(rows[k, offset + l])
            mean = total / REAL(WORDS)
        for l in range(WORDS):
            out[k, l] = REAL(rows[k, offset + l]) - mean"""

_LARGEST = """def largest(values):
    found = values[0]
    for l in range(WORDS):
        found = values[l] if values[l] > found else found
    return found"""

_TOTAL = """def total_of(values, count):
    total = REAL(0.0)
    for l in range(count):
        total += values[l]
    return total"""

_INNER = """def inner(left, right):
    total = REAL(0.0)
    for l in range(LANES):
        total += left[l] * right[l]
    return total"""

_SOFTMAX = """def softmax(values, ints, floats):
    top = largest(values)
    for l in range(LANES):
        x = max(values[l] - top, REAL(LEAST))
        k = np.floor(x * REAL(1.4426950408889634) + REAL(0.5))
        r = (x - k * REAL(HIGH)) - k * REAL(LOW)
        values[l] = EXP_SERIES
        ints[l] = INT(INT(INT(k) + INT(BIAS)) << INT(SHIFT))
    for l in range(LANES):
        values[l] *= floats[l]
    for l in range(WORDS, LANES):
        values[l] = REAL(0.0)
    share = REAL(1.0) / total_of(values, WORDS)
    for l in range(LANES):
        values[l] *= share"""

_LOG_LABELS = """mean = total_of(shown, WORDS) * radius / REAL(WORDS)
    for l in range(LANES):
        labels[l] = radius * shown[l] - mean"""

_RAW_LABELS = """for l in range(LANES):
        labels[l] = radius * shown[l]
    softmax(labels, ints, floats)
    for l in range(LANES):
        labels[l] = REAL(WORDS) * labels[l] - REAL(1.0)"""

_BODY = """def one(context, query, shown, asked, radius, attend, value, rows, ints, floats, small, to_attend, to_value):
    labels, wanted, weights, found = rows[0], rows[1], rows[2], rows[3]
    read, estimate, pull = small[0], small[1], small[2]
    LABELS
    for l in range(LANES):
        wanted[l] = radius * asked[l]
    softmax(wanted, ints, floats)
    along(context, attend, weights)
    for l in range(LANES):
        weights[l] += attend[DIM] * labels[l]
    softmax(weights, ints, floats)
    across(context, weights, read)
    read[DIM] = inner(labels, weights)
    for j in range(DIM):
        sum_j = REAL(0.0)
        for e in range(DIM + 1):
            sum_j += value[j, e] * read[e]
        estimate[j] = sum_j
    along(query, estimate, found)
    softmax(found, ints, floats)
    for l in range(LANES):
        wanted[l] = found[l] - wanted[l]
    loss = inner(wanted, wanted)
    mean_error = inner(found, wanted)
    for l in range(LANES):
        found[l] *= wanted[l] - mean_error
    across(query, found, estimate)
    for e in range(DIM + 1):
        pull[e] = REAL(0.0)
    for j in range(DIM):
        for e in range(DIM + 1):
            to_value[j, e] += estimate[j] * read[e]
            pull[e] += value[j, e] * estimate[j]
    along(context, pull, found)
    for l in range(LANES):
        found[l] += labels[l] * pull[DIM]
    mean_pull = inner(weights, found)
    for l in range(LANES):
        found[l] = weights[l] * (found[l] - mean_pull)
    across(context, found, estimate)
    for j in range(DIM):
        to_attend[j] += estimate[j]
    to_attend[DIM] += inner(labels, found)
    return loss"""

_GRADIENT = """def gradient(attend, value, radius, starts, keys, directions, to_attend, to_value, loss):
    words = np.zeros((6, ROWS), np.uint32)
    floats, ints = words.view(np.float32), words.view(np.int32)
    drawn = np.empty((2, DIM, ROWS), np.float32)
    context, query = np.zeros((DIM, LANES), REAL), np.zeros((DIM, LANES), REAL)
    rows, small, both = np.zeros((4, LANES), REAL), np.zeros((3, DIM + 1), REAL), np.zeros((2, LANES), REAL)
    powers = np.zeros(LANES, INT)
    scales = powers.view(REAL)
    to_attend[:] = REAL(0.0)
    to_value[:] = REAL(0.0)
    loss[:] = REAL(0.0)
    for g in range(keys.shape[0]):
        for block in range(DOCUMENTS // BLOCK):
            start = np.uint32(block * ROWS * DIM)
            draw(keys[g, 0], keys[g, 1], start, words, floats, ints, drawn[0], drawn[1])
            for p in range(BLOCK):
                spread(drawn[0], p * WORDS, True, context)
                spread(drawn[1], p * WORDS, False, query)
                along(context, directions[g, block * BLOCK + p], both[0])
                along(query, directions[g, block * BLOCK + p], both[1])
                for r in range(starts[g], starts[g + 1]):
                    loss[r] += one(context, query, both[0], both[1], radius[r], attend[r], value[r], rows,
                                   powers, scales, small, to_attend[r], to_value[r])
    factor = REAL(WORDS / DOCUMENTS)
    for r in range(loss.shape[0]):
        loss[r] *= REAL(0.5) * factor
        for e in range(DIM + 1):
            to_attend[r, e] *= factor
            for j in range(DIM):
                to_value[r, j, e] *= factor"""
