"""ahn2023: Transformers Learn to Implement Preconditioned Gradient Descent for In-Context Learning."""

from ..base import Paper
from . import fig_depth, fig_l3, fig_lengths, fig_minima, fig_thm1
from .setup import Options

PAPER = Paper(
    id="ahn2023",
    title="Transformers Learn to Implement Preconditioned Gradient Descent for In-Context Learning",
    citation="Ahn, Cheng, Daneshmand, Sra. NeurIPS 2023, arXiv 2306.00297.",
    figures=(fig_thm1.FIGURE, fig_l3.FIGURE, fig_depth.FIGURE, fig_lengths.FIGURE, fig_minima.FIGURE),
    options=Options,
    notes=(
        "Two layers of GD++ have three strict local minima at d = 5, N = 20. Which one training finds depends on where it starts; from small weights "
        "on the population loss it is the second, not the best. "
        "Of the paper only its abstract and its public code were read: what is attributed to it is second-hand."
    ),
)
