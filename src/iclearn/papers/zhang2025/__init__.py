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
    "network: little in the drop time and the final loss, visibly during the drop; by perturbation theory the "
    "difference falls as 1/P (fig1, full_difference and decay). "
    "The saddles M_m of rank-one attention have no direction of descent of second order, all other fixed points have "
    "one; with rank R this is so exactly at m a multiple of R. Saddles of the first kind are left by cubic growth, in a "
    "time like 1/init, the others exponentially, in a time like ln(1/init): these are the conspicuous and the brief "
    "plateaus (fig_landscape, fig4, fig11). "
    "Which head learns which eigenvector, and when, follows from the initial weights alone: each small head blows up at a "
    "finite time that one integral gives, and each pair of a grown head by a logarithm (fig3b, fig4, fig11, stacked). "
    "Plateaus at multiples of R are long as a rule, not without exception: two heads that start almost alike leave one "
    "after the other, and the plateau between them is brief (fig4). "
    "The public code has had four initializations of separate attention. The published Figure 3 was made with the first "
    "(entries: every entry of size init), which makes its four drops in 10001 steps; the README's commands belong to a "
    "later one (per_head), with which most runs are unfinished after these steps (fig3a, fig4, per_head_slower). Our "
    "earlier note, that the paper's steps do not show all drops, came from judging with the later one and is withdrawn. "
    "The newest public initialization makes the README's figure 4 command stay on its first plateau (stacked)."
)

PAPER = Paper(
    id="zhang2025",
    title="Training Dynamics of In-Context Learning in Linear Attention",
    citation="Zhang, Singh, Latham, Saxe. ICML 2025, arXiv 2501.16265.",
    figures=tuple(module.FIGURE for module in _MODULES),
    notes=NOTES,
)
