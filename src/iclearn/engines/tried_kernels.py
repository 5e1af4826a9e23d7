"""Programs of large products on a GPU: compiled after XLA has tried out its kernels for them.

Without trying, a step of 36 transformers takes 34 ms on an H200 and with it 12; for small products trying takes longer
than all their training (`jax_settings`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx

from ..core.jax_settings import tuning_options
from ..core.model import AbstractModel

TUNED_PATH = "xla, kernels tried out"


def is_tuned(model: AbstractModel) -> bool:
    """Whether XLA tries out kernels before it compiles the training of a model: on a GPU, for large products.

    Args:
        model: the model.
    """
    return model.large_products and bool(tuning_options())


@functools.cache
def tuned(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function compiled with kernels that were tried out.

    Args:
        function: what to compile.

    Returns:
        The compiled function.
    """
    jit: Any = eqx.filter_jit  # its types know nothing of what it passes on
    return jit(function, compiler_options=tuning_options())
