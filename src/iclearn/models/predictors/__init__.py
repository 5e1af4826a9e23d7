"""In-context algorithms as models: nothing to train, the same `predict(prompt)`.

>>> import jax.numpy as jnp
>>> from iclearn.core.prompt import full_prompt
>>> x = jnp.array([[1.0, 0.0], [0.0, 1.0]])
>>> prompt = full_prompt(x, x @ jnp.array([[2.0], [3.0]]), jnp.ones(2))
>>> [round(float(p.predict(prompt)[0]), 6) for p in (LeastSquares(), Ridge(1.0))]
[5.0, 2.5]
"""

from typing import Any

from ...core.registry import PREDICTORS
from .components import PCR, EmpiricalPCR
from .descent import GradientDescent
from .filters import AbstractFilter, NewtonFilter, RidgeFilter, StepFilter
from .pool_mixtures import DiscreteMMSE, Oracle, SmoothedMMSE
from .shrinkage import Bayes, LeastSquares, Ridge
from .softmax_descent import SoftmaxDescent

__all__ = [
    "PCR", "AbstractFilter", "Bayes", "DiscreteMMSE", "EmpiricalPCR", "GradientDescent", "LeastSquares",
    "NewtonFilter", "Oracle", "Ridge", "RidgeFilter", "SmoothedMMSE", "SoftmaxDescent", "StepFilter",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Predictors of installed packages (`core.registry.PREDICTORS`)."""
    if name in PREDICTORS.names():
        return PREDICTORS.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
