"""Training Dynamics of In-Context Learning in Linear Attention: Zhang, Singh, Latham, Saxe, arXiv 2501.16265.

Closed forms and ODEs for attention trained on linear regression, for any spectrum of the inputs. Numbers in brackets
are the paper's equations. Nothing here shares code with the engines that train.
"""

# isort: off
from .escape import SmallHead, effective_head_scale
from .flow import conserved_merged, conserved_separate, gradient_flow, random_merged, random_separate, velocity
from .landscape import gradient, hessian_index, hessian_spectrum, landscape, loss_of
from .merged import (
    effective_init, escape_time, growing_modes, is_white, merged_course, merged_drop_time, merged_fixed_points,
    merged_index_at_zero, typical_effective_init, white_course, white_drop_time,
)  # fmt: skip
from .population import eigenpairs, force, gain_of, inflation, population_loss, second_moment, spectrum
from .predict import merged_states, predict
from .saddles import (
    conspicuous_plateaus, fixed_point_loss, fixed_point_matrix, fixed_point_weights, learned_components, pcr_matrix,
    realize, saddle_index, saddle_losses, saddle_weights, subsets,
)  # fmt: skip
from .scalar import (
    HALF_LOSS, drop_duration, fixed_value, growth_rate, head_course, integrate_head, plateau_duration, time_to_reach,
)  # fmt: skip
from .sequence import Drop, Drops, drop_sequence, drop_sequences, typical_sequence
from .staircase import loss_of_progress, progress, weights_of_progress
from .summary import summary
from .weights import MergedWeights, SeparateWeights, read_weights

__all__ = [
    "HALF_LOSS", "Drop", "Drops", "MergedWeights", "SeparateWeights", "SmallHead", "conserved_merged",
    "conserved_separate", "conspicuous_plateaus", "drop_duration", "drop_sequence", "drop_sequences",
    "effective_head_scale", "effective_init", "eigenpairs", "escape_time", "fixed_point_loss", "fixed_point_matrix",
    "fixed_point_weights", "fixed_value", "force", "gain_of", "gradient", "gradient_flow", "growing_modes",
    "growth_rate", "head_course", "hessian_index", "hessian_spectrum", "inflation", "integrate_head", "is_white",
    "landscape", "learned_components", "loss_of", "loss_of_progress", "merged_course", "merged_drop_time",
    "merged_fixed_points", "merged_index_at_zero", "merged_states", "pcr_matrix", "plateau_duration",
    "population_loss", "predict", "progress", "random_merged", "random_separate", "read_weights", "realize",
    "saddle_index", "saddle_losses", "saddle_weights", "second_moment", "spectrum", "subsets", "summary",
    "time_to_reach", "typical_effective_init", "typical_sequence", "velocity", "weights_of_progress", "white_course",
    "white_drop_time",
]  # fmt: skip
