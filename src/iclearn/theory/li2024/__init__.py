"""The Closeness of In-Context Learning and Weight Shifting for Softmax Regression (Li, Song, Xia, Yu, Zhou).

NeurIPS 2024, arXiv 2304.13276. Softmax regression, its shifts of weights, data and target, and their bounds.
"""

# isort: off
from .bounds import (
    LARGEST_CURVATURE, ShiftReport, StepInstance, TightInstance, data_shift_bound, data_shift_report, hessian_bound,
    log_paper_constant, sharpest_curvature, spectral_norm, tight_instance, tight_step, weight_shift_bound,
    weight_shift_report,
)  # fmt: skip
from .shifts import (
    WeightShift, data_for_weight_shift, data_shift_target, gd_shift_bound, gd_weights, weight_for_data_shift,
    weight_shift_target,
)  # fmt: skip
from .softmax_loss import gradient, hessian, logit_hessian, loss, prediction, softmax_jacobian

__all__ = [
    "LARGEST_CURVATURE", "ShiftReport", "StepInstance", "TightInstance", "WeightShift", "data_for_weight_shift",
    "data_shift_bound", "data_shift_report", "data_shift_target", "gd_shift_bound", "gd_weights", "gradient", "hessian",
    "hessian_bound", "log_paper_constant", "logit_hessian", "loss", "prediction", "sharpest_curvature",
    "softmax_jacobian", "spectral_norm", "tight_instance", "tight_step", "weight_for_data_shift", "weight_shift_bound",
    "weight_shift_report", "weight_shift_target",
]  # fmt: skip
