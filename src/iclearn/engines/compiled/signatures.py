"""What generated programs take: read from their source, without importing what compiles them."""

from __future__ import annotations

from typing import NamedTuple


class Parameter(NamedTuple):
    """One parameter of an entry.

    Args:
        kind: ``float64``, ``float32`` or ``int64``.
        axes: how many an array of them has; 0 for a number alone.
    """

    kind: str
    axes: int


def read_signature(source: str) -> tuple[str, list[Parameter]]:
    r"""The entry of a program: its last function, whose decorator holds its signature.

    Args:
        source: of a program.

    Returns:
        Its name and its parameters.

    >>> read_signature('\n@numba.njit("void(float32[:, ::1], int64)", nogil=True)\ndef train(rows, step):\n')
    ('train', [Parameter(kind='float32', axes=2), Parameter(kind='int64', axes=0)])
    """
    entry = source[source.rindex("\n@") :]
    name = entry.partition("def ")[2].partition("(")[0]
    inside = entry.partition("void(")[2].partition(')"')[0].replace("[:, ::1]", "[2]").replace("[::1]", "[1]")
    words = [word.strip().rstrip("]").partition("[") for word in inside.split(",")]
    return name, [Parameter(kind, int(axes or 0)) for kind, _, axes in words]
