"""Answers of two made-up models of which the truth is known, and the perturbations that claims must refuse.

The capable one weighs its guess against an idea of its own, trusts guesses that were good in its examples, and has a
better idea the more examples it has seen, and where they carry guesses. The other one knows nothing without a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..base import Counterexample, Data
from .setup import Answers

PAIRS, FITTED, SEEDS = 250, 100, 2
MODELS = {"capable": 0.8, "small": 12.0}  # error of its own idea after ten examples
ERRORS = {"trained": 0.8, "query_only": 0.8, "gte": 0.6, "oracle": 0.0}
USUAL = 10
AXES = ("seed", "shots", "wording", "condition", "pair")


def guesses(name: str, score: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The guess under a condition: the score with the error of its source, more with added noise."""
    source, _, noise = name.partition("+")
    if source in ERRORS:
        return score + np.hypot(ERRORS[source], float(noise or 0)) * rng.normal(size=score.shape)
    fixed = {"none": np.nan, "zero": 0.0, "mean": 2.7}
    return np.full(score.shape, fixed[source]) if source in fixed else rng.uniform(0, 5, score.shape)


def trust(name: str) -> float:
    """The weight of a guess in the answer."""
    source, _, noise = name.partition("+")
    if source == "query_only":
        return 0.1
    return 0.4 / (1 + float(noise or 0)) if source in ERRORS else 0.0


def example_answers(
    conditions: Sequence[str], shots: Sequence[int] = (USUAL,), wordings: Sequence[str] = ("plain",)
) -> Data:
    """Answers of both models, as the experiment gives them."""
    rng = np.random.default_rng(0)
    score, fit_score = rng.uniform(0, 5, PAIRS), rng.uniform(0, 5, FITTED)
    shape = (SEEDS, len(conditions))
    guess = np.array([guesses(name, score, rng) for _ in range(SEEDS) for name in conditions]).reshape(*shape, -1)
    fit = np.array([guesses(name, fit_score, rng) for _ in range(SEEDS) for name in conditions]).reshape(*shape, -1)
    weight = np.array([trust(name) for name in conditions])[:, None]
    made: Data = {}
    for model, error in MODELS.items():
        spread = error * (0.2 + 8.0 / (USUAL + np.array(shots)))[:, None, None, None] / 0.6
        spread = spread * np.where(weight > 0.1, 0.6, 1.0)
        idea = score + spread * rng.normal(size=(SEEDS, len(shots), len(wordings), len(conditions), PAIRS))
        answer = (1 - weight) * idea + weight * np.nan_to_num(guess)[:, None, None]
        tables = {"answer": answer, "mark": np.clip(np.floor(answer + 0.5), 0, 5)}
        own = fit_score + error * rng.normal(size=(SEEDS, FITTED))
        labels = {"shots": list(shots), "wording": list(wordings), "condition": list(conditions)}
        found = xr.Dataset(
            {
                **{name: (AXES, table) for name, table in tables.items()},
                "guess": (("seed", "condition", "pair"), guess), "score": ("pair", score),
                "mean": ("seed", np.full(SEEDS, 2.5)), "fit_answer": (("seed", "fit"), own),
                "fit_guess": (("seed", "condition", "fit"), fit), "fit_score": ("fit", fit_score),
            }, labels, {"shots": USUAL, "split": "made-up"},
        )  # fmt: skip
        made[model] = Answers(model, found)
    return made


def for_each(title: str, perturbed: Callable[[xr.Dataset], xr.Dataset]) -> Counterexample:
    """A counter-example in which every model's answers are perturbed."""
    return Counterexample(
        title, lambda data: {name: Answers(name, perturbed(model.data)) for name, model in data.items()}
    )


def answered(
    title: str, change: Callable[[xr.Dataset], np.ndarray], what: str = "answer", **where: Any
) -> Counterexample:
    """A counter-example in which the answers (or another array) at these labels are replaced."""

    def perturbed(data: xr.Dataset) -> xr.Dataset:
        new = data.copy(deep=True)
        place = {"pair": data["pair"].values[where["pair"]]} if "pair" in where and "pair" in data.coords else {}
        new[what].loc[{**where, **place}] = change(data)
        return new

    return for_each(title, perturbed)


def as_under(name: str, what: str = "answer") -> Callable[[xr.Dataset], np.ndarray]:
    """What the model says under another condition."""
    return lambda data: data[what].sel(condition=name).values


def copied(name: str, factor: float = 1.0, error: float = 0.0) -> Callable[[xr.Dataset], np.ndarray]:
    """The guess of a condition, times a factor and with an error of its own."""

    def change(data: xr.Dataset) -> np.ndarray:
        guess = data["guess"].sel(condition=name).values[:, None, None]
        return factor * guess + error * np.random.default_rng(1).normal(size=guess.shape)

    return change


def undefined(condition: str) -> Counterexample:
    """One answer that is not a number."""
    return answered("one answer is NaN", lambda _: np.array(np.nan), condition=condition, pair=0, seed=0)


def no_skill() -> Counterexample:
    """Models that know nothing without a guess decide nothing: their answers without one are those to other pairs."""
    return answered("no model has unaided skill", lambda data: as_under("none")(data)[..., ::-1], condition="none")
