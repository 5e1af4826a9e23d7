"""fu2024: Transformers Learn to Achieve Second-Order Convergence Rates for In-Context Linear Regression."""

from ..base import Paper
from . import fig_match, fig_rates

PAPER = Paper(
    id="fu2024",
    title="Transformers Learn to Achieve Second-Order Convergence Rates for In-Context Linear Regression",
    citation="Fu, Chen, Jia, Sharan. NeurIPS 2024, arXiv 2310.17086.",
    figures=(fig_rates.FIGURE, fig_match.FIGURE),
    notes=(
        "The paper's GPT-2 is not trained here: what is judged are the two algorithms it is compared with, and deep linear transformers. "
        "A layer of GD++ is worth several Newton steps in loss, but what it leaves of the error becomes less like Newton's with every layer: "
        "an equal rate is not an equal algorithm."
    ),
)
