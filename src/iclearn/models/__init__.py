"""Models: attention, linear networks equivalent to it, and in-context algorithms with nothing to train."""

from typing import TYPE_CHECKING

from ..core.lazy_names import lazy_names

if TYPE_CHECKING:
    from ..core.model import AbstractModel, AbstractModelSpec
    from .attention import Attention
    from .attention_models import MergedAttention, SeparateAttention
    from .base import AbstractFeatureModel, HeadFactors
    from .causal_blocks import CausalModel
    from .causal_transformer import CausalTransformer
    from .deep_attention import DeepAttention
    from .features import AbstractFeatureMap, Cubic, GramQuery
    from .label_gram import GammaAttention, LabelGram, MatrixAttention
    from .label_gram_draws import GramDraws, draw_label_gram
    from .lsa import LSA, FixedGuessLSA, GuessGramQuery, GuessingLSA
    from .lsa_together import LSAGroup, LSATogether
    from .reduced import ConvSum, CubicMLP, ReducedMerged, ReducedSeparate
    from .ridge_solutions import GammaSums, solve_features, solve_gamma, solve_symmetric
    from .softmax_layers import SoftmaxLayer
    from .step_transformers import DescentTransformer, SparseTransformer
    from .transformer import LinearTransformer
    from .transformer_forms import AbstractLinearTransformer, DiagonalTransformer, FullTransformer, GramPrompt

_HOMES = {
    "..core.model": (
        "AbstractModel",
        "AbstractModelSpec",
    ),
    ".attention": ("Attention",),
    ".attention_models": (
        "MergedAttention",
        "SeparateAttention",
    ),
    ".base": (
        "AbstractFeatureModel",
        "HeadFactors",
    ),
    ".causal_blocks": ("CausalModel",),
    ".causal_transformer": ("CausalTransformer",),
    ".deep_attention": ("DeepAttention",),
    ".features": (
        "AbstractFeatureMap",
        "Cubic",
        "GramQuery",
    ),
    ".label_gram": (
        "GammaAttention",
        "LabelGram",
        "MatrixAttention",
    ),
    ".label_gram_draws": (
        "GramDraws",
        "draw_label_gram",
    ),
    ".lsa": (
        "LSA",
        "FixedGuessLSA",
        "GuessGramQuery",
        "GuessingLSA",
    ),
    ".lsa_together": (
        "LSAGroup",
        "LSATogether",
    ),
    ".reduced": (
        "ConvSum",
        "CubicMLP",
        "ReducedMerged",
        "ReducedSeparate",
    ),
    ".ridge_solutions": (
        "GammaSums",
        "solve_features",
        "solve_gamma",
        "solve_symmetric",
    ),
    ".softmax_layers": ("SoftmaxLayer",),
    ".step_transformers": (
        "DescentTransformer",
        "SparseTransformer",
    ),
    ".transformer": ("LinearTransformer",),
    ".transformer_forms": (
        "AbstractLinearTransformer",
        "DiagonalTransformer",
        "FullTransformer",
        "GramPrompt",
    ),
}

__all__ = [
    "LSA", "AbstractFeatureMap", "AbstractFeatureModel", "AbstractLinearTransformer", "AbstractModel",
    "AbstractModelSpec", "Attention", "CausalModel", "CausalTransformer", "ConvSum", "Cubic", "CubicMLP",
    "DeepAttention", "DescentTransformer", "DiagonalTransformer", "FixedGuessLSA", "FullTransformer",
    "GammaAttention", "GammaSums", "GramDraws", "GramPrompt", "GramQuery", "GuessGramQuery", "GuessingLSA",
    "HeadFactors", "LSAGroup", "LSATogether", "LabelGram",
    "LinearTransformer", "MatrixAttention", "MergedAttention", "ReducedMerged", "ReducedSeparate",
    "SeparateAttention", "SoftmaxLayer", "SparseTransformer", "draw_label_gram", "solve_features", "solve_gamma",
    "solve_symmetric",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
