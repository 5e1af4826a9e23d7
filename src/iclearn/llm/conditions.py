"""Conditions: which guess stands in the guess line of the shots and of the query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.errors import IclearnError
from .extra import generator
from .stsb import HIGHEST, LOWEST

NOISES = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Condition:
    """One way to give a guess.

    Args:
        id: its name in tables and figures.
        title: what a reader sees.
        source: where the guess comes from; None for no guess at all.
        noise: standard deviation of the noise added to it (then cut to the scale).
        in_shots: whether the shots carry guesses of the same kind.

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
    Condition("random", "random", "random"),
    Condition("trained", "trained guess", "trained"),
    Condition("query_only", "trained, query only", "trained", in_shots=False),
    *(Condition(f"noise{size:g}", f"trained + noise {size:g}", "trained", noise=size) for size in NOISES),
    Condition("oracle", "oracle", "oracle"),
)


def condition(name: str) -> Condition:
    """The condition of the experiment with this name.

    >>> condition("noise0.5").title
    'trained + noise 0.5'
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
        trained: split name and row → the trained model's guess.
        score: split name and row → the true score.

    >>> guesser = Guesser(0, mean=2.6, trained=lambda split, row: 3.0, score=lambda split, row: 4.0)
    >>> [guesser.guess(condition(name), "dev", 7) for name in ("none", "zero", "mean", "trained", "oracle")]
    [None, 0.0, 2.6, 3.0, 4.0]
    """

    seed: int
    mean: float
    trained: Callable[[str, int], float]
    score: Callable[[str, int], float]

    def guess(self, how: Condition, split: str, row: int) -> float | None:
        """The guess for one row, None for none; it depends on nothing but the seed, the condition and the row."""
        constant = {None: None, "zero": LOWEST, "mean": self.mean}
        if how.source in constant:
            return constant[how.source]
        if how.source == "random":
            return float(generator(self.seed, f"random {split}", row).uniform(LOWEST, HIGHEST))
        value = self.score(split, row) if how.source == "oracle" else self.trained(split, row)
        if how.noise:  # the same direction for every size: sizes are compared on the same draw
            value += how.noise * float(generator(self.seed, f"noise {split}", row).normal())
        return float(np.clip(value, LOWEST, HIGHEST))
