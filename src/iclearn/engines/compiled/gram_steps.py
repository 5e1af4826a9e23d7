"""Source of training steps of heads on a Gram matrix (`core.model.GramHeads`), from the weights to the weights.

The loss comes from fresh prompts (`fresh_prompts`) or from a quadratic form; its derivative in the coefficients is
carried to the weights, which an update rule moves. Sizes that are not named in a source are known when it runs, so one
program serves all numbers of members and heads.
"""

from __future__ import annotations

from .fresh_prompts import PromptSizes, prompt_functions, size_constants
from .row_products import product_source
from .update_rules import constants_source, update_source

_COMMON = 'nogil=True, error_model="numpy", boundscheck=False'
_FAST = {"exact": '{"contract"}', "sums": '{"contract", "reassoc"}'}


def fresh_source(sizes: PromptSizes, rule: str) -> str:
    """The program of a run on fresh prompts, in single precision.

    Args:
        sizes: what it depends on.
        rule: name of the update rule.

    Returns:
        Source with the function ``advance(…, keys, mean, half, words, floats, ints, tokens, tasks, entries, target,
        found)``. What comes first is said in `GramRun`; keys (step, 4) are the words of the keys of inputs and of task
        vectors, mean (dim) that of the task vectors, half the number of prompts divided by two, the others room.
    """
    real, block = "float32[:, ::1]", "float32[:, :, ::1]"
    arguments = {"keys": "uint32[:, ::1]", "mean": "float32[::1]", "half": "int64", "words": "uint32[:, ::1]"}
    arguments |= {"floats": real, "ints": "int32[:, ::1]", "tokens": block, "tasks": block, "entries": real}
    arguments |= {"target": "float32[::1]", "found": real}
    given = ", ".join(name for name in arguments if name != "keys")
    step = f"gradient(table, slope, keys[s], {given})"
    return _program("float32", rule, size_constants(sizes), prompt_functions(sizes), arguments, step)


def exact_source(dtype: str, rule: str) -> str:
    """The program of a run on the exact loss of infinitely many prompts.

    Args:
        dtype: name of the precision.
        rule: name of the update rule.

    Returns:
        Source with the function ``advance(…, second, cross, root, constant, pushed, turned)``. What comes first is said
        in `GramRun`; then E[uuᵀ], E[u wᵀ]A transposed, A (without entries where it is the identity) and E[y_q²] of
        `tasks.gram_moments.GramForm`, and room.
    """
    matrix = f"{dtype}[:, ::1]"
    arguments = {"second": matrix, "cross": matrix, "root": matrix, "constant": "float64"}
    arguments |= {"pushed": matrix, "turned": matrix}
    functions = [("exact", product_source("forward")), ("exact", _TURN), ("sums", _FORM)]
    return _program(dtype, rule, [], functions, arguments, f"form(table, slope, {', '.join(arguments)})")


def _program(
    dtype: str, rule: str, constants: list[str], functions: list[tuple[str, str]], arguments: dict[str, str], step: str
) -> str:
    """A module: constants, functions with the liberty each may take, and the loop over steps."""
    heads = [
        ("sums", _IDLE),
        ("exact", _LIFT),
        ("exact", _TABLES),
        ("sums", _PULLED),
        ("exact", update_source("weights.size", rule)),
    ]
    made = [f"@numba.njit(fastmath={_FAST[kind]}, {_COMMON})\n{text}" for kind, text in (*functions, *heads)]
    flat, two, three, four = (f"{dtype}[{axes}::1]" for axes in ("", ":, ", ":, :, ", ":, :, :, "))
    first = {"weights": flat, "p": three, "q": four, "guess": two, "out": flat, "along_p": three, "along_q": four}
    first |= {"along_guess": two, "memory": flat, "hyper": flat, "moves": flat, "table": two, "slope": two}
    first |= {"lifted": flat, "spread": two, "work": flat, "start": "int64", "every": "int64"}
    first |= {"losses": flat, "records": two}
    every = {**first, **arguments}
    lines = [
        f'@numba.njit("void({", ".join(every.values())})", cache=CACHE, fastmath={_FAST["exact"]}, {_COMMON})',
        f"def advance({', '.join(every)}):",
        "    for s in range(losses.size):",
        "        if s % every == 0:",
        "            for n in range(weights.size):",
        "                records[s // every, n] = weights[n]",
        "        tables(p, q, guess, table, lifted, spread)",
        f"        losses[s] = {step}",
        *(_SCALED if rule in ("gd", "sgd") else []),
        "        pulled(p, q, guess, moves, slope, along_p, along_q, along_guess, lifted, spread, work)",
        "        update(weights, out, memory, hyper, start + s)",
    ]
    imports = "import math\n\nimport numba\nimport numpy as np"
    known = "\n".join([constants_source(dtype) + "ZERO = REAL(0.0)", *constants])
    return "\n\n\n".join([imports, known, *made, "\n".join(lines)]) + "\n"


