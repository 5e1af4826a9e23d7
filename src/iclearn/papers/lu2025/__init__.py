"""lu2025: asymptotic theory of in-context learning by linear attention.

Its golden files (`golden`) and trained matrices Γ* (`setup`) serve letey2026 as well.
"""

from ..base import Paper
from . import fig1, fig2, fig_gap_scaling, fig_nonmonotone, fig_task_gap
from .setup import Options

PAPER = Paper(
    id="lu2025",
    title="Asymptotic theory of in-context learning by linear attention",
    citation="Lu, Letey, Zavatone-Veth, Maiti, Pehlevan. PNAS 122(28), 2025, arXiv 2405.11751.",
    figures=(fig1.FIGURE, fig2.FIGURE, fig_nonmonotone.FIGURE, fig_task_gap.FIGURE, fig_gap_scaling.FIGURE),
    unit="pools at the largest d, more at smaller ones",
    options=Options,
    notes=(
        "The error on new tasks is not monotone in the context length beyond the line κ = min(τ, 1) as well, up to κ_c(ρ), for which there is a formula. "
        "The peak of double descent is at n = d(d + 1), the number of weights. Simulations are above the limit by b/d + c/d² with b of 1 to 5, so they are judged by their extrapolation in 1/d. "
        "The softmax transformers of the paper's last figures are not trained here. "
        "Of the paper only its abstract and its public code were read: what is attributed to it is second-hand."
    ),
)
