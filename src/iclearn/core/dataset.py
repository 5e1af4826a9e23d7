"""Datasets brought by the user: plain arrays, checked, with a digest that stands for them in a Recipe."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .checks import require
from .hashing import digest_arrays


class _PromptArrays:
    """What both forms of arrays have in common: rows of prompts, of finite floating-point numbers."""

    y_query: np.ndarray

    @property
    def num_prompts(self) -> int:
        """How many prompts the arrays hold."""
        return len(self.y_query)

    def _check_numbers(self) -> None:
        for name, array in ((n, a) for n, a in vars(self).items() if a is not None):
            dtype = array.dtype
            require(dtype.kind == "f", f"dataset array {name} must hold floating-point numbers, not {dtype}")
            bad = np.argwhere(~np.isfinite(array)).tolist()
            found = f"{len(bad)} NaN or infinite values, the first at index {tuple(bad[0])}" if bad else ""
            require(not bad, f"dataset array {name} has {found}")


@dataclass(frozen=True)
class Arrays(_PromptArrays):
    """The tokens of a set of prompts as plain arrays, as files hold them.

    Args:
        x: (prompt, token, dim) the inputs; the last token is the query.
        y: (prompt, token, output) the labels as shown; the query's own are ignored.
        y_query: (prompt, output) the targets.
        labels: (prompt, token, output) the true labels of every token, which only training on all prefixes needs.

    >>> arrays = Arrays(x=np.ones((5, 4, 2)), y=np.zeros((5, 4, 1)), y_query=np.zeros((5, 1)))
    >>> arrays.num_prompts
    5
    """

    x: np.ndarray
    y: np.ndarray
    y_query: np.ndarray
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        x, y, labels = self.x, self.y, self.labels
        shapes = f"x {x.shape}, y {y.shape}, y_query {self.y_query.shape}"
        wanted = "(prompts, tokens, dim), (prompts, tokens, output), (prompts, output)"
        require((x.ndim, y.ndim, self.y_query.ndim) == (3, 3, 2), f"dataset shapes must be {wanted}: {shapes}")
        fit = x.shape[:2] == y.shape[:2] and self.y_query.shape == (x.shape[0], y.shape[2])
        require(fit, f"dataset arrays do not belong together: {shapes}")
        require(self.num_prompts >= 1, f"a dataset needs at least one prompt: {shapes}")
        require(x.shape[1] >= 2, f"a prompt needs at least one context token and the query: {shapes}")
        if labels is not None:
            require(labels.shape == y.shape, f"labels {labels.shape} must have the shape of y {y.shape}")
        self._check_numbers()


@dataclass(frozen=True)
class FeatureArrays(_PromptArrays):
    """Ready-made features of prompts whose tokens are not known.

    Args:
        features: (prompt, feature) the features.
        y_query: (prompt, output) the targets.
    """

    features: np.ndarray
    y_query: np.ndarray

    def __post_init__(self) -> None:
        features, y_query = self.features, self.y_query
        shapes = f"{features.shape} and {y_query.shape}"
        fit = features.ndim == y_query.ndim == 2 and len(features) == len(y_query)
        require(fit, f"features must be (prompts, feature) and y_query (prompts, output), not {shapes}")
        require(len(features) >= 1, f"a dataset needs at least one prompt: features {features.shape}")
        self._check_numbers()


@dataclass(frozen=True)
class Dataset:
    """A training set brought by the user, with any number of named test sets; `GivenData.of` makes a task of it.

    Args:
        train: the training set.
        tests: name → test set, of the same form.

    >>> arrays = Arrays(x=np.ones((5, 4, 2)), y=np.zeros((5, 4, 1)), y_query=np.zeros((5, 1)))
    >>> Dataset(arrays, {"held_out": arrays}).digest[:12]
    '221662577c09'
    """

    train: Arrays | FeatureArrays
    tests: dict[str, Arrays | FeatureArrays] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of every array with its name, shape and type: what a Recipe holds instead of the data."""
        return digest_arrays(
            (f"{name}.{key}", value)
            for name, arrays in [("train", self.train), *sorted(self.tests.items())]
            for key, value in vars(arrays).items()
            if value is not None
        )
