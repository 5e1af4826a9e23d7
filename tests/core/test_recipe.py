"""A recipe refuses what makes no sense when it is made, in one line (values of a wrong kind: test_refusals)."""

from __future__ import annotations

import pytest

from iclearn.core.checks import check_choice, check_int
from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.models import Attention
from iclearn.tasks import LinearRegression

REFUSED = [
    (lambda: Optimizer(lr=0.0), "the learning rate must be positive, not 0.0"),
    (lambda: Optimizer(lr=float("nan")), "the learning rate must be positive, not nan"),
    (lambda: Optimizer(momentum=1.0), "momentum must be in [0, 1), not 1.0"),
    (lambda: Optimizer("sgd", batch_size=0), "the batch size must be at least 1, not 0"),
    (
        lambda: Optimizer("gd", batch_size=8),
        "gd uses every prompt at each step; with a batch size choose sgd or adam",
    ),
    (
        lambda: Optimizer("flow", batch_size=8),
        "flow uses every prompt at each step; with a batch size choose sgd or adam",
    ),
    (lambda: Init(-1.0), "the init scale must be a number of at least 0, not -1.0"),
    (
        lambda: Record(weights=10, candidates=5),
        "record 10 weights of 5 candidates: need 0 <= weights <= candidates + 1, candidates >= 2",
    ),
    (
        lambda: Record(weights=0, candidates=1),
        "record 0 weights of 1 candidates: need 0 <= weights <= candidates + 1, candidates >= 2",
    ),
    (lambda: _recipe(steps=0), "steps must be at least 1, not 0"),
    (lambda: _recipe(seed=-1), "the seed must be at least 0, not -1"),
    (lambda: _recipe(seed=2**63), f"the seed must be below 2^63, not {2**63}"),
]


def _recipe(**changes) -> Recipe:
    return Recipe(task=LinearRegression(), model=Attention(), **changes)


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_refused_with_one_line(make, message):
    with pytest.raises(IclearnError) as caught:
        make()
    assert str(caught.value) == message


def test_the_defaults_are_those_of_the_public_code():
    recipe = _recipe()
    assert (recipe.steps, recipe.optimizer.lr, recipe.seed, recipe.init.scale) == (6001, 0.001, 10, 0.01)
    assert (recipe.optimizer.rule, recipe.init.scheme, recipe.dtype) == ("gd", "per_head", "float64")
    assert isinstance(recipe.task, LinearRegression)
    assert (recipe.task.dim, recipe.task.context_len, recipe.task.num_prompts) == (4, 31, 5000)


@pytest.mark.parametrize("value", [1e4, 2.5, True, "3", None])
def test_counts_are_whole_numbers(value):
    with pytest.raises(IclearnError, match="steps must be a whole number, not "):
        check_int("steps", value, 1)


def test_one_of_names_the_choices():
    from typing import Literal

    check_choice("color", "red", Literal["red", "blue"])
    with pytest.raises(IclearnError, match="color must be one of red, blue, not 'green'"):
        check_choice("color", "green", Literal["red", "blue"])
