"""Raventós, Paul, Chen, Ganguli 2023 (arXiv 2306.15063): pre-training task diversity and non-Bayesian in-context learning."""

from ..base import Paper
from . import diversity_threshold, interpolated_pools, reference_errors, transient_ridge
from .setup import Options

PAPER = Paper(
    id="raventos2023",
    title="Pretraining task diversity and the emergence of non-Bayesian in-context learning for regression",
    citation="Raventós, Paul, Chen, Ganguli. NeurIPS 2023, arXiv 2306.15063; fig_transience: Carroll, Hoogland, Farrugia-Roberts, Murfet 2025, arXiv 2501.17745.",
    figures=(reference_errors.FIGURE, diversity_threshold.FIGURE, transient_ridge.FIGURE, interpolated_pools.FIGURE),
    options=Options,
    seeds=3,
    notes=(
        "The paper trains for 500,000 steps, we for 10,000 and 40,000: the threshold moves with the length of training, so its place is ours and its existence the paper's. "
        "For a model of this size the paper finds it between 2¹¹ and 2¹² tasks, so that claims at 2¹⁰ tasks are ours; those of fig_transience are Carroll et al.'s (2025)."
    ),
)  # fmt: skip
