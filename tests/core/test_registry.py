"""Specs in a fresh process, abstract classes that refuse half-written tasks, and packages that join by entry points."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from iclearn.core.errors import IclearnError
from iclearn.core.model import AbstractModelSpec
from iclearn.core.recipe import Init, Recipe
from iclearn.core.registry import PAPERS, SPECS, THEORIES
from iclearn.core.task import AbstractTask
from iclearn.models.attention import Attention
from iclearn.models.features import AbstractFeatureMap
from iclearn.tasks import LinearRegression


def test_a_recipe_is_read_in_a_fresh_process_without_any_other_import():
    text = Recipe(task=LinearRegression(dim=3), model=Attention("separate", num_heads=2)).to_json()
    code = "import sys, iclearn as icl; print(repr(icl.Recipe.from_json(sys.stdin.read())))"
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(Recipe.from_json(text))


@pytest.mark.parametrize("text", ["[]", '"a"', "3", '{"kind": "init"}', '{"kind": "covariance"}'])
def test_only_a_recipe_is_read_as_a_recipe(text):
    with pytest.raises(IclearnError, match=r"recipe|init|covariance"):
        Recipe.from_json(text)


def test_half_written_tasks_models_and_feature_maps_refuse_to_instantiate():
    @dataclass(frozen=True)
    class HalfTask(AbstractTask, kind="half_task"):
        dim: int = 2

    @dataclass(frozen=True)
    class HalfModel(AbstractModelSpec, kind="half_model"):
        width: int = 1

    class HalfFeatures(AbstractFeatureMap):
        pass

    for make in (HalfTask, HalfModel, lambda: HalfFeatures(1, 1, "none")):
        with pytest.raises(IclearnError, match="is abstract: define"):
            make()


def test_a_recipe_holds_a_task_and_a_model():
    """In a process of its own: here the annotations are checked before the recipe can say so."""
    code = "import iclearn as icl; icl.Recipe(task=icl.Init(), model=icl.Attention())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "IclearnError: a recipe's task must be a task, not Init" in done.stderr


def test_a_recipe_prints_what_differs_from_the_defaults():
    recipe = Recipe(task=LinearRegression(), model=Attention("separate", num_heads=5), init=Init(0.1), steps=7)
    model = "Attention(family='separate', num_heads=5)"
    assert repr(recipe) == f"Recipe(task=LinearRegression(), model={model}, init=Init(scale=0.1), steps=7)"
    assert repr(Recipe(task=LinearRegression(), model=Attention())) == (
        "Recipe(task=LinearRegression(), model=Attention())"
    )


def test_registries_know_what_comes_with_the_package():
    assert set(PAPERS.names()) >= {"zhang2025", "xie2025", "li2024", "xie2025-llm"}
    assert set(THEORIES.names()) >= {"zhang2025", "xie2025"}
    for name in SPECS.names():
        assert SPECS.get(name).kind in (name, "optimizer")
    with pytest.raises(IclearnError, match="unknown kind 'nope'; known are recipe"):
        SPECS.get("nope")
