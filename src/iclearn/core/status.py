"""How a run ended. The value of each member is the sentence shown to the user."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """How a run ended: its loss reached the known minimum, all steps were done, or the loss grew beyond all bounds.

    >>> Status.CONVERGED.label
    'converged'
    """

    CONVERGED = "reached the minimum of its training loss"
    FINISHED = "ran all its steps; the loss may still fall"
    DIVERGED = "diverged"

    @property
    def label(self) -> str:
        """The one word under which it is stored."""
        return self.name.lower()
