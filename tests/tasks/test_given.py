"""Datasets brought by the user as tasks: their blocks, their checks, and what they cannot do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.dataset import Arrays, Dataset, FeatureArrays
from iclearn.core.errors import IclearnError, MissingClosedForm
from iclearn.core.prompt import Batch, FeatureBatch
from iclearn.core.spec import Spec
from iclearn.tasks import GivenData

RNG = np.random.default_rng(0)


def arrays(prompts=5, tokens=4, dim=2, outputs=1, labels=False) -> Arrays:
    shown = RNG.normal(size=(prompts, tokens, outputs))
    truth = RNG.normal(size=shown.shape) if labels else None
    return Arrays(RNG.normal(size=(prompts, tokens, dim)), shown, RNG.normal(size=(prompts, outputs)), truth)


def test_sizes_and_digest_stand_for_the_data():
    data = Dataset(arrays(6, 5, 3, 2), {"in_weight": arrays(4, 5, 3, 2)})
    task = GivenData.of(data)
    assert (task.dim, task.context_len, task.out_dim, task.num_prompts) == (3, 4, 2, 6)
    assert task.tests == ("in_weight",)
    assert task.digest == data.digest
    assert Spec.from_json(task.to_json()) == task


def test_the_source_gives_the_arrays_back():
    data = Dataset(arrays(), {"in_context": arrays(3)})
    bound = GivenData.of(data).bind(data)
    for which, given in [("train", data.train), ("in_context", data.tests["in_context"])]:
        batch = bound.source(0, jnp.float64, which).everything()
        assert isinstance(batch, Batch)
        assert isinstance(given, Arrays)
        np.testing.assert_array_equal(batch.prompt.x, given.x[:, :-1])
        np.testing.assert_array_equal(batch.prompt.y, given.y[:, :-1])
        np.testing.assert_array_equal(batch.prompt.query, given.x[:, -1])
        np.testing.assert_array_equal(batch.target, given.y_query)
        np.testing.assert_allclose(batch.weight, 1 / given.num_prompts)


def test_large_sets_come_in_padded_blocks():
    data = Dataset(arrays(4100, 2, 1))
    source = GivenData.of(data).bind(data).source(0, jnp.float64)
    assert source.num_blocks == 2
    last = source.block(jnp.asarray(1))
    np.testing.assert_allclose(last.weight[:4], 1 / 4100)
    np.testing.assert_array_equal(last.weight[4:], 0)
    whole = source.everything()
    assert isinstance(whole, Batch)
    assert isinstance(data.train, Arrays)
    np.testing.assert_array_equal(whole.prompt.query, data.train.x[:, -1])


def test_prefixes_use_the_true_labels_as_targets():
    data = Dataset(arrays(5, 4, 2, labels=True))
    task = GivenData.of(data, prefixes=True)
    cut = task.bind(data).source(0, jnp.float64).everything(3)
    assert isinstance(cut, Batch)
    train = data.train
    assert isinstance(train, Arrays)
    assert train.labels is not None
    for n in (1, 2, 3):
        part = jax.tree.map(lambda a, n=n: np.asarray(a)[5 * (n - 1) : 5 * n], cut)
        np.testing.assert_array_equal(part.prompt.query, train.x[:, n])
        np.testing.assert_array_equal(part.target, train.labels[:, n])
        np.testing.assert_array_equal(part.prompt.mask, np.tile(np.arange(3) < n, (5, 1)))


def test_ready_made_features():
    data = Dataset(FeatureArrays(RNG.normal(size=(5, 9)), RNG.normal(size=(5, 1))))
    task = GivenData.of(data)
    assert (task.dim, task.context_len) == (3, 0)
    bound = task.bind(data)
    batch = bound.source(0, jnp.float32).everything()
    assert isinstance(batch, FeatureBatch)
    assert isinstance(data.train, FeatureArrays)
    assert batch.features.dtype == jnp.float32
    np.testing.assert_allclose(batch.features, data.train.features, atol=1e-6)
    assert bound.covariance_matrix(0) is None, "features do not show the covariance of their inputs"
    with pytest.raises(IclearnError, match="prompts of this task have no prefixes"):
        bound.source(0, jnp.float64).prefix_block(jnp.asarray(0), 1)


def test_the_covariance_is_that_of_the_arrays():
    data = Dataset(arrays(50, 3, 2))
    assert isinstance(data.train, Arrays)
    x = data.train.x.reshape(-1, 2)
    np.testing.assert_allclose(GivenData.of(data).bind(data).covariance_matrix(0), x.T @ x / len(x), rtol=1e-12)


GOOD = Dataset(arrays())
REFUSED = [
    (
        lambda: GivenData.of(Dataset(FeatureArrays(np.zeros((3, 5)), np.zeros((3, 1))))),
        "cubic features come in dim² columns; 5 is no square",
    ),
    (
        lambda: GivenData.of(Dataset(FeatureArrays(np.zeros((3, 4)), np.zeros((3, 1)))), prefixes=True),
        "training on all prefixes needs tokens; this dataset holds features only",
    ),
    (
        lambda: GivenData.of(GOOD, prefixes=True),
        "training on all prefixes needs the true label of every token: add `y_all`",
    ),
    (
        lambda: GivenData.of(Dataset(arrays(), {"in_weight": FeatureArrays(np.zeros((3, 4)), np.zeros((3, 1)))})),
        "test set in_weight must be of the same form as the training set",
    ),
    (
        lambda: GivenData.of(Dataset(arrays(dim=2), {"in_weight": arrays(dim=3)})),
        "test set in_weight has (dim, out_dim) (3, 1), the training set has (2, 1)",
    ),
    (
        lambda: GivenData.of(GOOD).bind(None),
        "this recipe describes a dataset brought by the user: pass it as dataset=",
    ),
    (lambda: GivenData.of(GOOD).source(0, jnp.float64), "bind the dataset first"),
    (lambda: GivenData.of(GOOD).fresh(0, jax.random.key(0), 3, jnp.float64), "a given dataset has no fresh prompts"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[m[:45] for _, m in REFUSED])
def test_refused_with_one_line(make, message):
    with pytest.raises(IclearnError) as caught:
        make()
    assert str(caught.value) == message


def test_other_data_than_the_recipe_means_is_refused():
    other = Dataset(arrays())
    with pytest.raises(IclearnError, match=f"has digest {other.digest[:12]}, the recipe wants {GOOD.digest[:12]}"):
        GivenData.of(GOOD).bind(other)


def test_no_closed_form_lists_the_engines_that_work():
    with pytest.raises(MissingClosedForm, match=r"use engine moments .* or samples"):
        GivenData.of(GOOD).label_laws(0)
