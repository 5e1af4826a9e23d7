"""What shifts do to laws of linear functions: priors that Bayes must know, and errors of least squares and of zero."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import IclearnError, MissingClosedForm
from ...tasks.function_class import FunctionClass
from ...tasks.function_laws import LinearFunctions
from ...tasks.prompt_shifts import Shift
from .closed_forms import least_squares_error, renormalized_error


@dataclass(frozen=True)
class LinearLaw:
    """Labels w·x + noise with w ~ N(mean, covariance): what the Bayes predictor of a law has to know.

    Args:
        mean: (dim) of w.
        covariance: (dim, dim) of w.
        noise: variance of the noise.
    """

    mean: np.ndarray
    covariance: np.ndarray
    noise: float

    @property
    def second_moment(self) -> np.ndarray:
        """(dim, dim) E w wᵀ."""
        return self.covariance + np.outer(self.mean, self.mean)


def linear_law(task: FunctionClass, shift: Shift | None = None) -> LinearLaw:
    """The law of the labels of linear functions under a shift, for ``Bayes(law.mean, law.covariance, law.noise)``.

    The factor of renormalized labels is that of infinitely many.

    Args:
        task: with `LinearFunctions`.
        shift: one in place of the task's own (None: the task's).

    Returns:
        The law.

    >>> law = linear_law(FunctionClass(dim=2, noise=0.25), Shift("prior_mean", 1.0))
    >>> law.mean.tolist(), law.noise
    ([1.0, 1.0], 0.25)
    """
    if not isinstance(task.functions, LinearFunctions):
        raise MissingClosedForm(f"{task.functions.kind} are not linear functions with Gaussian weights")
    shift = task.shift if shift is None else shift
    name, amount, dim = ("", 1.0, task.dim) if shift is None else (shift.name, shift.size, task.dim)
    if name in ("input_noise", "noise_tails"):
        raise MissingClosedForm(f"the law of labels under {name} is not Gaussian")
    factor = task.functions.factor(dim)
    noise = amount**2 if name in ("noise", "noisyLR") else task.noise
    mean = np.full(dim, amount if name == "prior_mean" else 0.0)
    spread = amount**2 if name == "prior_scale" else 1.0
    scale = amount if name == "scale_y" else 1.0
    if task.renormalize or name == "noisyLR":
        scale = scale * np.sqrt(dim / (factor**2 * (spread * dim + mean @ mean) + noise))
    return LinearLaw(scale * factor * mean, (scale * factor) ** 2 * spread * np.eye(dim), float(scale**2 * noise))


def least_squares_under(shift: Shift | None, context: Any, dim: int) -> np.ndarray:
    """The error of least squares on linear functions without noise under a shift, over d.

    Args:
        shift: the shift (None: none).
        context: pairs before the query.
        dim: d.

    Returns:
        The error, of the shape of `context`; against noisy labels for ``noisyLR``, excess error for ``noise``. Shifts
        of which no closed form is known raise `MissingClosedForm`: see `ridge_error` for those.

    >>> least_squares_under(Shift("scale_x", 2.0), [0, 1], 2).tolist()
    [4.0, 2.0]
    """
    i = np.asarray(context, float)
    plain = least_squares_error(i, dim)
    if shift is None:
        return plain
    amount = shift.size
    known = {
        "scale_x": amount**2 * plain, "scale_y": amount**2 * plain, "prior_scale": amount**2 * plain,
        "prior_mean": (1 + amount**2) * plain, "random_quadrants": plain, "length": plain,
        "half_subspace": np.maximum(1 - i / max(dim // 2, 1), 0), "noise": least_squares_error(i, dim, amount**2),
        "noisyLR": renormalized_error(least_squares_error(i, dim, 1.0), dim),
        "orthogonal_train_test": np.where(i < dim, 1.0, 0.0), "overlapping_train_test": np.where(i == 0, 1.0, 0.0),
        "orthogonal_line": np.full_like(i, 1 / dim),
    }  # fmt: skip
    if shift.name not in known:
        raise MissingClosedForm(f"least squares has no closed form under {shift.name}: sample it with ridge_error")
    return known[shift.name]


def zero_error(shift: Shift | None, dim: int, noise: float = 0.0) -> float:
    """What answering 0 scores on linear functions under a shift, against labels as shown, over d.

    Args:
        shift: the shift (None: none).
        dim: d.
        noise: variance of the task's noise.

    Returns:
        E y²/d, at positions that have a query.

    >>> zero_error(Shift("scale_y", 3.0), 5), zero_error(Shift("noisyLR"), 5)
    (9.0, 1.0)
    """
    amount = 1.0 if shift is None else shift.size
    name = "" if shift is None else shift.name
    if name == "noisyLR":
        return 1.0
    if name == "scale_y":
        return amount**2 * (1 + noise / dim)
    own = amount**2 if name == "noise" else noise
    signal = {
        "scale_x": amount**2, "prior_scale": amount**2, "prior_mean": 1 + amount**2, "input_mean": 1 + amount**2,
        "orthogonal_line": 1 / dim,
    }  # fmt: skip
    return float(signal.get(name, 1.0) + own / dim)


def opposite_query_moment(dim: int, pattern: np.ndarray | None = None) -> np.ndarray:
    """Λ_q of ``opposite_quadrants`` given the orthant: (1 − 2/π) I + (2/π) p pᵀ.

    Args:
        dim: d.
        pattern: (dim) p, the signs (None: all +1).

    Returns:
        (dim, dim) E q qᵀ.
    """
    p = np.ones(dim) if pattern is None else np.asarray(pattern, float)
    if p.shape != (dim,):
        raise IclearnError(f"a pattern of signs has shape ({dim},), not {p.shape}")
    return (1 - 2 / np.pi) * np.eye(dim) + 2 / np.pi * np.outer(p, p)
