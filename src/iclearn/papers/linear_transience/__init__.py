"""A finding of this project: learning in context is transient in linear attention too, and exactly solvable there."""

from ..base import Paper
from . import best_ridges, flow_times
from .setup import Options

PAPER = Paper(
    id="linear-transience",
    title="Transient in-context learning in linear attention",
    citation="Findings of iclearn; the model is that of Lu et al. 2025 (arXiv 2405.11751), the question that of Carroll et al. 2025 (arXiv 2501.17745).",
    figures=(flow_times.FIGURE, best_ridges.FIGURE),
    options=Options,
    seeds=24,
    unit="pools",
    notes=(
        "With fewer tasks than dimensions and finitely many prompts, gradient flow first learns in context and then forgets it, while the error on the pool's tasks still falls: "
        "the same as wanting more ridge for new tasks. Infinitely many prompts weaken this and do not rule it out: directions in which the pool has more variance than new tasks overshoot."
    ),
)
