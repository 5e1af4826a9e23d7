"""letey2026: pretrain-test task alignment governs generalization in in-context learning."""

from ..base import Paper
from . import half_manifold, longer_contexts, spike_tests, training_powers
from .setup import Options

PAPER = Paper(
    id="letey2026",
    title="Pretrain-Test Task Alignment Governs Generalization in In-Context Learning",
    citation="Letey, Zavatone-Veth, Lu, Pehlevan. ICLR 2026, arXiv 2509.26551.",
    figures=(half_manifold.FIGURE, spike_tests.FIGURE, training_powers.FIGURE, longer_contexts.FIGURE),
    options=Options,
    seeds=12,
    unit="draws at the largest d, more at smaller ones",
    notes=(
        "The theory here is a deterministic fixed point where the public code draws random matrices. "
        "Of the paper only its abstract, its code and notes on both were read: what is attributed to it is second-hand."
    ),
)
