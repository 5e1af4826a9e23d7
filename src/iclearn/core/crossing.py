"""The one reader of crossings: when does a curve first fall below a height?"""

from __future__ import annotations

from typing import Any

import numpy as np


def first_below(curve: Any, times: Any, height: Any, xp: Any = np, *, reach: bool = False) -> Any:
    """The time at which a curve first falls below a height, interpolated linearly between its points.

    Args:
        curve: (point) the curve.
        times: (point) the time of each point.
        height: the height.
        xp: ``numpy``, or ``jax.numpy`` for arrays that may be traced.
        reach: whether to reach the height is enough.

    Returns:
        The time; the first one of a curve that starts below the height, and NaN for one that never falls below it.

    >>> float(first_below(np.array([4.0, 3.0, 1.0]), np.array([0.0, 1.0, 2.0]), 2.0))
    1.5
    """
    below = curve <= height if reach else curve < height
    last = xp.argmax(below)
    first = xp.maximum(last - 1, 0)
    fall = curve[first] - curve[last]
    share = xp.where(last > 0, (curve[first] - height) / xp.where(last > 0, fall, 1), 0.0)
    return xp.where(below.any(), times[first] + share * (times[last] - times[first]), xp.nan)
