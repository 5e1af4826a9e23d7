"""Axes: any field of a recipe, typed values, labels, and one clear line for everything that cannot be swept."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sweep_cases import tiny

from iclearn.core.errors import IclearnError
from iclearn.core.reader import read_spec
from iclearn.core.recipe import Recipe
from iclearn.models.lsa import LSA
from iclearn.sweeps.axes import expand, is_traceable, read_axes
from iclearn.tasks import Covariance


def axis(axes, seeds=None):
    (found,) = read_axes(tiny(), axes, seeds)
    return found


def test_values_may_be_listed_or_spaced():
    assert expand({"linspace": [0, 1, 5]}, "x") == [0, 0.25, 0.5, 0.75, 1]
    assert expand({"logspace": ["1e-3", 0.1, 3]}, "x") == [0.001, 0.01, 0.1]
    assert expand({"range": 3}, "x") == [0, 1, 2]
    assert expand({"range": [1, 8, 3]}, "x") == [1, 4, 7]
    assert expand(np.array([1.5, 2]), "x") == [1.5, 2.0]


@given(
    st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 30),
)  # fmt: skip
@settings(deadline=None, max_examples=50)
def test_logspace_has_its_ends_and_equal_ratios(first, last, count):
    values = np.array(expand({"logspace": [first, last, count]}, "x"))
    assert len(values) == count
    np.testing.assert_allclose([values[0], values[-1]], [first, last], rtol=1e-14)
    ratios = values[1:] / values[:-1]
    np.testing.assert_allclose(ratios, (last / first) ** (1 / (count - 1)), rtol=1e-12)


def test_an_axis_is_called_after_its_field_and_labeled_by_its_values():
    lr = axis({"optimizer.lr": ["1e-3", 0.01]})  # YAML reads 1e-3 as a word
    assert (lr.name, lr.coords, lr.fields) == ("lr", (0.001, 0.01), ("optimizer.lr",))
    decay = axis({"task.covariance.parameters": [0.5, 1]})
    assert decay.values == (((0.5,),), ((1.0,),))
    assert decay.coords == (0.5, 1.0), "a tuple of one is labeled by its number"
    pairs = axis({"task.prior_mean": [[0, 0], [1, 2]]})
    assert pairs.coords == (0, 1)
    assert pairs.values == (((0.0, 0.0),), ((1.0, 2.0),))


def test_fields_can_move_together():
    both = axis({"size": {"fields": {"model.num_heads": [1, 2], "init.scale": [0.1, 0.2]}}})
    assert both.coords == (1, 2)
    assert both.changes(1) == {"model__num_heads": 2, "init__scale": 0.2}
    named = axis({"size": {"fields": {"model.num_heads": [1, 2]}, "coords": ["few", "many"]}})
    assert named.coords == ("few", "many")


def test_whole_specs_can_be_values():
    found = axis({"task.covariance": [{"shape": "white", "rotate": False}, Covariance.power(2.0)]})
    assert found.changes(0)["task__covariance"] == Covariance.white()
    assert found.changes(1)["task__covariance"] == Covariance.power(2.0)


@pytest.mark.parametrize(
    ("axes", "line"),
    [
        ({"optimiser.lr": [1]}, r"a recipe has no field 'optimiser'; its fields are .*optimizer"),
        ({"optimizer.lrate": [1]}, r"optimizer has no field 'lrate'; its fields are batch_size, betas, clip, .*lr"),
        ({"steps.lr": [1]}, r"steps has no field 'lr'; it is a plain value"),
        ({"task.prior_covariance.trace": [1]}, "the base has no task.prior_covariance; give it one"),
        ({"optimizer.lr": ["fast"]}, r"optimizer\.lr must be a number, not 'fast'"),
        ({"optimizer.lr": [float("nan")]}, "must be a finite number"),
        ({"steps": [2.5]}, "steps must be a whole number, not 2.5"),
        ({"model.family": ["merge"]}, "must be one of merged, separate"),
        ({"model.softmax": [1]}, "must be true or false, not 1"),
        ({"optimizer.lr": []}, "has no values: give at least one"),
        ({"optimizer.lr": 0.1}, "values are a list, linspace, logspace or range, not 0.1"),
        ({"optimizer.lr": {"logspace": [0, 1, 3]}}, "logspace goes between positive numbers"),
        ({"optimizer.lr": {"linspace": [0, 1]}}, r"linspace takes \[first, last, how many\]"),
        ({"seed": {"range": "ten"}}, "range takes one to three whole numbers"),
        ({"optimizer.lr": [0.1, "0.1"]}, "axis lr lists 0.1 twice"),
        ({"a": {"fields": {"seed": [1, 2], "steps": [3]}}}, "equally many values: seed has 2, steps has 1"),
        ({"a": {"field": "seed", "values": [1], "unit": "s"}}, "axis a has no option 'unit'"),
        ({"a": {"field": "seed", "values": [1], "coords": [1, 2]}}, "axis a has 1 points and 2 coords"),
        ({"drop": {"field": "seed", "values": [1]}}, "an axis cannot be called 'drop'"),
        ({"optimizer.lr": [1], "lr": {"field": "steps", "values": [1]}}, "two axes have the name 'lr'"),
        ({"a": {"field": "steps", "values": [1]}, "steps": [2]}, "two axes have the field 'steps'"),
        ({}, "a sweep needs at least one axis, or seeds"),
    ],
)  # fmt: skip
def test_what_cannot_be_swept_is_refused_in_one_line(axes, line):
    with pytest.raises(IclearnError, match=line) as caught:
        read_axes(tiny(), axes)
    assert "\n" not in str(caught.value)


def test_axes_that_change_numbers_are_told_from_those_that_change_programs():
    def numeric(axes, base=None):
        recipe = base or tiny()
        found = read_axes(recipe, axes)
        return [is_traceable(a, recipe, found) for a in found]

    plain = {"seed": [1, 2], "init.scale": [1, 2], "optimizer.lr": [1, 2], "task.noise": [0, 1]}
    assert numeric(plain) == [True] * 4
    assert numeric({"task.covariance.parameters": [1, 2], "task.covariance.trace": [1, 2]}) == [True, True]
    assert numeric({"task.covariance.trace": [1, None]}) == [False], "without normalization is another program"
    assert numeric({"model.rank": [1, 2], "task.dim": [2, 3], "steps": [1, 2]}) == [False] * 3
    assert numeric({"both": {"fields": {"seed": [1, 2], "model.rank": [1, 2]}}}) == [False]
    shapes = {"task.covariance.shape": ["power"], "task.covariance.parameters": [1, 2]}
    assert numeric(shapes) == [False, False], "parameters mean another thing under another shape"
    two_level = tiny(task__covariance=Covariance.two_level(1, 2.0))
    assert numeric({"task.covariance.parameters": [[1, 2], [1, 3]]}, two_level) == [False], "it counts eigenvalues"


def test_a_recipe_can_be_written_in_short_form():
    short = {
        "task": {"dim": 3, "num_prompts": "inf", "covariance": {"shape": "power", "parameters": "1e0"}},
        "model": {"family": "separate_reduced", "num_heads": 2},
        "init": "1e-2",
        "optimizer": {"lr": "2e-2"},
        "steps": 100,
    }
    recipe = read_spec(Recipe, short, "base")
    assert recipe.task.to_dict()["num_prompts"] is None
    assert recipe.init.scale == 0.01
    assert read_spec(Recipe, recipe.to_dict()) == recipe
    other = read_spec(Recipe, {"task": {}, "model": {"kind": "lsa", "num_heads": 2}})
    assert other.model == LSA(2)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"task": {}}, "base lacks its field 'model'"),
        ({"task": {"dims": 2}, "model": {}}, "base.task has no field 'dims'; its fields are center"),
        ({"task": {"dim": "two"}, "model": {}}, "base.task.dim must be a whole number, not 'two'"),
        ({"task": {"kind": "lsa"}, "model": {}}, "base.task cannot be of kind 'lsa'; kinds here are linear_regression"),
        ({"task": {}, "model": {"kind": "mamba"}}, "base.model: unknown kind 'mamba'; known are"),
        ({"task": 3, "model": {}}, "base.task must be a table of fields, not 3"),
        ("base", "base must be a table of fields"),
    ],
)
def test_a_recipe_that_cannot_be_read_is_refused_in_one_line(data, line):
    with pytest.raises(IclearnError, match=line):
        read_spec(Recipe, data, "base")
