"""Specs: one canonical JSON, equal specs have equal hashes, and nothing unknown is ever ignored."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.core.spec import Spec
from iclearn.models import Attention
from iclearn.tasks import Covariance, LinearRegression


@dataclass(frozen=True)
class Inner(Spec, kind="test_inner"):
    values: tuple[float, ...] = (1.0, 2.0)


@dataclass(frozen=True)
class Outer(Spec, kind="test_outer"):
    size: int
    scale: float = 0.5
    name: str | None = None
    inner: Inner = field(default_factory=Inner)


def test_canonical_json_and_its_hash():
    spec = Outer(3)
    text = (
        '{"inner": {"kind": "test_inner", "values": [1.0, 2.0]}, "kind": "test_outer", '
        '"name": null, "scale": 0.5, "size": 3}'
    )
    assert spec.to_json() == text
    assert spec.hash == hashlib.sha256(text.encode()).hexdigest()
    assert Spec.from_json(text) == spec


def test_equal_specs_have_equal_hashes_whatever_the_type_of_their_numbers():
    plain = Outer(3, 1.0, inner=Inner((0.0, 2.0)))
    others = [
        Outer(3, 1, inner=Inner((0, 2))),
        Outer(np.int64(3), np.float32(1), inner=Inner((-0.0, np.float64(2)))),  # type: ignore[arg-type]
    ]
    for other in others:
        assert other == plain
        assert other.hash == plain.hash
        assert Spec.from_json(other.to_json()) == plain


def test_hash_does_not_depend_on_the_process():
    code = (
        "from iclearn.core.recipe import Recipe\n"
        "from iclearn.models import Attention\n"
        "from iclearn.tasks import LinearRegression\n"
        "print(Recipe(task=LinearRegression(), model=Attention()).hash)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "123"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == Recipe(task=LinearRegression(), model=Attention()).hash


def test_replace_reaches_into_nested_specs():
    recipe = Recipe(task=LinearRegression(), model=Attention())
    changed = recipe.replace(steps=7, task__dim=3, task__covariance__trace=2.0)
    assert changed.steps == 7
    assert isinstance(changed.task, LinearRegression)
    assert changed.task.dim == 3
    assert changed.task.covariance == Covariance(trace=2.0)
    assert recipe.steps == 6001, "the original is unchanged"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stepz": 1}, "Recipe has no field 'stepz'; its fields are dtype, engine, init"),
        ({"task__dimension": 1}, "LinearRegression has no field 'dimension'"),
    ],
)
def test_replacing_an_unknown_field_is_an_error(change, message):
    with pytest.raises(IclearnError, match=message):
        Recipe(task=LinearRegression(), model=Attention()).replace(**change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: "),
        ('{"kind": "nonsense"}', "unknown kind 'nonsense'; known are .*recipe"),
        ('{"size": 1}', "Spec does not say its kind; known are recipe, init"),
        ('{"kind": "test_outer", "size": 1, "sice": 2}', "test_outer has no field 'sice'; its fields are inner, "),
        ('{"kind": "test_outer"}', "test_outer lacks its field 'size'"),
        ('{"kind": "optimizer", "lr": -1.0}', "the learning rate must be positive, not -1.0"),
    ],
)
def test_json_that_is_not_a_spec_is_refused(text, message):
    with pytest.raises(IclearnError, match=message) as caught:
        Spec.from_json(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_numbers_that_json_cannot_hold_are_refused_by_name(value):
    with pytest.raises(IclearnError, match=r"test_outer scale must be a finite number, not -?(inf|nan)"):
        _ = Outer(3, float(value)).hash


def test_only_plain_values_can_be_written():
    with pytest.raises(TypeError, match="plain values only, not ndarray"):
        Outer(3, 1.0).unchecked(scale=np.zeros(2)).to_dict()


def test_two_specs_cannot_share_a_kind():
    with pytest.raises(TypeError, match="two specs call themselves 'test_inner'"):

        class Impostor(Spec, kind="test_inner"):
            pass


positive = st.floats(1e-9, 1e9)
# Plain values here, specs made inside the test: making one is checked by code that uses `random`.
CHOICES = {
    "task": {
        "dim": st.integers(1, 6),
        "context_len": st.integers(1, 40),
        "out_dim": st.integers(1, 3),
        "noise": st.floats(0, 10),
        "num_prompts": st.none() | st.integers(1, 10**7),
        "prefixes": st.booleans(),
        "center": st.booleans(),
    },
    "covariance": {
        "parameters": st.tuples(st.floats(0, 5)),
        "shape": st.sampled_from(["power", "spiked"]),
        "rotate": st.booleans(),
        "trace": st.none() | positive,
    },
    "model": {
        "family": st.sampled_from(["separate", "separate_reduced", "conv"]),
        "num_heads": st.integers(1, 9),
        "rank": st.integers(1, 8),
        "normalize": st.sampled_from(["none", "context", "tokens"]),
    },
    "init": {
        "scale": positive,
        "scheme": st.sampled_from(["per_head", "entries", "stacked"]),
        "zero_blocks": st.booleans(),
    },
    "optimizer": {"rule": st.sampled_from(["sgd", "adam"]), "lr": positive, "batch_size": st.integers(1, 9)},
    "record": {"weights": st.integers(0, 50), "candidates": st.integers(50, 5000)},
    "rest": {
        "steps": st.integers(1, 10**9),
        "engine": st.sampled_from(["auto", "population", "moments", "samples"]),
        "seed": st.integers(0, 2**63 - 1),
        "dtype": st.sampled_from(["float64", "float32"]),
    },
}
choices = st.fixed_dictionaries({name: st.fixed_dictionaries(fields) for name, fields in CHOICES.items()})


def made(chosen) -> Recipe:
    return Recipe(
        task=LinearRegression(covariance=Covariance(**chosen["covariance"]), **chosen["task"]),
        model=Attention(**chosen["model"]),
        init=Init(**chosen["init"]),
        optimizer=Optimizer(**chosen["optimizer"]),
        record=Record(**chosen["record"]),
        **chosen["rest"],
    )


@settings(deadline=None, max_examples=60)
@given(choices, choices)
def test_recipes_survive_json_and_are_told_apart_by_their_hash(chosen, others):
    one, other = made(chosen), made(others)
    back = Spec.from_json(one.to_json())
    assert back == one
    assert back.hash == one.hash
    assert hash(back) == hash(one), "recipes are dictionary keys and cache keys"
    assert (one == other) == (one.hash == other.hash)
    assert json.loads(one.to_json(indent=2)) == one.to_dict()
