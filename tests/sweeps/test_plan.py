"""Plans: every point once, chunks with an identity of their own, and impossible points refused before anything runs."""

from __future__ import annotations

import json
from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sweep_cases import AXES, REDUCE, tiny

from iclearn.core.errors import IclearnError
from iclearn.core.reader import coerce
from iclearn.core.recipe import Init
from iclearn.models import Attention
from iclearn.models.lsa import LSA
from iclearn.sweeps import Plan, Reduce, make_plan, read_axes
from iclearn.sweeps.compute import chunk_levels
from iclearn.sweeps.validate import bytes_a_run, chunk_limit
from iclearn.theory.zhang2025 import saddle_losses


def plan(limit: int, axes=AXES, seeds=3, **changes) -> Plan:
    base = tiny(**changes)
    return Plan(base, read_axes(base, axes, seeds), Reduce(**REDUCE), limit)  # type: ignore[arg-type]


@given(st.integers(1, 60), st.integers(1, 7))
@settings(deadline=None, max_examples=20)
def test_chunks_hold_every_point_once_and_no_more_than_the_limit(limit, seeds):
    found = plan(limit, seeds=seeds)
    points = Counter(index for chunk in found.chunks for index in found.indices(chunk.box))
    assert set(points) == set(np.ndindex(*found.shape))
    assert set(points.values()) == {1}
    assert all(chunk.runs <= limit for chunk in found.chunks)
    assert len({chunk.id for chunk in found.chunks}) == len(found.chunks)


@given(st.integers(1, 60))
@settings(deadline=None, max_examples=8)
def test_the_numbers_of_a_chunk_are_those_of_its_recipes(limit):
    found = plan(limit)
    for chunk in found.chunks[:: max(1, len(found.chunks) // 3)]:
        group, numbers = found.group(chunk.box), found.varying(chunk.box)
        for run, index in enumerate(found.indices(chunk.box)):
            changes = {
                name: tuple(row.tolist()) if (row := column[run]).ndim else row.item()
                for name, column in numbers.items()
            }
            assert group.replace(**changes) == found.recipe(index)


def test_static_axes_make_groups_and_are_never_mixed_in_a_chunk():
    found = plan(1000)
    assert found.numeric == (True, True, False, True)
    assert found.num_groups == 2
    assert [chunk.runs for chunk in found.chunks] == [18, 18]
    assert {found.group(chunk.box).model.to_dict()["rank"] for chunk in found.chunks} == {1, 2}


def test_a_chunk_is_known_by_what_it_computes():
    ids = {chunk.id for chunk in plan(6).chunks}
    assert ids == {chunk.id for chunk in plan(6).chunks}
    assert not ids & {chunk.id for chunk in plan(6, steps=201).chunks}, "other runs"
    longer = Plan(tiny(), plan(6).axes, Reduce(levels="zhang2025", samples=41), 6)
    assert not ids & {chunk.id for chunk in longer.chunks}, "other reductions"
    more = {chunk.id for chunk in plan(3, seeds=4).chunks} & {chunk.id for chunk in plan(3, seeds=4, seed=5).chunks}
    assert more, "the base's own value of a swept field is not used"


def test_a_plan_survives_its_json():
    axes = {
        "task.covariance": [{"shape": "white", "rotate": False}, {"shape": "linear"}],
        "size": {"fields": {"model.num_heads": [1, 2], "init.scale": [0.1, 0.2]}, "coords": ["one", "two"]},
        "optimizer.lr": [0.01, 0.02],
    }
    found = make_plan(tiny(), axes, 2, chunk=3)
    again = Plan.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.hash == found.hash
    assert [(c.id, c.box) for c in again.chunks] == [(c.id, c.box) for c in found.chunks]
    assert [again.recipe(i) for i in np.ndindex(*again.shape)] == [found.recipe(i) for i in np.ndindex(*found.shape)]
    damaged = {**found.to_dict(), "base": tiny(steps=7).to_dict()}
    with pytest.raises(IclearnError, match="does not have the hash"):
        Plan.from_dict(damaged)


@pytest.mark.parametrize(
    ("base", "axes", "options", "line"),
    [
        ({}, {"model.rank": [1, 4, 5]}, {}, r"at rank=4: rank 4 is larger .* \(and 1 more such points\)"),
        ({}, {"optimizer.lr": [0.1, -1.0]}, {}, "at lr=-1.0: the learning rate must be positive"),
        ({}, {"task.prior_mean": [[0, 0], [1]]}, {}, "the prior mean has 1 entries for dim 2"),
        ({}, {"optimizer.batch_size": [4]}, {}, "gd uses every prompt at each step"),
        ({"model": Attention("separate")}, {"task.prior_mean": [[0, 0], [1, 0]]}, {}, "non-zero mean"),
        ({"model": Attention(softmax=True), "engine": "moments"}, {"seed": [1]}, {}, "needs a linear model"),
        ({"init": Init.given({})}, {"seed": [1]}, {}, "a sweep draws its own weights"),
        ({"model": LSA()}, {"seed": [1]}, {"levels": "zhang2025"}, "zhang2025 needs linear attention"),
        ({}, {"task.prefixes": [False, True]}, {"levels": "zhang2025"}, "at prefixes=1: zhang2025 does not cover"),
        ({}, {"seed": [1]}, {"levels": "li2024"}, "reduce.levels: unknown theory 'li2024'; known are zhang2025"),
        ({}, {"seed": [1]}, {"samples": 0}, "samples must be at least 1"),
        ({}, {"seed": [1]}, {"color": 0}, "reduce has no field 'color'"),
    ],
)  # fmt: skip
def test_impossible_points_are_refused_before_anything_runs(base, axes, options, line):
    with pytest.raises(IclearnError, match=line) as caught:
        make_plan(tiny(**base), axes, reduce=options)
    assert "\n" not in str(caught.value)


def test_theory_levels_follow_the_spectrum_of_each_run():
    found = plan(1000)
    chunk = found.chunks[0]
    rows = chunk_levels(found.group(chunk.box), "zhang2025", found.varying(chunk.box), chunk.runs)
    for row, index in zip(rows, found.indices(chunk.box), strict=True):
        task = found.recipe(index).task
        np.testing.assert_array_equal(row, saddle_losses(task.covariance.values(2), 8))  # type: ignore[attr-defined]


def test_chunks_shrink_with_what_a_run_needs():
    small, large = bytes_a_run(tiny(), 40), bytes_a_run(tiny(), 4000)
    assert large - small == 8 * 8 * (4000 - 40)
    prompts = bytes_a_run(tiny(task__num_prompts=5000), 40)
    assert prompts > 100 * small, "a block of prompts while moments are gathered"
    assert chunk_limit(1 << 60, 10) == 1
    assert chunk_limit(1 << 20, 10**9) == 1, "a run of minutes makes a chunk alone"
    assert chunk_limit(1 << 24, 10) < chunk_limit(1 << 20, 10)


def test_whole_numbers_beyond_double_precision_are_kept():
    assert coerce(2**62 + 1, int, "seed") == 2**62 + 1
