"""Task diversity: linear attention trained on a pool of tasks, exactly and as dim → ∞ (lu2025, letey2026).

Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122(28), 2025, arXiv 2405.11751; Letey, Zavatone-Veth, Lu, Pehlevan,
ICLR 2026, arXiv 2509.26551. A pool of k = κd tasks, n = τd² prompts of ℓ = αd pairs with noise ρ, ridge λ; errors on
the pool's tasks (e_IDG) and on new ones (e_ICL), noise of the target included. Units are lu2025's: inputs N(0, I/d)
and tasks with E‖w‖² = d; with inputs N(0, I) and tasks w/√d every number is the same.
"""

# isort: off
from .isotropic import PoolErrors, pool_errors, pool_resolvent
from .long_contexts import (
    bayes_error, best_ridge, gap_limit, growth_rate, joint_gap_limit, nonmonotone_edge,
)  # fmt: skip
from .matrix_errors import TaskMoments, best_matrix, feature_moments, matrix_error, new_moments, pool_moments
from .matrix_flow import flow_matrices
from .pool_phase import PHASES, pool_phase
from .structured import StructuredErrors, spectrum_resolvent, structured_errors
from .task_spectra import task_spectrum

__all__ = [
    "PHASES", "PoolErrors", "StructuredErrors", "TaskMoments", "bayes_error", "best_matrix", "best_ridge",
    "feature_moments", "flow_matrices", "gap_limit", "growth_rate", "joint_gap_limit", "matrix_error",
    "new_moments", "nonmonotone_edge", "pool_errors", "pool_moments", "pool_phase", "pool_resolvent",
    "spectrum_resolvent", "structured_errors", "task_spectrum",
]  # fmt: skip
