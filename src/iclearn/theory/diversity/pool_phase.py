"""Phases of linear attention trained on a pool of tasks: what it does on new ones, read off its two errors."""

from __future__ import annotations

from typing import Any

import numpy as np

PHASES = ("learns in context", "memorizes", "worse than zero")
MEMORIZED = 2.0  # e_ICL over e_IDG beyond which the pool is said to be memorized


def pool_phase(icl: Any, idg: Any, noise: Any) -> np.ndarray:
    """The phase of each point, as an index into `PHASES`.

    2 where new tasks are answered worse than by zero (e_ICL > 1 + ρ), else 1 where their error is more than twice that
    on the pool's tasks, else 0. With `pool_errors` on arrays a phase diagram is one call.

    Args:
        icl: (…) e_ICL, for tasks of unit variance.
        idg: (…) e_IDG.
        noise: (…) ρ.

    Returns:
        (…) the index; −1 where an error is NaN.

    >>> pool_phase([0.2, 0.5, 3.0], [0.15, 0.1, 1.0], 0.1).tolist()
    [0, 1, 2]
    """
    icl, idg = np.asarray(icl, float), np.asarray(idg, float)
    found = np.where(icl > 1 + np.asarray(noise), 2, np.where(icl > MEMORIZED * idg, 1, 0))
    return np.where(np.isnan(icl) | np.isnan(idg), -1, found)
