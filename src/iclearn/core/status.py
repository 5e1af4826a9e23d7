"""How a run ended. The value of each member is the sentence shown to the user."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    CONVERGED = "reached the minimum of its training loss"
    FINISHED = "ran all its steps; the loss may still fall"
    DIVERGED = "diverged"

    @property
    def label(self) -> str:
        return self.name.lower()
