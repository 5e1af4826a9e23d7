"""Softmax regression documents: what is drawn, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iclearn.core.errors import IclearnError, MissingClosedForm
from iclearn.core.prompt import Batch
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.softmax_regression import EVALUATION, SoftmaxRegression, normal_pair


def drawn(task: SoftmaxRegression, seed: int = 0, which: str = "train", dtype: str = "float64") -> Batch:
    batch = task.source(seed, dtype, which).everything()
    assert isinstance(batch, Batch)
    return batch


def test_targets_are_the_softmax_of_one_hidden_weight():
    batch = drawn(SoftmaxRegression(context_len=12, dim=3, scale=0.7, num_prompts=40))
    for a, b, query, wanted in zip(
        batch.prompt.context, batch.prompt.target, batch.prompt.query, batch.target, strict=True
    ):
        # Log probabilities are Ax up to a constant: least squares finds x, of the right length, exactly.
        centered = np.log(np.asarray(b)) - np.log(np.asarray(b)).mean()
        x, left, *_ = np.linalg.lstsq(np.asarray(a), centered, rcond=None)
        assert left[0] < 1e-24
        assert np.linalg.norm(x) == pytest.approx(0.7, rel=1e-12)
        np.testing.assert_allclose(np.asarray(a).mean(0), 0, atol=1e-14)
        np.testing.assert_allclose(wanted, jax.nn.softmax(jnp.asarray(query @ x)), rtol=1e-10)


@settings(deadline=None, max_examples=4)
@given(
    words=st.integers(2, 30), dim=st.integers(1, 6), queries=st.none() | st.integers(2, 40), count=st.integers(1, 40)
)
def test_sizes_weights_and_unit(words, dim, queries, count):
    task = SoftmaxRegression(context_len=words, dim=dim, query_len=queries, num_prompts=count)
    batch = drawn(task)
    asked = queries or words
    assert batch.prompt.context.shape == (count, words, dim)
    assert batch.prompt.query.shape == (count, asked, dim)
    assert batch.target.shape == (count, asked) == (count, task.out_dim)
    assert float(batch.weight.sum()) == pytest.approx(1)
    np.testing.assert_allclose(batch.target.sum(-1), 1, rtol=1e-12)
    assert batch.unit == asked**2 / 2  # unit · mean of squares = n_q · ½ · sum of squares


def test_in_sample_queries_are_the_context():
    batch = drawn(SoftmaxRegression(context_len=9, dim=2, in_sample=True, num_prompts=5))
    np.testing.assert_array_equal(batch.prompt.query, batch.prompt.context)
    np.testing.assert_array_equal(batch.target, batch.prompt.target)


def test_both_precisions_see_the_same_documents_and_sets_differ():
    task = SoftmaxRegression(context_len=8, dim=3, num_prompts=6, test_prompts=6)
    double, single = drawn(task), drawn(task, dtype="float32")
    np.testing.assert_allclose(double.prompt.query, single.prompt.query, atol=1e-6)
    assert single.target.dtype == jnp.float32
    assert np.abs(drawn(task, which=EVALUATION).prompt.query - double.prompt.query).max() > 0.1
    assert np.abs(drawn(task, seed=1).prompt.query - double.prompt.query).max() > 0.1


@pytest.mark.parametrize("embedding", ["gaussian", "sphere", "sign"])
def test_embeddings_have_the_covariance_asked_for(embedding):
    cov = Covariance.eigenvalues((2.0, 0.5))
    task = SoftmaxRegression(context_len=40, dim=2, embedding=embedding, covariance=cov, num_prompts=500)
    rows = np.asarray(drawn(task).prompt.query).reshape(-1, 2)
    errors = np.std(rows[:, :, None] * rows[:, None, :], axis=0) / np.sqrt(len(rows))
    assert np.all(np.abs(rows.T @ rows / len(rows) - np.diag([2.0, 0.5])) < 5 * errors + 1e-12)


def test_normal_pair_is_standard_normal_and_independent():
    first, second = (np.asarray(a).ravel() for a in normal_pair(jax.random.key(3), (200, 100)))
    for sample in (first, second):
        assert stats.kstest(sample, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(first.size)
    # The pair xor-ed is what jax.random makes its bits of: the generator is JAX's own.
    again, _ = normal_pair(jax.random.key(3), (200, 100))
    np.testing.assert_array_equal(np.asarray(again).ravel(), first)


def test_vmapped_draws_are_those_of_each_key():
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(lambda key: normal_pair(key, (4, 5))[1])(keys)
    for key, rows in zip(keys, together, strict=True):
        np.testing.assert_array_equal(normal_pair(key, (4, 5))[1], rows)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"context_len": 1}, "context_len"),
        ({"dim": 0}, "dim"),
        ({"scale": -1.0}, "logit scale"),
        ({"scale": float("nan")}, "logit scale"),
        ({"in_sample": True, "query_len": 7}, "in-sample"),
        ({"covariance": Covariance.eigenvalues((1.0, 1.0))}, "eigenvalues"),
    ],
)
def test_refusals(changes, words):
    with pytest.raises(IclearnError, match=words):
        SoftmaxRegression(**({"context_len": 10, "dim": 3} | changes))


def test_what_a_task_of_fresh_documents_has_not():
    task = SoftmaxRegression(context_len=10, dim=3)
    with pytest.raises(IclearnError, match="no fixed set"):
        task.source(0, "float64")
    with pytest.raises(MissingClosedForm, match="samples"):
        task.label_laws(0)