_SCALED = [  # the rule of gradient descent takes lr times the derivative
    "        for r in range(slope.shape[0]):",
    "            for n in range(slope.shape[1]):",
    "                slope[r, n] *= hyper[0]",
]

# whether a head is all zero, as those are to which members are filled up: it changes nothing and has no derivative
_IDLE = """def idle(p, q, m, h):
    total = ZERO
    for a in range(p.shape[2]):
        total += abs(p[m, h, a])
    if total != ZERO:
        return False
    for a in range(p.shape[2]):
        for b in range(p.shape[2]):
            total += abs(q[m, h, a, b])
    return total == ZERO"""

# Q_h [I; w_qᵀ] of one head
_LIFT = """def lift(q, guess, m, h, lifted):
    dim = guess.shape[1]
    for b in range(dim + 1):
        last = q[m, h, b, dim]
        for j in range(dim):
            lifted[b * dim + j] = q[m, h, b, j] + last * guess[m, j]"""

# T = Σ_h p_h ⊗ Q_h [I; w_qᵀ], and T_ab + T_ba below the guess (`models.lsa.head_tensor`, `GuessGramQuery.fold`)
_TABLES = """def tables(p, q, guess, table, lifted, spread):
    dim = guess.shape[1]
    for m in range(p.shape[0]):
        for a in range(dim + 1):
            for n in range(lifted.size):
                spread[a, n] = ZERO
        for h in range(p.shape[1]):
            if idle(p, q, m, h):
                continue
            lift(q, guess, m, h, lifted)
            for a in range(dim + 1):
                w = p[m, h, a]
                for n in range(lifted.size):
                    spread[a, n] += w * lifted[n]
        for j in range(dim):
            row, k = m * dim + j, 1
            table[row, 0] = guess[m, j]
            for a in range(dim + 1):
                table[row, k] = spread[a, a * dim + j]
                k += 1
                for b in range(a + 1, dim + 1):
                    table[row, k] = spread[a, b * dim + j] + spread[b, a * dim + j]
                    k += 1"""

_PULLED = """def pulled(p, q, guess, moves, slope, along_p, along_q, along_guess, lifted, spread, work):
    dim = guess.shape[1]
    for m in range(p.shape[0]):
        for j in range(dim):
            row, k = m * dim + j, 1
            along_guess[m, j] = slope[row, 0]
            for a in range(dim + 1):
                for b in range(a, dim + 1):
                    spread[a, b * dim + j] = slope[row, k]
                    spread[b, a * dim + j] = slope[row, k]
                    k += 1
        for h in range(p.shape[1]):
            if idle(p, q, m, h):
                for a in range(dim + 1):
                    along_p[m, h, a] = ZERO
                    for b in range(dim + 1):
                        along_q[m, h, a, b] = ZERO
                continue
            lift(q, guess, m, h, lifted)
            for n in range(work.size):
                work[n] = ZERO
            for a in range(dim + 1):
                w, total = p[m, h, a], ZERO
                for n in range(work.size):
                    total += spread[a, n] * lifted[n]
                    work[n] += w * spread[a, n]
                along_p[m, h, a] = total
            for b in range(dim + 1):
                last, total = q[m, h, b, dim], ZERO
                for j in range(dim):
                    along_q[m, h, b, j] = work[b * dim + j]
                    total += work[b * dim + j] * guess[m, j]
                    along_guess[m, j] += work[b * dim + j] * last
                along_q[m, h, b, dim] = total
        for j in range(dim):
            along_guess[m, j] *= moves[m]"""

# rows of a table (dim, pair) combined by a matrix or its transpose
_TURN = """def turn(table, first, root, flip, turned):
    dim = root.shape[0]
    for k in range(dim):
        for n in range(turned.shape[1]):
            turned[k, n] = ZERO
        for j in range(dim):
            w = root[k, j] if flip else root[j, k]
            for n in range(turned.shape[1]):
                turned[k, n] += w * table[first + j, n]
    for k in range(dim):
        for n in range(turned.shape[1]):
            table[first + k, n] = turned[k, n]"""

_FORM = """def form(table, slope, second, cross, root, constant, pushed, turned):
    dim = cross.shape[0]
    if root.size:
        for first in range(0, table.shape[0], dim):
            turn(table, first, root, False, turned)
    forward(table, second, pushed)
    members = table.shape[0] // dim
    total, factor = ZERO, REAL(2.0) / REAL(members)
    for m in range(members):
        for j in range(dim):
            row = m * dim + j
            for n in range(table.shape[1]):
                total += table[row, n] * (pushed[row, n] - REAL(2.0) * cross[j, n])
                slope[row, n] = factor * (pushed[row, n] - cross[j, n])
    if root.size:
        for first in range(0, table.shape[0], dim):
            turn(slope, first, root, True, turned)
    return constant + total / members"""
