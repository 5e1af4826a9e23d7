"""Garg, Tsipras, Liang, Valiant 2022 (arXiv 2208.01066): what can transformers learn in-context?

`golden` and `law_golden` recompute the golden files of function classes, its own and those of the papers after it.
"""

from ..base import Paper
from . import class_curves, depth_algorithms, linear_curves, prior_or_algorithm, shift_panels
from .setup import Options

PAPER = Paper(
    id="garg2022",
    title="What can transformers learn in-context? A case study of simple function classes",
    citation="Garg, Tsipras, Liang, Valiant. NeurIPS 2022, arXiv 2208.01066; fig_depth asks Akyürek et al. 2023 (arXiv 2211.15661), fig_prior is our own.",
    figures=(linear_curves.FIGURE, shift_panels.FIGURE, prior_or_algorithm.FIGURE, depth_algorithms.FIGURE, *class_curves.FIGURES),
    options=Options,
    seeds=3,
    notes=(
        "The paper trains 12 layers for 500,000 steps on d = 20 (--preset original), we 4 layers of width 64 for 10,000 and 20,000 steps on d = 5 and 8: bounds on errors are ours, and claims with numbers of the notes say so. "
        "Every claim is judged network by network, by bounds over prompts that all networks and algorithms share. "
        "Of the paper only its abstract and its public code and notebooks were read: what is attributed to it is second-hand."
    ),
)  # fmt: skip
