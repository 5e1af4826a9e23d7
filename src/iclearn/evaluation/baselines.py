"""In-context algorithms by name, as the rows that an evaluation puts beside trained runs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp

from ..core.checks import check_literals
from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..models.predictors import (
    ArcCosine,
    Averaging,
    BoostedTrees,
    ConjugateGradients,
    GradientDescent,
    GreedyTree,
    Huber,
    Lasso,
    LeastAbsolute,
    LeastSquares,
    Logistic,
    MixedNoise,
    NearestNeighbors,
    NetworkDescent,
    NewtonFilter,
    OnlineDescent,
    Ridge,
)
from ..tasks.function_class import FunctionClass

Cost = Literal["quick", "costly", "slow"]
DESCENT_RATE = 0.02  # of gradient descent on the sum of squares
LEVELS = (1.0, 0.25, 0.0625, 0.01)  # noise variances of the mixture of bai2023


@dataclass(frozen=True)
class Baseline:
    """A named predictor.

    Args:
        name: as it is typed.
        make: from the class of functions and an amount to the predictor.
        words: what it answers.
        amount: the number of ``name=number`` where none is typed (None: it takes none).
        cost: ``quick`` ones are asked everything; ``costly`` ones a few prefixes of all prompts, and of fewer prompts
            where these are longer than in training; ``slow`` ones a few prefixes of fewer prompts.
        inverts: whether it solves for the weights without a penalty, so that means of its errors do not exist where
            about as many noisy pairs as dimensions are seen.
        solves_in_steps: whether it does so after as many steps as inputs fill dimensions.
        labels: ``any``, or ``real`` or ``signs`` where it is for such labels alone.
        usual: whether it is one of those evaluated where none is named.
        needs_law: whether it knows the noise of a class of functions, so that no other task has it.
    """

    name: str
    make: Callable[[FunctionClass, float], AbstractModel]
    words: str
    amount: float | None = None
    cost: Cost = "quick"
    inverts: bool = False
    solves_in_steps: bool = False
    labels: Literal["any", "real", "signs"] = "any"
    usual: bool = True
    needs_law: bool = False

    def __post_init__(self) -> None:
        check_literals(Baseline, vars(self))


_ALL = (
    Baseline("zero", lambda t, a: GradientDescent(jnp.zeros(t.dim), 0.0, 0), "0"),
    Baseline("least_squares", lambda t, a: LeastSquares(), "least squares of least norm", inverts=True),
    Baseline("ridge", lambda t, a: Ridge(a), "ridge regression with this penalty", 0.5),
    Baseline("averaging", lambda t, a: Averaging(), "q·(1/n)Σ y x"),
    Baseline("neighbors", lambda t, a: NearestNeighbors(int(a)), "mean label of so many nearest neighbors", 3),
    Baseline("lasso", lambda t, a: Lasso(a), "Lasso with this penalty, exact", 0.1, "costly", labels="real"),
    Baseline("gd", lambda t, a: GradientDescent(jnp.zeros(t.dim), DESCENT_RATE, int(a), normalize="none"),
             f"so many steps of gradient descent on the sum of squares, rate {DESCENT_RATE:g}", 16),
    Baseline("online", lambda t, a: OnlineDescent(a), "one clipped gradient step a pair of this length", 0.02),
    Baseline("newton", lambda t, a: NewtonFilter(int(a)), "so many Newton steps to the inverse", 5),
    Baseline("cg", lambda t, a: ConjugateGradients(int(a)), "so many steps of conjugate gradients", 2,
             solves_in_steps=True),
    Baseline("huber", lambda t, a: Huber(a), "Huber's estimator with this threshold, exact", 1.345, "costly", True,
             labels="real"),
    Baseline("lad", lambda t, a: LeastAbsolute(), "least absolute deviations, exact", None, "costly", True,
             labels="real"),
    Baseline("mixed_noise", lambda t, a: MixedNoise(LEVELS), "Bayes for noise variances 1, .25, .0625 or .01",
             labels="real"),
    Baseline("arc_cosine", lambda t, a: ArcCosine(max(t.noise, 0.0)), "Gaussian process of wide ReLU networks", None,
             "costly", needs_law=True),
    Baseline("tree", lambda t, a: GreedyTree(int(a)), "greedy regression tree of this depth", 4, "costly"),
    Baseline("full_tree", lambda t, a: GreedyTree(None), "greedy regression tree of any depth", None, "costly"),
    Baseline("sign_tree", lambda t, a: GreedyTree(int(a), signs=True), "greedy tree of this depth on sign(x)", 4,
             "costly"),
    Baseline("network", lambda t, a: NetworkDescent(steps=int(a)), "ReLU network after so many Adam steps", 100,
             "slow"),
    Baseline("logistic", lambda t, a: Logistic(a), "logistic regression with this penalty", 1e-6, "slow",
             labels="signs"),
    Baseline("boosted", lambda t, a: BoostedTrees(int(a)), "XGBoost with so many rounds (pip install iclearn[boost])",
             100, "slow", usual=False),
)  # fmt: skip
BASELINES = {one.name: one for one in _ALL}


@dataclass(frozen=True)
class Named:
    """A baseline with its amount.

    Args:
        baseline: which.
        amount: the number.
    """

    baseline: Baseline
    amount: float | None

    @property
    def label(self) -> str:
        """``name`` or ``name=number``."""
        return self.baseline.name if self.amount is None else f"{self.baseline.name}={self.amount:g}"

    def model(self, task: FunctionClass) -> AbstractModel:
        """The predictor for a class of functions."""
        return self.baseline.make(task, 0.0 if self.amount is None else self.amount)


def read_baseline(word: str) -> Named:
    """The predictor that a word names.

    Args:
        word: ``name`` or ``name=number``.

    Returns:
        The predictor with its number. Unknown names are refused with those there are.

    >>> read_baseline("lasso=0.01").label, read_baseline("lad").label
    ('lasso=0.01', 'lad')
    """
    name, equals, number = word.partition("=")
    found = BASELINES.get(name.replace("-", "_"))
    if found is None:
        close = difflib.get_close_matches(name, BASELINES, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise IclearnError(f"unknown predictor {name!r}{hint} Predictors are {', '.join(BASELINES)}")
    if not equals:
        return Named(found, found.amount)
    if found.amount is None:
        raise IclearnError(f"the predictor {name} takes no number, and {number!r} was given")
    try:
        value = float(number)
    except ValueError:
        raise IclearnError(f"{word}: {number!r} is no number") from None
    whole = isinstance(found.amount, int) or found.amount == int(found.amount)
    if whole and value != int(value):
        raise IclearnError(f"{word}: {name} takes a whole number")
    return Named(found, value)


def is_baseline(word: str) -> bool:
    """Whether a word of a command line names a predictor."""
    return word.partition("=")[0].replace("-", "_") in BASELINES


def fitting(named: Sequence[Named], task: FunctionClass, own: str = "") -> list[Named]:
    """Those that are for the labels of a class of functions; one that was named and is not is refused.

    Args:
        named: what to evaluate (none: all usual ones, with Lasso at a second penalty).
        task: the class.
        own: the kind of a task that is evaluated in place of the class, of whose labels nothing is known.

    Returns:
        The predictors.
    """
    kind = "signs" if task.functions.signs else "real"
    usual = [
        Named(one, one.amount)
        for one in _ALL
        if one.usual and one.labels in ("any", kind) and not (own and one.needs_law)
    ]
    if not named:
        second = [Named(BASELINES["lasso"], 0.01)] if kind == "real" else []
        at = next((i + 1 for i, one in enumerate(usual) if one.baseline.name == "lasso"), len(usual))
        return [*usual[:at], *second, *usual[at:]]
    for one in named:
        wanted = one.baseline.labels
        if own and one.baseline.needs_law:
            raise IclearnError(f"the predictor {one.label} knows the law of a class of functions, which {own} is not")
        if not own and wanted not in ("any", kind):
            raise IclearnError(f"the predictor {one.baseline.name} is for {wanted} labels: these are {kind}")
    return list(named)
