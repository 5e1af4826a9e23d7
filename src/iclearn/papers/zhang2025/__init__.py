"""Training Dynamics of In-Context Learning in Linear Attention (Zhang, Singh, Latham, Saxe; ICML 2025)."""

from ..base import Paper
from . import fig1, fig1b, fig2, fig3a, fig3b

PAPER = Paper(
    id="zhang2025",
    title="Training Dynamics of In-Context Learning in Linear Attention",
    citation="Zhang, Singh, Latham, Saxe. ICML 2025, arXiv 2501.16265.",
    figures=(fig1.FIGURE, fig1b.FIGURE, fig2.FIGURE, fig3a.FIGURE, fig3b.FIGURE),
)
