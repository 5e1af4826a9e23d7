"""Source of two matrix products, blocked so that numbers stay in registers.

A library's product is made for larger matrices, and it brings threads of its own; these are as fast as it is at the
sizes of a block of prompts (docs/compiled.md), whatever else the process does.
"""

from __future__ import annotations

from collections.abc import Callable

ROWS_AT_ONCE, TERMS_AT_ONCE = 5, 4  # rows that share what is read, and how much of it is held


def filled(count: int, multiple: int = TERMS_AT_ONCE) -> int:
    """A number of terms up to the next multiple: the products take no other.

    Args:
        count: the number.
        multiple: of what.

    Returns:
        The multiple.

    >>> filled(67), filled(67, 8)
    (68, 72)
    """
    return -(-count // multiple) * multiple


def product_source(name: str, width: str = "out.shape[1]") -> str:
    """The function ``name(left, right, out)``: out = left @ right.

    Args:
        name: of the function.
        width: columns of `out`; it is fastest where this is a constant.

    Returns:
        Its source without a decorator; the terms that are summed must be `filled` up.
    """

    def block(rows: int) -> list[str]:
        rest = [f"for k in range({TERMS_AT_ONCE}, right.shape[0], {TERMS_AT_ONCE}):"]
        return [*part(rows, "0", True), *rest, *(f"    {line}" for line in part(rows, "k", False))]

    def part(rows: int, start: str, first: bool) -> list[str]:
        terms = range(TERMS_AT_ONCE)
        lines = [f"w{i}_{k} = left[r + {i}, {start} + {k}]" for i in range(rows) for k in terms]
        lines += [f"for n in range({width}):", *(f"    e{k} = right[{start} + {k}, n]" for k in terms)]
        for i in range(rows):
            total = " + ".join([*([] if first else [f"out[r + {i}, n]"]), *(f"w{i}_{k} * e{k}" for k in terms)])
            lines.append(f"    out[r + {i}, n] = {total}")
        return lines

    return _over_rows(name, block)


def inner_source(name: str, width: str = "left.shape[1]") -> str:
    """The function ``name(left, right, out)``: out += left @ right.T.

    Args:
        name: of the function.
        width: columns of `left`; it is fastest where this is a constant.

    Returns:
        Its source without a decorator; the rows of `right` must be `filled` up. It is fast where sums may be reordered.
    """

    def block(rows: int) -> list[str]:
        cells = [(i, k) for i in range(rows) for k in range(TERMS_AT_ONCE)]
        lines = [f"for k in range(0, right.shape[0], {TERMS_AT_ONCE}):", *(f"    s{i}_{k} = ZERO" for i, k in cells)]
        lines += [f"    for n in range({width}):", *(f"        x{i} = left[r + {i}, n]" for i in range(rows))]
        lines += [f"        e{k} = right[k + {k}, n]" for k in range(TERMS_AT_ONCE)]
        lines += [f"        s{i}_{k} += x{i} * e{k}" for i, k in cells]
        return [*lines, *(f"    out[r + {i}, k + {k}] += s{i}_{k}" for i, k in cells)]

    return _over_rows(name, block)


def _over_rows(name: str, block: Callable[[int], list[str]]) -> str:
    lines = [f"def {name}(left, right, out):", "    r = 0"]
    for rows in (ROWS_AT_ONCE, 1):
        lines.append(f"    while r + {rows} <= out.shape[0]:")
        lines += [f"        {line}" for line in (*block(rows), f"r += {rows}")]
    return "\n".join(lines)
