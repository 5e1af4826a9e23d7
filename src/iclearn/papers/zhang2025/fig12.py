"""Figure 12: as Figure 4 for the other ranks (R = 3, 5, 6, 7)."""

from __future__ import annotations

from ..base import Claim, Figure
from .fig4 import DURATIONS, SETUP, collect_ranks, draw, gap_of_durations, rank_claims

RANKS = (3, 5, 6, 7)

FIGURE = Figure(
    id="fig12",
    title="rank R = 3, 5, 6, 7",
    collect=collect_ranks(RANKS),
    draw=draw,
    claims=(
        *rank_claims(RANKS),
        Claim(
            "durations", DURATIONS, "medians a factor 10 apart", "and the shortest tenth there above the longest tenth elsewhere", gap_of_durations, source="theory",
        ),
    ),
    setup=SETUP,
    cost="50 s on 2 cores",
)  # fmt: skip
