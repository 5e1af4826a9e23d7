"""Models: attention and its disguises, and in-context algorithms with nothing to train."""

from .attention import MergedAttention, SeparateAttention
from .base import AbstractFeatureModel, AbstractModel, AbstractModelSpec
from .features import Cubic, FeatureMap, GramQuery
from .reduced import ConvSum, CubicMLP, ReducedMerged, ReducedSeparate
from .spec import Attention

__all__ = [
    "AbstractFeatureModel",
    "AbstractModel",
    "AbstractModelSpec",
    "Attention",
    "ConvSum",
    "Cubic",
    "CubicMLP",
    "FeatureMap",
    "GramQuery",
    "MergedAttention",
    "ReducedMerged",
    "ReducedSeparate",
    "SeparateAttention",
]
