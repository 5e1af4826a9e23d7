"""Findings of this project on depth, under a name of their own: no paper's figures."""

from ..base import Paper
from . import layer_rates

PAPER = Paper(
    id="depth-rates",
    title="Depth: what one more layer of linear attention buys",
    citation="Findings of iclearn, from exact losses; the models are those of Ahn et al. 2023 (arXiv 2306.00297), Newton's iteration that of Fu et al. 2024 (arXiv 2310.17086).",
    figures=(layer_rates.FIGURE,),
    notes=(
        "A layer of GD++ is worth about three Newton steps at first and fewer the deeper the model: the degree of its filter triples, which is log2 3 = 1.6 doublings. "
        "Looping one layer costs a factor that grows with depth, two at two layers and two hundred at four."
    ),
)
