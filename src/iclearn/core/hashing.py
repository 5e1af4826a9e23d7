"""SHA-256 of named arrays: what stands for numbers in recipes, ledgers and cards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np


def digest_arrays(items: Iterable[tuple[str, Any]], *, one_nan: bool = False) -> str:
    """SHA-256 of every array with its name, shape and type, in the order given.

    Args:
        items: pairs (name, array); an array of objects is hashed as its list prints.
        one_nan: count every NaN as the same one (codecs do not keep which one it was), and −0 as 0.

    Returns:
        64 hexadecimal digits.

    >>> digest_arrays([("a", np.zeros(2))])[:12]
    '561745decad7'
    """
    sha = hashlib.sha256()
    for name, value in items:
        array = np.ascontiguousarray(value)
        if one_nan and array.dtype.kind == "f":
            array = np.where(np.isnan(array), array.dtype.type(np.nan), array) + array.dtype.type(0)
        sha.update(f"{name}{array.shape}{array.dtype.str}".encode())
        sha.update(array.tobytes() if array.dtype != object else str(array.tolist()).encode())
    return sha.hexdigest()
