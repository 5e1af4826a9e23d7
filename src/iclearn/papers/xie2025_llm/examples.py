"""Answers of a made-up model of which the truth is known, and the perturbations that claims must refuse.

The model weighs its guess against an idea of its own, trusts guesses that were good in its examples, and has a better
idea the more examples it has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..base import Counterexample, Data
from .setup import View

PAIRS, SEEDS = 250, 2
TRUST = {"trained": 0.5, "oracle": 0.8}  # weight of the guess; 0.2 with added noise, else 0
AXES = ("seed", "shots", "condition", "pair")


def guesses(name: str, score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The guess under a condition: the score with an error of 0.8 where it is trained, more with added noise."""
    trained = score + 0.8 * rng.normal(size=score.shape)
    if name.startswith("noise"):
        return trained + float(name.removeprefix("noise")) * rng.normal(size=score.shape)
    fixed = {"none": np.nan, "zero": 0.0, "mean": 2.7}
    if name in fixed:
        return np.full(score.shape, fixed[name])
    return {"random": rng.uniform(0, 5, score.shape), "oracle": score}.get(name, trained)


def example_answers(conditions: Sequence[str], shot_counts: Sequence[int] = (10,)) -> xr.Dataset:
    """A dataset as the experiment stores it."""
    rng = np.random.default_rng(0)
    score = rng.uniform(0, 5, PAIRS)
    shape = (SEEDS, len(shot_counts), len(conditions), PAIRS)
    answer, guess = np.empty(shape), np.empty(shape)
    for seed in range(SEEDS):
        for c, name in enumerate(conditions):
            given = guesses(name, score, rng)
            guess[seed, :, c] = given
            trust = TRUST.get(name, 0.2 if name.startswith("noise") else 0.0)
            for k, shots in enumerate(shot_counts):
                error = 0.5 + 2 / (1 + shots) + (0.0 if trust else 1.0)
                idea = score + error * rng.normal(size=PAIRS)
                answer[seed, k, c] = (1 - trust) * idea + (trust * given if trust else 0.0)
    tables = {"answer": answer, "mark": np.clip(np.floor(answer + 0.5), 0, 5), "guess": guess}
    labels = {"shots": list(shot_counts), "condition": list(conditions)}
    data = xr.Dataset({name: (AXES, table) for name, table in tables.items()}, labels, {"model": "made up"})
    return data.assign(score=("pair", score))


def with_views(data: xr.Dataset, names: Sequence[str]) -> Data:
    """The data of a figure: the answers, and a view of each condition."""
    return {"data": data, **{name: View(data, name) for name in names}}


def answered(
    title: str, change: Callable[[xr.Dataset], np.ndarray], what: str = "answer", **where: Any
) -> Counterexample:
    """A counter-example in which the answers (or another array) at these labels are replaced; a pair is given by its
    place."""

    def perturb(data: Data) -> Data:
        new = data["data"].copy(deep=True)
        place = {"pair": new["pair"].values[where["pair"]]} if "pair" in where else {}
        new[what].loc[{**where, **place}] = change(data["data"])
        return with_views(new, [name for name in data if name != "data"])

    return Counterexample(title, perturb)


def as_under(name: str, what: str = "answer") -> Callable[[xr.Dataset], np.ndarray]:
    """What the model says under another condition."""
    return lambda data: data[what].sel(condition=name).values


def copied(name: str, factor: float = 1.0, error: float = 0.0) -> Callable[[xr.Dataset], np.ndarray]:
    """The guess of a condition, times a factor and with an error of its own."""

    def change(data: xr.Dataset) -> np.ndarray:
        guess = data["guess"].sel(condition=name).values
        return factor * guess + error * np.random.default_rng(1).normal(size=guess.shape)

    return change


def undefined(condition: str) -> Counterexample:
    """One answer that is not a number."""
    return answered("one answer is NaN", lambda _: np.array(np.nan), condition=condition, pair=0, seed=0)
