"""A task that is a dataset brought by the user; the Recipe holds its sizes and digest, not its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.dataset import Arrays, Dataset, FeatureArrays
from ..core.errors import IclearnError, MissingClosedForm
from ..core.label_law import LabelLaw
from ..core.prompt import Batch, FeatureBatch, Prompt, full_prompt
from ..core.task import AbstractSource, AbstractTask

_BLOCK = 4096


@dataclass(frozen=True)
class GivenData(AbstractTask, kind="given_data"):
    """Fixed arrays. Make one with `GivenData.of(dataset)`; run it with ``simulate(recipe, dataset=dataset)``."""

    needs_dataset: ClassVar[bool] = True

    dim: int
    context_len: int
    out_dim: int
    num_prompts: int | None
    digest: str
    test_names: tuple[str, ...] = ()
    prefixes: bool = False

    @staticmethod
    def of(dataset: Dataset, *, prefixes: bool = False) -> GivenData:
        train = dataset.train
        if isinstance(train, FeatureArrays):
            dim = round(train.features.shape[1] ** 0.5)
            context = 0
            if dim * dim != train.features.shape[1]:
                raise IclearnError(f"cubic features come in dim² columns; {train.features.shape[1]} is no square")
            if prefixes:
                raise IclearnError("training on all prefixes needs tokens; this dataset holds features only")
        else:
            dim, context = train.x.shape[2], train.x.shape[1] - 1
            if prefixes and train.labels is None:
                raise IclearnError("training on all prefixes needs the true label of every token: add `y_all`")
        for name, test in dataset.tests.items():
            if type(test) is not type(train):
                raise IclearnError(f"test set {name} must be of the same form as the training set")
            if (given := _sizes(test)) != (wanted := _sizes(train)):
                raise IclearnError(f"test set {name} has (dim, out_dim) {given}, the training set has {wanted}")
        return GivenData(
            dim=dim,
            context_len=context,
            out_dim=train.y_query.shape[1],
            num_prompts=train.num_prompts,
            digest=dataset.digest,
            test_names=tuple(dataset.tests),
            prefixes=prefixes,
        )

    @property
    def tests(self) -> tuple[str, ...]:
        return self.test_names

    def bind(self, dataset: Dataset | None) -> BoundData:
        """This task with its arrays, after checking that they are the ones the recipe means."""
        if dataset is None:
            raise IclearnError("this recipe describes a dataset brought by the user: pass it as dataset=")
        if dataset.digest != self.digest:
            raise IclearnError(
                f"the dataset given has digest {dataset.digest[:12]}, the recipe wants {self.digest[:12]}"
            )
        return BoundData(**vars(self), dataset=dataset)

    @property
    def gives_features(self) -> bool:
        return self.context_len == 0

    def describe(self) -> str:
        return f"given data D={self.dim} N={self.context_len} P={self.num_prompts}"

    def describe_data(self) -> str:
        return f"given by the user, SHA-256 {self.digest}"

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> AbstractSource:
        raise IclearnError("bind the dataset first")

    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch:
        raise IclearnError("a given dataset has no fresh prompts")

    def label_laws(self, seed: int | Array, which: str = "train") -> tuple[LabelLaw, ...]:
        raise MissingClosedForm(
            "a given dataset has no population: use engine moments (linear models) or samples (any)"
        )


def _sizes(arrays: Arrays | FeatureArrays) -> tuple[int, int]:
    inputs = arrays.features if isinstance(arrays, FeatureArrays) else arrays.x
    return inputs.shape[-1], arrays.y_query.shape[1]


@dataclass(frozen=True)
class BoundData(GivenData):
    """`GivenData` with the arrays at hand; never written into a recipe."""

    dataset: Dataset | None = None

    def covariance_matrix(self, seed: int | Array) -> Float[Array, "dim dim"] | None:
        assert self.dataset is not None
        train = self.dataset.train
        if isinstance(train, FeatureArrays):
            return None
        x = train.x.reshape(-1, self.dim)
        return jnp.asarray(x.T @ x / len(x))

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> AbstractSource:
        assert self.dataset is not None
        arrays = self.dataset.train if which == "train" else self.dataset.tests[which]
        size = min(_BLOCK, arrays.num_prompts)
        blocks = -(-arrays.num_prompts // size)

        def cut(array: np.ndarray) -> Array:
            padded = np.zeros((blocks * size, *array.shape[1:]), dtype)
            padded[: len(array)] = array
            return jnp.asarray(padded.reshape(blocks, size, *array.shape[1:]))

        weight = cut(np.full(arrays.num_prompts, 1 / arrays.num_prompts))
        if isinstance(arrays, FeatureArrays):
            return FeatureSource(
                features=cut(arrays.features),
                target=cut(arrays.y_query),
                weight=weight,
                num_prompts=arrays.num_prompts,
            )
        labels = arrays.y if arrays.labels is None else arrays.labels
        return ArraySource(
            x=cut(arrays.x),
            y=cut(arrays.y),
            target=cut(arrays.y_query),
            labels=cut(labels),
            weight=weight,
            num_prompts=arrays.num_prompts,
        )


class ArraySource(AbstractSource):
    """Prompts of a dataset, block by block."""

    x: Float[Array, "blocks size tokens dim"]
    y: Float[Array, "blocks size tokens output"]
    target: Float[Array, "blocks size output"]
    labels: Float[Array, "blocks size tokens output"]
    weight: Float[Array, "blocks size"]
    num_prompts: int = eqx.field(static=True)

    @property
    def num_blocks(self) -> int:
        return self.x.shape[0]

    def block(self, index: Array) -> Batch:
        x, y = self.x[index], self.y[index]
        return Batch(full_prompt(x[:, :-1], y[:, :-1], x[:, -1]), self.target[index], self.weight[index])

    def prefix_block(self, index: Array, context: Array | int) -> Batch:
        x, y, labels = self.x[index], self.y[index], self.labels[index]
        mask = jnp.broadcast_to(jnp.arange(x.shape[1] - 1) < context, (x.shape[0], x.shape[1] - 1))
        return Batch(Prompt(x[:, :-1], y[:, :-1], x[:, context], mask), labels[:, context], self.weight[index])


class FeatureSource(AbstractSource):
    """Ready-made features of a dataset, block by block."""

    features: Float[Array, "blocks size feature"]
    target: Float[Array, "blocks size output"]
    weight: Float[Array, "blocks size"]
    num_prompts: int = eqx.field(static=True)

    @property
    def num_blocks(self) -> int:
        return self.features.shape[0]

    def block(self, index: Array) -> FeatureBatch:
        return FeatureBatch(self.features[index], self.target[index], self.weight[index])
