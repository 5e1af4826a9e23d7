"""Papers: figures, claims and verdicts. `icl.reproduce(NAME)` makes one again; `names()` lists them."""

from ..core.registry import PAPERS
from .base import Claim, Figure, Outcome, Paper, Verdict

__all__ = ["Claim", "Figure", "Outcome", "Paper", "Verdict", "get", "names"]


def names() -> list[str]:
    """The papers there are, those of installed packages included.

    >>> names()[:2]
    ['zhang2025', 'xie2025']
    """
    return PAPERS.names()


def get(name: str) -> Paper:
    """A paper by its name: figures with their claims.

    >>> get("zhang2025").title
    'Training Dynamics of In-Context Learning in Linear Attention'
    """
    return PAPERS.get(name)
