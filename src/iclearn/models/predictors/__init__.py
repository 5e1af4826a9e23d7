"""In-context algorithms as models: nothing to train, the same `predict(prompt)`."""

from .components import PCR, EmpiricalPCR
from .descent import GradientDescent
from .shrinkage import Bayes, LeastSquares, Ridge
from .softmax_descent import SoftmaxDescent

__all__ = ["PCR", "Bayes", "EmpiricalPCR", "GradientDescent", "LeastSquares", "Ridge", "SoftmaxDescent"]
