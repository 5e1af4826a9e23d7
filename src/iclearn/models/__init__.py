"""Models: attention and its disguises, and in-context algorithms with nothing to train."""

from .attention import MergedAttention, SeparateAttention
from .base import AbstractFeatureModel, AbstractModel, AbstractModelSpec, AbstractReducibleModel
from .features import Cubic, FeatureMap, GramQuery
from .lsa import LSA, FixedGuessLSA, GuessGramQuery, GuessingLSA, LSAGroup, LSATogether
from .reduced import ConvSum, CubicMLP, ReducedMerged, ReducedSeparate
from .softmax_descent import SoftmaxDescent
from .softmax_layers import SoftmaxLayer
from .spec import Attention

__all__ = [
    "LSA",
    "AbstractFeatureModel",
    "AbstractModel",
    "AbstractModelSpec",
    "AbstractReducibleModel",
    "Attention",
    "ConvSum",
    "Cubic",
    "CubicMLP",
    "FeatureMap",
    "FixedGuessLSA",
    "GramQuery",
    "GuessGramQuery",
    "GuessingLSA",
    "LSAGroup",
    "LSATogether",
    "MergedAttention",
    "ReducedMerged",
    "ReducedSeparate",
    "SeparateAttention",
    "SoftmaxDescent",
    "SoftmaxLayer",
]
