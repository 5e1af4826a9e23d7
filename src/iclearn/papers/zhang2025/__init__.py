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
    fig_landscape,
    fig_stacked,
)

_MODULES = (
    *(fig1, fig1b, fig2, fig3a, fig3b, fig3c, fig3d, fig4, fig5, fig6, fig7, fig8),
    *(fig10, fig11, fig12, fig13, fig14, fig_landscape, fig_stacked),
)

NOTES = (
    "With finitely many prompts the zero blocks of full attention move, and its curve leaves that of the two-layer "
    "network: little in the drop time and the final loss, visibly during the drop (fig1, full_difference). "
    "The saddles M_m of rank-one attention have no direction of descent of second order, all other fixed points have "
    "one; with rank R this is so exactly at m a multiple of R. Saddles of the first kind are left by cubic growth, in a "
    "time like 1/init, the others exponentially, in a time like ln(1/init): these are the conspicuous and the brief "
    "plateaus (fig_landscape, fig4, fig11). "
    "Which head learns which eigenvector, and when, follows from the initial weights alone: each small head blows up at a "
    "finite time that one integral gives (fig3b, stacked). "
    "Plateaus at multiples of R are long as a rule, not without exception: two heads that start almost alike leave one "
    "after the other, and the plateau between them is brief (fig4, durations). "
    "10001 steps do not show all four drops of figure 3 in every run, and 20001 not the eight of figure 4: such runs are "
    "unfinished, not converged. "
    "The newest public initialization makes the README's figure 4 command stay on its first plateau (stacked)."
)

PAPER = Paper(
    id="zhang2025",
    title="Training Dynamics of In-Context Learning in Linear Attention",
    citation="Zhang, Singh, Latham, Saxe. ICML 2025, arXiv 2501.16265.",
    figures=tuple(module.FIGURE for module in _MODULES),
    notes=NOTES,
)
