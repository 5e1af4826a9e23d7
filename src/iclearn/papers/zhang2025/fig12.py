"""Figure 12: as Figure 4 for the other ranks (R = 3, 5, 6, 7)."""

from __future__ import annotations

from ..base import Data, Figure
from ..lab import Lab
from .fig4 import draw
from .ranks import CHOICES, SETUP, collect_ranks, example_ranks, rank_claims, shared_claims

RANKS = (3, 5, 6, 7)


def collect(lab: Lab) -> Data:
    return collect_ranks(lab, RANKS, ("entries",))


def example() -> Data:
    return {"entries": example_ranks(RANKS)}


FIGURE = Figure(
    id="fig12",
    title="rank R = 3, 5, 6, 7",
    collect=collect,
    draw=draw,
    example=example,
    claims=(*rank_claims(RANKS), *shared_claims()),
    choices=CHOICES,
    setup=SETUP,
    cost="25 s on 2 cores",
)
