"""The Initialization Determines Whether In-Context Learning Is Gradient Descent (Xie, Yuan, Rossi, Hannagan; TMLR 2025)."""

from ..base import Paper
from . import (
    fig_bayes,
    fig_context,
    fig_covariance,
    fig_dynamics,
    fig_floor,
    fig_guess,
    fig_heads,
    fig_noise,
    fig_prior_mean,
    fig_training,
)

PAPER = Paper(
    id="xie2025",
    title="The Initialization Determines Whether In-Context Learning Is Gradient Descent",
    citation="Xie, Yuan, Rossi, Hannagan. TMLR 2025, arXiv 2512.04268.",
    figures=tuple(
        module.FIGURE
        for module in (
            fig_heads,
            fig_floor,
            fig_prior_mean,
            fig_guess,
            fig_training,
            fig_context,
            fig_covariance,
            fig_noise,
            fig_bayes,
            fig_dynamics,
        )
    ),
    notes=(
        "No code was published. That the trainable guess is linear in the query, g = w_q·x_q, is our reading. The query's target "
        "carries no noise. Trained weights are evaluated on the exact loss; losses of sampled runs differ from the optimum by gradient noise."
    ),
)
