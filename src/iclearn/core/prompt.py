"""Prompts and datasets: the arrays every model reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from . import jax_settings as jax_settings
from .errors import IclearnError


class Prompt(eqx.Module):
    """One prompt: context pairs and a query. `mask` says which context pairs are there (prefixes use it).

    Functions take one prompt and are vmapped by the caller; a batch is the same object with a leading axis.
    """

    x: Float[Array, "*batch context dim"]
    y: Float[Array, "*batch context output"]
    query: Float[Array, "*batch dim"]
    mask: Bool[Array, "*batch context"]

    def tokens(self) -> Float[Array, "*batch tokens entry"]:
        """[x; y] per context pair and [query; 0] last; absent pairs are zero."""
        context = jnp.concatenate([self.x, self.y], -1) * self.mask[..., None]
        label = jnp.zeros((*self.query.shape[:-1], self.y.shape[-1]), self.query.dtype)
        last = jnp.concatenate([self.query, label], -1)[..., None, :]
        return jnp.concatenate([context, last], -2)

    def num_context(self) -> Float[Array, "*batch"]:
        return self.mask.sum(-1).astype(self.query.dtype)


class Document(eqx.Module):
    """One document of softmax regression: context words with their probabilities, and query words without.

    `target` is positive and sums to one; a prediction is a probability for each query word.
    """

    context: Float[Array, "*batch word dim"]
    target: Float[Array, "*batch word"]
    query: Float[Array, "*batch query_word dim"]


PromptT = TypeVar("PromptT", Prompt, Document)


class Batch(eqx.Module, Generic[PromptT]):
    """Prompts with their targets and weights; the weights sum to one over the batch they are a mean of.

    The loss of a prompt is `unit` times the mean over outputs of the squared error.
    """

    prompt: PromptT
    target: Float[Array, "prompts output"]
    weight: Float[Array, " prompts"]
    unit: float = eqx.field(static=True, default=1.0)


class FeatureBatch(eqx.Module):
    """Like `Batch`, where only the features of each prompt are known (the public code's cubic features)."""

    features: Float[Array, "prompts feature"]
    target: Float[Array, "prompts output"]
    weight: Float[Array, " prompts"]


def full_prompt(
    x: Float[Array, "*batch context dim"], y: Float[Array, "*batch context output"], query: Array
) -> Prompt:
    return Prompt(x, y, query, jnp.ones(x.shape[:-1], bool))


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
        sha = hashlib.sha256()
        for name, arrays in [("train", self.train), *sorted(self.tests.items())]:
            for key, value in vars(arrays).items():
                if value is not None:
                    array = np.ascontiguousarray(value)
                    sha.update(f"{name}.{key}{array.shape}{array.dtype.str}".encode())
                    sha.update(array.tobytes())
        return sha.hexdigest()


def weights_digest(weights: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of named arrays: what a Recipe holds instead of weights brought by the user."""
    sha = hashlib.sha256()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name])
        sha.update(f"{name}{array.shape}{array.dtype.str}".encode() + array.tobytes())
    return sha.hexdigest()


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
