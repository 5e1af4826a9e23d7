"""The Initialization Determines Whether In-Context Learning Is Gradient Descent (Xie, Yuan, Rossi, Hannagan).

TMLR 2025, arXiv 2512.04268. Closed forms for prompts whose task vectors have a prior with a mean. The paper states what
heads can and cannot do; the formulas here are derived where they stand.
"""

# isort: off
from .bayes import BayesLoss, bayes_loss, wishart_expectation
from .gd import GradientStep, gd_step
from .heads import HeadOptimum, best_loss, span_loss
from .law import Law
from .lsa_loss import LSAWeights, lsa_coefficients, lsa_loss
from .noise_floor import adam_floor
from .optimum import (
    ConstantFit, Optimum, constant_fit, minimal_heads, one_direction_loss, optimal_weights, optimum,
    optimum_coefficients, step_matrix, yq_optimum,
)  # fmt: skip
from .small_head import carried_share, head_growth_rate, takeover_norm
from .summary import summary
from .token_moments import FeatureMoments, GramMoments, feature_moments, gram_moments, normal_equations

__all__ = [
    "BayesLoss", "ConstantFit", "FeatureMoments", "GradientStep", "GramMoments", "HeadOptimum", "LSAWeights", "Law",
    "Optimum", "adam_floor", "bayes_loss", "best_loss", "carried_share", "constant_fit", "feature_moments", "gd_step",
    "gram_moments", "head_growth_rate", "lsa_coefficients", "lsa_loss", "minimal_heads", "normal_equations",
    "one_direction_loss", "optimal_weights", "optimum", "optimum_coefficients", "span_loss", "step_matrix", "summary",
    "takeover_norm", "wishart_expectation", "yq_optimum",
]  # fmt: skip
