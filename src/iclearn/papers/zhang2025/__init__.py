"""Training Dynamics of In-Context Learning in Linear Attention (Zhang, Singh, Latham, Saxe; ICML 2025)."""

from ..base import Paper
from . import (
    fig1,
    fig1b,
    fig2,
    fig3a,
    fig3b,
    fig3c,
    fig3d,
    fig4,
    fig5,
    fig6,
    fig7,
    fig8,
    fig10,
    fig11,
    fig12,
    fig13,
    fig14,
    landscape,
)

_MODULES = (
    *(fig1, fig1b, fig2, fig3a, fig3b, fig3c, fig3d, fig4, fig5, fig6, fig7, fig8),
    *(fig10, fig11, fig12, fig13, fig14, landscape),
)

PAPER = Paper(
    id="zhang2025",
    title="Training Dynamics of In-Context Learning in Linear Attention",
    citation="Zhang, Singh, Latham, Saxe. ICML 2025, arXiv 2501.16265.",
    figures=tuple(module.FIGURE for module in _MODULES),
)
