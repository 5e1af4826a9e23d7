"""Figures, claims and verdicts: what every paper is made of.

A figure collects data (stored, so that drawing and judging never simulate), draws it, and states claims. A claim says
what the paper says in our words, the number expected, the tolerance and its origin; judged, it gives a verdict.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.errors import IclearnError
from .judging import Outcome as Outcome
from .judging import Word as Word
from .judging import judge_close as judge_close
from .judging import judge_seeds as judge_seeds
from .judging import judge_true as judge_true

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MplFigure

    from .lab import Lab

Data = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """One checkable statement.

    Args:
        statement: what the paper says, in our words.
        expected: the number or behavior expected.
        tolerance: how close is close enough, and why.
        judge: from the figure's data to an Outcome.
        source: ``paper`` (stated there), ``theory`` (follows from its formulas) or ``ours`` (found by this project).
        holds: whether the claim should hold; a contradicted claim that should hold makes `reproduce` exit with 1.
    """

    id: str
    statement: str
    expected: str
    tolerance: str
    judge: Callable[[Data], Outcome]
    source: Literal["paper", "theory", "ours"] = "paper"
    holds: bool = True


@dataclass(frozen=True)
class Verdict:
    """A judged claim, as `verdicts.json` lists it."""

    paper: str
    figure: str
    claim: str
    statement: str
    expected: str
    measured: Any
    tolerance: str
    seeds: int
    verdict: Word
    source: str
    should_hold: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `verdicts.json` holds them."""
        return {name: plain(value) for name, value in asdict(self).items()}

    def _repr_html_(self) -> str:
        told = {"verdict": self.verdict, "claim": self.statement, "expected": self.expected, "measured": self.measured}
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in told.items())
        return f"<table>{rows}</table>"


@dataclass(frozen=True)
class Figure:
    """One figure of a paper.

    Args:
        collect: gets everything the figure needs through the Lab (stored runs and stored datasets).
        draw: a matplotlib figure from that data; the style is set by the caller.
        setup: the experiment in words and pseudocode, for the reproducibility card.
        cost: what to expect, e.g. "20 s on 2 cores".
    """

    id: str
    title: str
    collect: Callable[[Lab], Data]
    draw: Callable[[Data], MplFigure]
    claims: tuple[Claim, ...]
    setup: str
    cost: str = ""

    def judge(self, paper: str, data: Data) -> list[Verdict]:
        """Every claim judged. A judge that breaks is a failed claim with the reason, not a crash."""
        verdicts = []
        for claim in self.claims:
            try:
                outcome = claim.judge(data)
            except Exception as error:
                outcome = Outcome(f"{type(error).__name__}: {error}", "failed")
            verdicts.append(
                Verdict(
                    paper, self.id, claim.id, claim.statement, claim.expected, outcome.measured,
                    claim.tolerance, outcome.seeds, outcome.verdict, claim.source, claim.holds,
                )
            )  # fmt: skip
        return verdicts


@dataclass(frozen=True)
class Paper:
    """A paper: its figures in order, and how it is cited. Registered in `core.registry.PAPERS`.

    Args:
        notes: what this project found that the paper does not say.
        seeds: of a figure with random starts, when none are asked for.
        options: a dataclass of what this paper alone is given: its fields are flags of ``iclearn reproduce``, and
            ``of(given)`` makes one from those that were given. None for a paper that takes no options.
    """

    id: str
    title: str
    citation: str
    figures: tuple[Figure, ...]
    notes: str = ""
    seeds: int = 6
    options: type | None = None

    def figure(self, name: str) -> Figure:
        for figure in self.figures:
            if figure.id == name:
                return figure
        raise IclearnError(
            f"{self.id} has no figure {name!r}; it has {', '.join(figure.id for figure in self.figures)}"
        )


def plain(value: Any) -> Any:
    """Numbers and lists that JSON knows."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
