"""Sweeps that come with the package, each a figure with claims: `iclearn sweep plateaus`, `minima`, `pools` and others.

They are no paper's figures: they ask where in a whole plane what papers say of single points holds.
"""

from __future__ import annotations

from ...sweeps.plan import Plan
from ..base import Figure, Paper
from . import memorization_map, minima_phases, plateau_phases, pool_planes, prior_gap
from .setup import Options

SWEEPS = {
    "plateaus": plateau_phases, "prior-gap": prior_gap, "minima": minima_phases, "memorization": memorization_map,
    "pools": pool_planes,
}  # fmt: skip

__all__ = ["SWEEPS", "Options", "figure_of", "paper_of", "plan_of"]


def plan_of(name: str, options: Options) -> Plan:
    """The plan of a shipped sweep."""
    return SWEEPS[name].plan(options)


def figure_of(name: str, options: Options) -> Figure:
    return SWEEPS[name].figure(options)


def paper_of(name: str, options: Options) -> Paper:
    """One shipped sweep as the frame of papers takes it: collected, drawn, judged, and put on a page."""
    module = SWEEPS[name]
    return Paper(f"sweep-{name}", module.TITLE, module.CITATION, (module.figure(options),))
