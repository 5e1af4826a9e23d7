"""oswald2023: Transformers Learn In-Context by Gradient Descent."""

from ..base import Paper
from . import fig2, fig2c, fig3, fig3_deep, fig_copying, fig_depth_clip, fig_iterated, fig_softmax
from .setup import Options

PAPER = Paper(
    id="oswald2023",
    title="Transformers Learn In-Context by Gradient Descent",
    citation="von Oswald, Niklasson, Randazzo, Sacramento, Mordvintsev, Zhmoginov, Vladymyrov. ICML 2023, arXiv 2212.07677.",
    figures=(
        *(fig2.FIGURE, fig2c.FIGURE, fig3.FIGURE, fig_iterated.FIGURE, fig_depth_clip.FIGURE),
        *(fig3_deep.FIGURE, fig_softmax.FIGURE, fig_copying.FIGURE),
    ),
    options=Options,
    notes=(
        "The public code draws inputs from U(−½, ½), not U(−1, 1), and its gradient descent is a sampled line; here it has a closed form. "
        "One layer is trained after 700 of the 5000 steps; the plateau at one learned direction that our notes had seen is not there (fig2, plateau). "
        "Two tied layers are two gradient steps first (cosine .995 around step 750, at a loss below the best two steps of one size) and become GD++ afterwards (fig3). "
        "Beyond three layers the public code clips activations to ±10, which GD++ with its best steps does not survive (fig_depth_clip). "
        "Of the paper only its abstract and its public code were read: what is attributed to it is second-hand."
    ),
)
