"""The checker of annotations that tests run under: beartype, for which numpy's scalars are numbers.

What matters is shapes. A scalar may be Python's, numpy's, or a traced one where a float is asked for.
"""

import jax
import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype

_NUMBERS = FrozenDict(
    {
        bool: bool | np.bool_,
        int: int | np.integer,
        float: float | int | np.floating | np.integer | jax.Array,
        np.ndarray: np.ndarray | np.generic,
    }
)
typechecker = beartype(conf=BeartypeConf(hint_overrides=_NUMBERS))
