"""A task that is a dataset brought by the user; the Recipe holds its sizes and digest, not its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import require
from ..core.dataset import Arrays, Dataset, FeatureArrays
from ..core.errors import IclearnError, MissingClosedForm
from ..core.label_law import LabelLaw
from ..core.prompt import Batch, FeatureBatch, full_prompt, prefix_prompt
from ..core.task import AbstractSource, AbstractTask

_BLOCK = 4096


@dataclass(frozen=True)
class GivenData(AbstractTask, kind="given_data"):
    """Fixed arrays. Make one with `GivenData.of(dataset)`; run it with ``simulate(recipe, dataset=dataset)``.

    Args:
        dim: dimension of the inputs.
        context_len: context pairs of a prompt; 0 for ready-made features.
        out_dim: number of outputs.
        num_prompts: prompts of the training set.
        digest: of all arrays (`Dataset.digest`).
        test_names: names of the test sets.
        prefixes: whether the loss is averaged over all prefixes of the prompts.

    >>> import iclearn as icl
    >>> arrays = icl.Arrays(x=np.ones((5, 4, 2)), y=np.zeros((5, 4, 1)), y_query=np.zeros((5, 1)))
    >>> GivenData.of(icl.Dataset(arrays)).describe()
    'given data D=2 N=3 P=5'
    """

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
        """The task of a dataset.

        Args:
            dataset: the arrays.
            prefixes: whether to train on all prefixes of the prompts, which needs the true labels of all tokens.

        Returns:
            The task, which holds sizes and a digest.
        """
        train = dataset.train
        if isinstance(train, FeatureArrays):
            columns, context = train.features.shape[1], 0
            dim = round(columns**0.5)
            require(dim * dim == columns, f"cubic features come in dim² columns; {columns} is no square")
            require(not prefixes, "training on all prefixes needs tokens; this dataset holds features only")
        else:
            dim, context = train.x.shape[2], train.x.shape[1] - 1
            labeled = not prefixes or train.labels is not None
            require(labeled, "training on all prefixes needs the true label of every token: add `y_all`")
        wanted = _sizes(train)
        for name, test in dataset.tests.items():
            same, sizes = type(test) is type(train), _sizes(test)
            require(same, f"test set {name} must be of the same form as the training set")
            require(sizes == wanted, f"test set {name} has (dim, out_dim) {sizes}, the training set has {wanted}")
        names = tuple(dataset.tests)
        return GivenData(dim, context, train.y_query.shape[1], train.num_prompts, dataset.digest, names, prefixes)

    @property
    def tests(self) -> tuple[str, ...]:
        return self.test_names

    def bind(self, dataset: Dataset | None) -> BoundData:
        """The task with its arrays, after checking that they are the ones the recipe means.

        Args:
            dataset: the arrays.

        Returns:
            The task, ready for `source`.
        """
        if dataset is None:
            raise IclearnError("this recipe describes a dataset brought by the user: pass it as dataset=")
        given, wanted = dataset.digest, self.digest
        require(given == wanted, f"the dataset given has digest {given[:12]}, the recipe wants {wanted[:12]}")
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
        engines = "engine moments (linear models) or samples (any)"
        raise MissingClosedForm(f"a given dataset has no population: use {engines}")


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
        count = arrays.num_prompts
        size = min(_BLOCK, count)
        blocks = -(-count // size)

        def cut(array: np.ndarray) -> Array:
            padded = np.zeros((blocks * size, *array.shape[1:]), dtype)
            padded[: len(array)] = array
            return jnp.asarray(padded.reshape(blocks, size, *array.shape[1:]))

        common = {"target": cut(arrays.y_query), "weight": cut(np.full(count, 1 / count)), "num_prompts": count}
        if isinstance(arrays, FeatureArrays):
            return FeatureSource(features=cut(arrays.features), **common)
        labels = arrays.y if arrays.labels is None else arrays.labels
        return ArraySource(x=cut(arrays.x), y=cut(arrays.y), labels=cut(labels), **common)


class _StoredSource(AbstractSource):
    """Prompts of a dataset, in blocks."""

    target: Float[Array, "blocks size output"]
    weight: Float[Array, "blocks size"]
    num_prompts: int = eqx.field(static=True)

    @property
    def num_blocks(self) -> int:
        return self.weight.shape[0]


class ArraySource(_StoredSource):
    """Tokens of a dataset, block by block."""

    x: Float[Array, "blocks size tokens dim"]
    y: Float[Array, "blocks size tokens output"]
    labels: Float[Array, "blocks size tokens output"]

    def block(self, index: Any) -> Batch:
        x, y = self.x[index], self.y[index]
        return Batch(full_prompt(x[:, :-1], y[:, :-1], x[:, -1]), self.target[index], self.weight[index])

    def prefix_block(self, index: Any, context: Array | int) -> Batch:
        prompt = prefix_prompt(self.x[index], self.y[index], context)
        return Batch(prompt, self.labels[index][:, context], self.weight[index])


class FeatureSource(_StoredSource):
    """Ready-made features of a dataset, block by block."""

    features: Float[Array, "blocks size feature"]

    def block(self, index: Any) -> FeatureBatch:
        return FeatureBatch(self.features[index], self.target[index], self.weight[index])
