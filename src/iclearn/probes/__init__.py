"""Probes: pure functions of loss curves, weights, traces and models."""

# isort: off
from typing import Any

from ..core.registry import PROBES
from .alignment import (
    Growth, HeadAlignment, HeadAssignment, assign_heads, contributions, effective_rank, head_alignment,
    learned_strengths,
)  # fmt: skip
from .bootstrap_bands import Band, bootstrap_band, paired_band
from .causal_sites import (
    alone, averaged, clamped_pattern, pairing_pattern, patched, run_sites, silenced, site_names, tempered, together,
)  # fmt: skip
from .conserved import (
    conserved, drift, key_query_conserved, merged_conserved, network_conserved, value_key_conserved,
)  # fmt: skip
from .construction import GdppFit, fit_gdpp, gdpp_construction, interpolated, nearest_gdpp
from .copying import Copying, copying, token_jacobian
from .curvature import curvature
from .growth import LawFit, drop_times, escape_time, fit_log_law, fit_power_law, growth_times
from .head_scores import neighbor_scores, pairing_scores, prefix_scores
from .interventions import clamp, graft, head_ablation
from .iterated_layer import iterated_losses, label_updates
from .label_maps import LinearErrors, conditional_error, label_map, linear_errors
from .layer_lenses import ControlledProbe, Lens, controlled_probe, read_out_lens, residual_sites
from .plateaus import Drop, Plateau, Staircase, find_plateaus
from .preconditioner import identity_distance, preconditioner_distance
from .prediction_space import JointPca, PredictionDistance, interpolated_tasks, joint_pca, prediction_distance
from .predictors_match import NearestPredictor, nearest_predictor
from .progress_toy import ToyRun, Vectors, descend_toy, draw_toy, toy_loss
from .read_outs import ReadOut, read_out, read_sites
from .reading import effective_matrices
from .saddle_stays import LevelStay, SaddleMatch, match_plateaus
from .similarity import (
    Similarity, beta_moment, compare, model_matrix, population_distance, population_sensitivity,
)  # fmt: skip
from .similarity_training import mean_differences
from .step_matching import StepMatch, match_filters, match_steps, prefix_errors
from .turning import Crossing, InteriorMinimum, curve_crossing, interior_minimum

__all__ = [
    "Band",
    "ControlledProbe",
    "Copying",
    "Crossing",
    "Drop",
    "GdppFit",
    "Growth",
    "HeadAlignment",
    "HeadAssignment",
    "InteriorMinimum",
    "JointPca",
    "LawFit",
    "Lens",
    "LevelStay",
    "LinearErrors",
    "NearestPredictor",
    "Plateau",
    "PredictionDistance",
    "ReadOut",
    "SaddleMatch",
    "Similarity",
    "Staircase",
    "StepMatch",
    "ToyRun",
    "Vectors",
    "alone",
    "assign_heads",
    "averaged",
    "beta_moment",
    "bootstrap_band",
    "clamp",
    "clamped_pattern",
    "compare",
    "conditional_error",
    "conserved",
    "contributions",
    "controlled_probe",
    "copying",
    "curvature",
    "curve_crossing",
    "descend_toy",
    "draw_toy",
    "drift",
    "drop_times",
    "effective_matrices",
    "effective_rank",
    "escape_time",
    "find_plateaus",
    "fit_gdpp",
    "fit_log_law",
    "fit_power_law",
    "gdpp_construction",
    "graft",
    "growth_times",
    "head_ablation",
    "head_alignment",
    "identity_distance",
    "interior_minimum",
    "interpolated",
    "interpolated_tasks",
    "iterated_losses",
    "joint_pca",
    "key_query_conserved",
    "label_map",
    "label_updates",
    "learned_strengths",
    "linear_errors",
    "match_filters",
    "match_plateaus",
    "match_steps",
    "mean_differences",
    "merged_conserved",
    "model_matrix",
    "nearest_gdpp",
    "nearest_predictor",
    "neighbor_scores",
    "network_conserved",
    "paired_band",
    "pairing_pattern",
    "pairing_scores",
    "patched",
    "population_distance",
    "population_sensitivity",
    "preconditioner_distance",
    "prediction_distance",
    "prefix_errors",
    "prefix_scores",
    "read_out",
    "read_out_lens",
    "read_sites",
    "residual_sites",
    "run_sites",
    "silenced",
    "site_names",
    "tempered",
    "together",
    "token_jacobian",
    "toy_loss",
    "value_key_conserved",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Probes of installed packages (`core.registry.PROBES`)."""
    if name in PROBES.names():
        return PROBES.get(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
