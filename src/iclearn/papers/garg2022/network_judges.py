"""How claims on trained networks are judged: network by network, by bounds over prompts; the worst network counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from ..base import Counterexample, Data
from ..judging import LEVEL, Outcome, Word, worst
from ..perturbing import changed
from .noted_numbers import Range

BOUND = "one-sided 95 % bound over prompts, every network and every position by itself"
ROOM = float(norm.ppf(LEVEL))
ERRORS = 4.5  # of identities and closed forms: a hundred and more are judged at once
SOME = [0, 1]  # seeds that counter-examples change


def unfinished(data: Data, needs: str = "small, medium, full or original") -> Outcome | None:
    """The verdict on a claim on trained networks where training was only started; None where it is not.

    Args:
        data: the figure's data; ``judged`` says whether training is long enough.
        needs: presets that would do.

    Returns:
        The outcome, or None.
    """
    return None if data["judged"] else Outcome(f"needs --preset {needs}", "unfinished")


def other_size(needs: str) -> Outcome:
    """The verdict on a claim that is about networks of another size than those of the preset."""
    return Outcome(f"needs --preset {needs}", "unfinished")


def word_above(values: np.ndarray, errors: np.ndarray, line: Any) -> Word:
    """Whether all numbers are above a line by their own bounds.

    Args:
        values: any shape.
        errors: their standard errors.
        line: the line, or one for each.

    Returns:
        ``reproduced`` where every bound clears the line, ``contradicted`` where one is below it by its bound from the
        other side, ``failed`` for NaN or none.

    >>> word_above(np.array([1.0, 2.0]), np.array([0.1, 0.1]), 0.5)
    'reproduced'
    """
    away, room = np.asarray(values - line), ROOM * np.asarray(errors)
    if not away.size or not (np.isfinite(away).all() and np.isfinite(room).all()):
        return "failed"
    return "reproduced" if (away > room).all() else "contradicted" if (away < -room).any() else "inconclusive"


def judge_cells(cells: Mapping[str, tuple[np.ndarray, np.ndarray, Any]], seeds: int, told: Any) -> Outcome:
    """Several groups of numbers, each above its line; the worst counts.

    Args:
        cells: name → (numbers, their standard errors, line).
        seeds: networks judged.
        told: what is shown.

    Returns:
        The outcome.
    """
    words: list[Word] = [word_above(*cell) for cell in cells.values()]
    return Outcome(told, worst(*words), seeds)


def judge_ranges(
    error: np.ndarray, spread: np.ndarray, positions: np.ndarray, known: Mapping[int, Range], dim: int
) -> Outcome:
    """Errors of networks against the ranges of others, with room: see `RANGE_RULE`.

    Args:
        error: (seed, position) errors.
        spread: their standard errors.
        positions: (position) pairs seen.
        known: position → range.
        dim: d.

    Returns:
        The outcome; contradicted where a network is outside by more than twice the room.
    """
    told, words = {}, []
    for place, found in known.items():
        column = list(positions).index(place)
        values, own = error[:, column], spread[:, column]
        room = 3 * own + (0.02 if place < dim else 0.3 * found.middle)
        outside = np.maximum(found.low - values, values - found.high)
        told[str(place)] = values.round(4).tolist()
        if not np.isfinite(outside).all():
            return Outcome(told, "failed", len(values))
        words.append(
            "reproduced" if (outside <= room).all() else "contradicted" if (outside > 2 * room).any() else "inconclusive"
        )  # fmt: skip
    return Outcome(told, worst(*words), len(error))


RANGE_RULE = (
    "outside of the range by at most .02 (fewer pairs than d) or 30 % of its middle (from d on), and 3 standard errors"
)


def rounded(values: Any) -> Any:
    """Numbers of four digits for the table of verdicts."""
    return np.round(np.asarray(values, float), 4).tolist()


def at_places(title: str, variable: str, change: Callable[[Any], Any], **where: Any) -> Counterexample:
    """A counter-example that changes one variable of the table at some labels.

    Args:
        title: of it.
        variable: of the table.
        change: from the values to the new ones.
        where: labels; ``position`` may be a function of the data.

    Returns:
        The counter-example.
    """

    def perturb(data: Data) -> Data:
        chosen = {name: place(data) if callable(place) else place for name, place in where.items()}
        return changed(data, f"table/{variable}", change, **chosen)

    return Counterexample(title, perturb)


def last(data: Data) -> list[int]:
    """The position of 2d pairs."""
    return [data["places"][2]]


def middle(data: Data) -> list[int]:
    """The position of d pairs."""
    return [data["places"][1]]
