"""`Attention`: combinations that make no model, and weights that do not fit, each refused in one line."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.models import Attention
from iclearn.tasks import LinearRegression

TASK = LinearRegression(dim=2, context_len=3)
NEEDED = "this model and task need (2, 1, 3) (head, output, entry)"
GOOD = {"value": np.zeros((2, 1, 3)), "kq": np.zeros((2, 2, 3))}

REFUSED = [
    (lambda: Attention("merged", num_heads=0), "num_heads must be at least 1, not 0"),
    (lambda: Attention("separate", rank=0), "rank must be at least 1, not 0"),
    (
        lambda: Attention("mlp", softmax=True),
        "softmax needs the tokens; the mlp model reads cubic features: drop softmax or choose merged or separate",
    ),
    (
        lambda: Attention("separate_reduced", softmax=True),
        "softmax needs the tokens; the separate_reduced model reads cubic features: "
        "drop softmax or choose merged or separate",
    ),
    (lambda: Attention("merged", rank=2), "the merged model has no rank: rank must be 1, not 2"),
    (
        lambda: Attention("separate", rank=4).check(2, 1),
        "rank 4 is larger than the 3 entries of a token (dim 2 + out_dim 1): choose at most 3",
    ),
    (lambda: Attention("conv").check(2, 2), "the conv model has one output; this task has 2"),
    (lambda: _given(value=np.zeros((2, 1, 4))), f"weight value has shape (2, 1, 4), {NEEDED}"),
    (
        lambda: _given(value=np.full((2, 1, 3), np.nan)),
        "weight value holds NaN or infinite values, the first at index (0, 0, 0)",
    ),
    (
        lambda: Attention("merged", num_heads=2).from_arrays(TASK, {"value": GOOD["value"]}, jnp.float64),
        "weights of this model are value, kq; missing kq",
    ),
]


def _given(**changes):
    return Attention("merged", num_heads=2).from_arrays(TASK, {**GOOD, **changes}, jnp.float64)


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[m[:45] for _, m in REFUSED])
def test_refused_with_one_line(make, message):
    with pytest.raises(IclearnError) as caught:
        make()
    assert str(caught.value) == message


def test_rank_may_be_as_large_as_a_token():
    Attention("separate", rank=3).check(2, 1)


def test_weights_that_fit_are_taken_in_the_precision_asked_for():
    model = Attention("merged", num_heads=2).from_arrays(TASK, GOOD, jnp.float32)
    assert {w.dtype for w in model.weights().values()} == {jnp.dtype(jnp.float32)}
