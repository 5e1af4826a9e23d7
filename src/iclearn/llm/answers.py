"""Answers: the expected score over the scale's tokens, or a number read from text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from ..core.errors import IclearnError
from .prompts import SCALE, whole

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w])")


@dataclass(frozen=True)
class Reply:
    """What a model said: probabilities of the scale's tokens (summing to their total mass), or a text."""

    scale: tuple[float, ...] | None = None
    text: str | None = None

    @property
    def value(self) -> float:
        """The score: Σ k p_k / Σ p_k, or the first number of the text on the scale; NaN when there is none."""
        if self.scale is not None:
            mass = sum(self.scale)
            return sum(k * p for k, p in zip(SCALE, self.scale, strict=True)) / mass if mass > 0 else math.nan
        return parse_score(self.text or "")

    @property
    def mark(self) -> float:
        """The likeliest mark of the scale, or the mark nearest to the number in the text."""
        if self.scale is not None:
            return float(max(SCALE, key=lambda k: self.scale[k])) if sum(self.scale) > 0 else math.nan  # type: ignore[index]
        return float(whole(self.value)) if math.isfinite(self.value) else math.nan

    def to_json(self) -> dict[str, Any]:
        return {"scale": list(self.scale)} if self.scale is not None else {"text": self.text}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Reply:
        """Raises ValueError when the value is no stored reply."""
        if isinstance(value, dict) and isinstance(value.get("text"), str):
            return cls(text=value["text"])
        scale = value.get("scale") if isinstance(value, dict) else None
        if not isinstance(scale, list) or len(scale) != len(SCALE):
            raise ValueError("no reply")
        return cls(scale=tuple(float(p) for p in scale))


def parse_score(text: str) -> float:
    """The first number of a text that lies on the scale; NaN when there is none.

    >>> parse_score(" 3.5 out of 5"), parse_score("Score: 4"), parse_score("seven")
    (3.5, 4.0, nan)
    """
    for found in _NUMBER.finditer(text):
        if SCALE[0] <= float(found.group(1)) <= SCALE[-1]:
            return float(found.group(1))
    return math.nan


def check_readable(replies: list[Reply]) -> None:
    """Refuse replies of which more than half carry no score, showing one of them."""
    lost = [reply for reply in replies if not math.isfinite(reply.value)]
    if 2 * len(lost) > len(replies):
        shown = repr((lost[0].text or "")[:40]) if lost[0].scale is None else "no token of the scale"
        raise IclearnError(
            f"{len(lost)} of {len(replies)} answers hold no number from 0 to 5 (e.g. {shown}): "
            "use another model, or read log-probabilities with --read scale"
        )
