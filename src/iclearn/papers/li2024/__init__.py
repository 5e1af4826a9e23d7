"""The Closeness of In-Context Learning and Weight Shifting for Softmax Regression (Li, Song, Xia, Yu, Zhou; 2024)."""

from ..base import Paper
from . import fig1, fig2, fig_bounds, fig_layers, fig_n, fig_scale, fig_steps

PAPER = Paper(
    id="li2024",
    title="The Closeness of In-Context Learning and Weight Shifting for Softmax Regression",
    citation="Li, Song, Xia, Yu, Zhou. NeurIPS 2024, arXiv 2304.13276.",
    figures=tuple(module.FIGURE for module in (fig1, fig2, fig_n, fig_scale, fig_bounds, fig_layers, fig_steps)),
    seeds=10,
    notes=(
        "No code was published, and the paper does not give its layer or its sampling: the design here is this project's, and verdicts are "
        "per layer (A: log labels, B: query attends, C: raw labels) and per regime (words n, logit scale s). Closeness "
        "depends on both, so a claim may hold for one layer and fail for another; the rows say which. "
        "The paper's theorems bound each shift alone, of weights or of data; they do not bound the distance between the "
        "trained layer and gradient descent. That distance is measured here, never derived."
    ),
)
