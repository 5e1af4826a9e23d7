"""Distributions of prompts."""

from ..core.task import AbstractSource, AbstractTask
from .covariance import Covariance
from .given import GivenData
from .pooled_regression import PooledRegression
from .regression import LinearRegression
from .softmax_regression import SoftmaxRegression
from .task_covariance import TaskCovariance
from .varied_regression import VariedRegression

__all__ = [
    "AbstractSource", "AbstractTask", "Covariance", "GivenData", "LinearRegression", "PooledRegression",
    "SoftmaxRegression", "TaskCovariance", "VariedRegression",
]  # fmt: skip
