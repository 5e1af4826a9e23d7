"""Conditions: which guess stands in the guess line of the examples and of the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.errors import IclearnError
from .extra import generator
from .stsb import HIGHEST, LOWEST

NOISES = (0.5, 1.0, 2.0)
QUALITIES = {"trained": "trained guess", "gte": "gte-small guess", "oracle": "oracle"}


@dataclass(frozen=True)
class Condition:
    """One way to give a guess.

    Args:
        id: its name in tables and figures.
        title: what a reader sees.
        source: where the guess comes from; None for no guess at all.
        noise: standard deviation of the noise added to it (then cut to the scale).
        in_shots: whether the examples carry guesses of the same kind.

    For examples see `CONDITIONS`, those of the experiment, and `condition`, which finds one by its name.
    """

    id: str
    title: str
    source: str | None
    noise: float = 0.0
    in_shots: bool = True


CONDITIONS = (
    Condition("none", "no guess", None),
    Condition("zero", "zero", "zero"),
    Condition("mean", "training mean", "mean"),
    Condition("random", "random number", "random"),
    Condition("query_only", "trained guess, query only", "trained", in_shots=False),
    *(Condition(source, title, source) for source, title in QUALITIES.items()),
    *(
        Condition(f"{source}+{noise:g}", f"{title} + noise {noise:g}", source, noise)
        for source, title in QUALITIES.items()
        for noise in NOISES
    ),
)


def condition(name: str) -> Condition:
    """The condition of the experiment with this name.

    >>> condition("trained+0.5").title
    'trained guess + noise 0.5'
    """
    known = {how.id: how for how in CONDITIONS}
    if name not in known:
        raise IclearnError(f"unknown condition {name!r}; conditions are {', '.join(known)}")
    return known[name]


@dataclass(frozen=True)
class Guesser:
    """Gives the guess of any row of a split under any condition.

    Args:
        seed: root of the random guesses and of the noise.
        mean: mean score of the training rows.
        trained: source, split name and row → the guess of the head that is trained on this source's features.
        score: split name and row → the true score.

    >>> guesser = Guesser(0, mean=2.6, trained=lambda source, split, row: 3.0, score=lambda split, row: 4.0)
    >>> [guesser.guess(condition(name), "dev", 7) for name in ("none", "zero", "mean", "trained", "oracle")]
    [None, 0.0, 2.6, 3.0, 4.0]
    """

    seed: int
    mean: float
    trained: Callable[[str, str, int], float]
    score: Callable[[str, int], float]

    def guess(self, how: Condition, split: str, row: int) -> float | None:
        """The guess for one row, None for none; it depends on nothing but the seed, the condition and the row."""
        constant = {None: None, "zero": LOWEST, "mean": self.mean}
        if how.source in constant:
            return constant[how.source]
        if how.source == "random":
            return float(generator(self.seed, f"random {split}", row).uniform(LOWEST, HIGHEST))
        value = self.score(split, row) if how.source == "oracle" else self.trained(str(how.source), split, row)
        if how.noise:  # the same direction for every size: sizes are compared on the same draw
            value += how.noise * float(generator(self.seed, f"noise {split}", row).normal())
        return float(np.clip(value, LOWEST, HIGHEST))
