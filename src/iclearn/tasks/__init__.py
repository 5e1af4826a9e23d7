"""Distributions of prompts."""

from ..core.task import AbstractSource, AbstractTask
from .covariance import Covariance
from .given import GivenData
from .regression import LinearRegression
from .softmax_regression import SoftmaxRegression
from .varied_regression import VariedRegression

__all__ = [
    "AbstractSource", "AbstractTask", "Covariance", "GivenData", "LinearRegression", "SoftmaxRegression",
    "VariedRegression",
]  # fmt: skip
