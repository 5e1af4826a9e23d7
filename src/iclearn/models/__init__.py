"""Models: attention, linear networks equivalent to it, and in-context algorithms with nothing to train."""

from ..core.model import AbstractModel, AbstractModelSpec
from .attention import Attention
from .attention_models import MergedAttention, SeparateAttention
from .base import AbstractFeatureModel, HeadFactors
from .features import AbstractFeatureMap, Cubic, GramQuery
from .lsa import LSA, FixedGuessLSA, GuessGramQuery, GuessingLSA
from .lsa_together import LSAGroup, LSATogether
from .reduced import ConvSum, CubicMLP, ReducedMerged, ReducedSeparate
from .softmax_layers import SoftmaxLayer

__all__ = [
    "LSA", "AbstractFeatureMap", "AbstractFeatureModel", "AbstractModel", "AbstractModelSpec", "Attention", "ConvSum",
    "Cubic", "CubicMLP", "FixedGuessLSA", "GramQuery", "GuessGramQuery", "GuessingLSA", "HeadFactors", "LSAGroup",
    "LSATogether", "MergedAttention", "ReducedMerged", "ReducedSeparate", "SeparateAttention", "SoftmaxLayer",
]  # fmt: skip
