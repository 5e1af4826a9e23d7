"""In-context algorithms as models: nothing to train, the same `predict(prompt)`."""

from typing import Any

from ...core.registry import PREDICTORS
from .components import PCR, EmpiricalPCR
from .descent import GradientDescent
from .shrinkage import Bayes, LeastSquares, Ridge
from .softmax_descent import SoftmaxDescent

__all__ = ["PCR", "Bayes", "EmpiricalPCR", "GradientDescent", "LeastSquares", "Ridge", "SoftmaxDescent"]


def __getattr__(name: str) -> Any:
    """Predictors of installed packages (`core.registry.PREDICTORS`)."""
    if name in PREDICTORS.names():
        return PREDICTORS.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
