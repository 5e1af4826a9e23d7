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
from .arc_cosine import ArcCosine
from .boosted_trees import BoostedTrees
from .components import PCR, EmpiricalPCR
from .descent import Averaging, ConjugateGradients, GradientDescent, OnlineDescent
from .filters import AbstractFilter, NewtonFilter, RidgeFilter, StepFilter
from .greedy_tree import GreedyTree
from .logistic_fit import Logistic
from .neighbors import NearestNeighbors
from .network_fit import NetworkDescent
from .noise_mixtures import MixedNoise
from .penalized_fits import Huber, Lasso, LeastAbsolute
from .pool_mixtures import DiscreteMMSE, Oracle, SmoothedMMSE
from .shrinkage import Bayes, LeastSquares, Ridge
from .softmax_descent import SoftmaxDescent

__all__ = [
    "PCR", "AbstractFilter", "ArcCosine", "Averaging", "Bayes", "BoostedTrees", "ConjugateGradients", "DiscreteMMSE",
    "EmpiricalPCR", "GradientDescent", "GreedyTree", "Huber", "Lasso", "LeastAbsolute", "LeastSquares", "Logistic",
    "MixedNoise", "NearestNeighbors", "NetworkDescent", "NewtonFilter", "OnlineDescent", "Oracle", "Ridge",
    "RidgeFilter", "SmoothedMMSE", "SoftmaxDescent", "StepFilter",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Predictors of installed packages (`core.registry.PREDICTORS`)."""
    if name in PREDICTORS.names():
        return PREDICTORS.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
