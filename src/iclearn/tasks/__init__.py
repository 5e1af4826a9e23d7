"""Distributions of prompts."""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..core.task import AbstractSource, AbstractTask
    from .boolean_functions import BooleanFunctions
    from .covariance import Covariance
    from .curriculum import Curriculum
    from .function_class import FunctionClass
    from .function_laws import (
        AbstractFunctions,
        LinearFunctions,
        QuadraticFunctions,
        ReluFunctions,
        SignFunctions,
        SinusoidFunctions,
        SparseFunctions,
        TreeFunctions,
    )
    from .function_points import Points
    from .given import GivenData
    from .pooled_regression import PooledRegression
    from .prompt_shifts import Shift, akyurek_shifts, campbell_shifts, garg_shifts, sweep_shifts
    from .regression import LinearRegression
    from .softmax_regression import SoftmaxRegression
    from .task_covariance import TaskCovariance
    from .varied_regression import VariedRegression

_HOMES = {
    "..core.task": (
        "AbstractSource",
        "AbstractTask",
    ),
    ".boolean_functions": ("BooleanFunctions",),
    ".covariance": ("Covariance",),
    ".curriculum": ("Curriculum",),
    ".function_class": ("FunctionClass",),
    ".function_laws": (
        "AbstractFunctions",
        "LinearFunctions",
        "QuadraticFunctions",
        "ReluFunctions",
        "SignFunctions",
        "SinusoidFunctions",
        "SparseFunctions",
        "TreeFunctions",
    ),
    ".function_points": ("Points",),
    ".given": ("GivenData",),
    ".pooled_regression": ("PooledRegression",),
    ".prompt_shifts": (
        "Shift",
        "akyurek_shifts",
        "campbell_shifts",
        "garg_shifts",
        "sweep_shifts",
    ),
    ".regression": ("LinearRegression",),
    ".softmax_regression": ("SoftmaxRegression",),
    ".task_covariance": ("TaskCovariance",),
    ".varied_regression": ("VariedRegression",),
}

__all__ = [
    "AbstractFunctions", "AbstractSource", "AbstractTask", "BooleanFunctions", "Covariance", "Curriculum",
    "FunctionClass", "GivenData", "LinearFunctions", "LinearRegression", "Points", "PooledRegression",
    "QuadraticFunctions", "ReluFunctions", "Shift", "SignFunctions", "SinusoidFunctions", "SoftmaxRegression",
    "SparseFunctions", "TaskCovariance", "TreeFunctions", "VariedRegression", "akyurek_shifts", "campbell_shifts",
    "garg_shifts", "sweep_shifts",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
