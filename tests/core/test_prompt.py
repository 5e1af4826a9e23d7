"""Prompts, batches of them, and the arrays users bring."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.dataset import Arrays, Dataset, FeatureArrays
from iclearn.core.errors import IclearnError
from iclearn.core.prompt import Prompt, full_prompt
from iclearn.core.recipe import Init

RNG = np.random.default_rng(0)


def arrays(prompts=3, tokens=4, dim=2, outputs=1, **changes) -> Arrays:
    given = {
        "x": RNG.normal(size=(prompts, tokens, dim)),
        "y": RNG.normal(size=(prompts, tokens, outputs)),
        "y_query": RNG.normal(size=(prompts, outputs)),
    }
    return Arrays(**(given | changes))


def test_tokens_are_pairs_then_the_query_with_label_zero():
    x, y, query = jnp.array([[1.0, 2.0], [3.0, 4.0]]), jnp.array([[5.0], [6.0]]), jnp.array([7.0, 8.0])
    prompt = full_prompt(x, y, query)
    np.testing.assert_array_equal(prompt.tokens(), [[1, 2, 5], [3, 4, 6], [7, 8, 0]])
    assert float(prompt.num_context()) == 2
    cut = Prompt(x, y, query, jnp.array([True, False]))
    np.testing.assert_array_equal(cut.tokens(), [[1, 2, 5], [0, 0, 0], [7, 8, 0]])
    assert float(cut.num_context()) == 1


def test_a_batch_of_prompts_is_the_same_object_with_one_more_axis():
    x, y, query = RNG.normal(size=(5, 3, 2)), RNG.normal(size=(5, 3, 1)), RNG.normal(size=(5, 2))
    batch = full_prompt(jnp.asarray(x), jnp.asarray(y), jnp.asarray(query))
    for i in range(5):
        one = full_prompt(jnp.asarray(x[i]), jnp.asarray(y[i]), jnp.asarray(query[i]))
        np.testing.assert_array_equal(batch.tokens()[i], one.tokens())
    np.testing.assert_array_equal(batch.num_context(), np.full(5, 3.0))


def with_nan(shape, where):
    array = np.zeros(shape)
    array[where] = np.nan
    return array


REFUSED = [
    (lambda: arrays(x=np.zeros((3, 4))), r"dataset shapes must be .* x \(3, 4\), y \(3, 4, 1\)"),
    (lambda: arrays(y=np.zeros((3, 5, 1))), r"dataset arrays do not belong together: x \(3, 4, 2\), y \(3, 5, 1\)"),
    (lambda: arrays(y_query=np.zeros((2, 1))), "dataset arrays do not belong together"),
    (lambda: arrays(tokens=1), "a prompt needs at least one context token and the query"),
    (lambda: arrays(prompts=0), "a dataset needs at least one prompt"),
    (lambda: arrays(labels=np.zeros((3, 4, 2))), r"labels \(3, 4, 2\) must have the shape of y \(3, 4, 1\)"),
    (
        lambda: arrays(x=with_nan((3, 4, 2), (1, 2, 0))),
        r"dataset array x has 1 NaN or infinite values, the first at index \(1, 2, 0\)",
    ),
    (lambda: arrays(y_query=np.full((3, 1), np.inf)), "dataset array y_query has 3 NaN or infinite values"),
    (
        lambda: arrays(x=np.zeros((3, 4, 2), int)),
        "dataset array x must hold floating-point numbers, not int64",
    ),
    (lambda: FeatureArrays(np.zeros((3, 4)), np.zeros((2, 1))), "features must be .* not .3, 4. and .2, 1."),
    (lambda: FeatureArrays(np.zeros((0, 4)), np.zeros((0, 1))), "a dataset needs at least one prompt"),
    (lambda: FeatureArrays(with_nan((3, 4), 0), np.zeros((3, 1))), "dataset array features has 4 NaN"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_arrays_that_make_no_dataset_are_refused(make, message):
    with pytest.raises(IclearnError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_the_digest_notices_every_number_name_and_test_set():
    base = arrays()
    moved = base.x.copy()
    moved[0, 0, 0] += 1e-12
    datasets = [
        Dataset(base),
        Dataset(Arrays(moved, base.y, base.y_query)),
        Dataset(Arrays(base.x, base.y, base.y_query, labels=base.y)),
        Dataset(Arrays(base.x.astype(np.float32), base.y, base.y_query)),
        Dataset(base, {"in_weight": base}),
        Dataset(base, {"in_context": base}),
    ]
    assert len({d.digest for d in datasets}) == len(datasets)
    assert Dataset(Arrays(base.x.copy(), base.y.copy(), base.y_query.copy())).digest == Dataset(base).digest


def test_the_digest_of_weights_goes_by_names_and_numbers_not_by_order():
    a, b = np.arange(3.0), np.ones((2, 2))

    def digest(**weights):
        return Init.given(weights).digest

    assert digest(a=a, b=b) == digest(b=b.copy(), a=a.copy())
    assert digest(a=a, b=b) != digest(a=a, c=b)
    assert digest(a=a) != digest(a=a + 1e-15)
    assert digest(a=b) != digest(a=b.reshape(4))
