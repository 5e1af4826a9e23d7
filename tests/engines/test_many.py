"""Runs side by side are the runs alone."""

from __future__ import annotations

import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.core.status import Status
from iclearn.engines.simulate import simulate, simulate_many
from iclearn.models import Attention
from iclearn.models.softmax_layers import SoftmaxLayer
from iclearn.tasks import LinearRegression
from iclearn.tasks.softmax_regression import SoftmaxRegression


def document_recipe(seed: int, **changes) -> Recipe:
    return Recipe(
        task=SoftmaxRegression(context_len=12, dim=4, test_prompts=5),
        model=SoftmaxLayer(),
        init=Init(0.02),
        optimizer=Optimizer("adam", lr=0.01, batch_size=8),
        steps=70,
        seed=seed,
        record=Record(weights=8, candidates=8),
    ).replace(**changes)


def regression_recipe(seed: int, lr: float, **changes) -> Recipe:
    return Recipe(
        task=LinearRegression(dim=3, context_len=8, num_prompts=100),
        model=Attention(),
        init=Init(0.1),
        optimizer=Optimizer(lr=lr),
        steps=40,
        seed=seed,
    ).replace(**changes)


def assert_same(together, alone) -> None:
    assert together.status is alone.status
    assert together.status_step == alone.status_step
    assert together.run_id == alone.run_id
    assert set(together.data.variables) == set(alone.data.variables)
    for name in alone.data.variables:
        a, b = together.data[name], alone.data[name]
        assert a.dims == b.dims
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=str(name))
        else:
            np.testing.assert_array_equal(a, b)


def test_a_mixed_list_gives_what_each_recipe_gives_alone():
    recipes = [
        document_recipe(0),
        regression_recipe(0, 0.01),
        document_recipe(3),
        regression_recipe(1, 0.02),
        document_recipe(1, optimizer__lr=0.003),
        regression_recipe(2, 0.01, optimizer__rule="flow", steps=20),
    ]
    seen = []
    found = simulate_many(recipes, progress=lambda done, total: seen.append((done, total)))
    for recipe, trace in zip(recipes, found, strict=True):
        assert_same(trace, simulate(recipe))
    assert seen[-1] == (sum(r.steps for r in recipes),) * 2
    assert found[0].provenance["run_beside"] == 2


def test_a_run_that_diverges_ends_alone():
    recipes = [regression_recipe(0, 0.01), regression_recipe(1, 50.0), regression_recipe(2, 0.01)]
    found = simulate_many(recipes)
    assert [t.status for t in found] == [Status.FINISHED, Status.DIVERGED, Status.FINISHED]
    for recipe, trace in zip(recipes, found, strict=True):
        assert_same(trace, simulate(recipe))


def test_all_runs_diverging_ends_the_group():
    found = simulate_many([regression_recipe(seed, 50.0) for seed in (0, 1)])
    assert all(t.status is Status.DIVERGED for t in found)


def test_documents_train_in_both_precisions_alike():
    double, single = simulate_many([document_recipe(0), document_recipe(0, dtype="float32")])
    np.testing.assert_allclose(single.loss, double.loss, rtol=2e-3)
    assert single.data["weight_value"].dtype == np.float32


def test_models_and_tasks_that_do_not_belong_together_are_refused():
    with pytest.raises(IclearnError, match="reads softmax regression documents"):
        simulate_many([regression_recipe(0, 0.1, model=SoftmaxLayer())])
    with pytest.raises(IclearnError, match="gives prompts of type Document"):
        simulate(document_recipe(0, model=Attention()))


def test_nothing_to_do():
    assert simulate_many([]) == []
