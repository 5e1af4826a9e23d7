"""Datasets brought by the user: plain arrays, checked, with a digest that stands for them in a Recipe."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .errors import IclearnError
from .hashing import digest_arrays


@dataclass(frozen=True)
class Arrays:
    """The tokens of a set of prompts as plain arrays, as files hold them.

    `x` (prompts, tokens, dim) with the query last, `y` (prompts, tokens, output) the labels as shown, the query's
    own being ignored, `y_query` (prompts, output) the targets, and `labels` the true labels of every token, which
    only training on all prefixes needs.
    """

    x: np.ndarray
    y: np.ndarray
    y_query: np.ndarray
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        shapes = f"x {self.x.shape}, y {self.y.shape}, y_query {self.y_query.shape}"
        if self.x.ndim != 3 or self.y.ndim != 3 or self.y_query.ndim != 2:
            raise IclearnError(
                f"dataset shapes must be (prompts, tokens, dim), (prompts, tokens, output), (prompts, output): {shapes}"
            )
        if self.x.shape[:2] != self.y.shape[:2] or self.y_query.shape != (self.x.shape[0], self.y.shape[2]):
            raise IclearnError(f"dataset arrays do not belong together: {shapes}")
        if self.x.shape[0] < 1:
            raise IclearnError(f"a dataset needs at least one prompt: {shapes}")
        if self.x.shape[1] < 2:
            raise IclearnError(f"a prompt needs at least one context token and the query: {shapes}")
        if self.labels is not None and self.labels.shape != self.y.shape:
            raise IclearnError(f"labels {self.labels.shape} must have the shape of y {self.y.shape}")
        _refuse_nan(x=self.x, y=self.y, y_query=self.y_query, labels=self.labels)

    @property
    def num_prompts(self) -> int:
        return self.x.shape[0]


@dataclass(frozen=True)
class FeatureArrays:
    """Ready-made features (prompts, feature) and targets (prompts, output)."""

    features: np.ndarray
    y_query: np.ndarray

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.y_query.ndim != 2 or len(self.features) != len(self.y_query):
            raise IclearnError(
                "features must be (prompts, feature) and y_query (prompts, output), "
                f"not {self.features.shape} and {self.y_query.shape}"
            )
        if len(self.features) < 1:
            raise IclearnError(f"a dataset needs at least one prompt: features {self.features.shape}")
        _refuse_nan(features=self.features, y_query=self.y_query)

    @property
    def num_prompts(self) -> int:
        return self.features.shape[0]


@dataclass(frozen=True)
class Dataset:
    """A training set brought by the user, with any number of named test sets."""

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


def _refuse_nan(**arrays: np.ndarray | None) -> None:
    for name, array in arrays.items():
        if array is None:
            continue
        if array.dtype.kind != "f":
            raise IclearnError(f"dataset array {name} must hold floating-point numbers, not {array.dtype}")
        bad = ~np.isfinite(array)
        if bad.any():
            where = tuple(int(i) for i in np.argwhere(bad)[0])
            raise IclearnError(
                f"dataset array {name} has {int(bad.sum())} NaN or infinite values, the first at index {where}"
            )
