"""Runs on disk: found again by their recipe, written once and whole, listed, and never mixed up."""

from __future__ import annotations

import numpy as np
import pytest
from small_runs import DATA, made

from iclearn.core.errors import IclearnError
from iclearn.core.processes import machine_token
from iclearn.core.recipe import Init
from iclearn.core.status import Status
from iclearn.core.trace import Trace
from iclearn.store import DiskCheckpoint, Store

RECIPE = made(steps=40)


def run(store: Store, recipe=RECIPE, **options) -> Trace:
    return store.run(recipe, dataset=DATA, **options)


def test_a_second_request_is_answered_from_disk(tmp_path):
    store, told = Store(tmp_path / "runs"), []
    assert store.get(RECIPE) is None
    first = run(store)
    again = run(store, progress=lambda *now: told.append(now))
    assert told == [], "nothing was simulated"
    assert again.equals(first)
    assert again.provenance == first.provenance
    assert again.recipe == RECIPE
    assert [p.name for p in store.root.iterdir()] == [f"{RECIPE.hash[:12]}.zarr"]


def test_again_runs_again(tmp_path):
    store = Store(tmp_path)
    first = run(store)
    second = run(store, again=True)
    assert second.equals(first)
    assert second.provenance["wall_seconds"] != first.provenance["wall_seconds"]
    assert len(list(tmp_path.iterdir())) == 1


def test_other_recipes_are_other_runs(tmp_path):
    store = Store(tmp_path)
    run(store)
    other = run(store, RECIPE.replace(optimizer__lr=0.006))
    assert len(store.list()) == 2
    assert not other.equals(run(store))


def test_a_diverged_run_is_returned_and_not_stored(tmp_path):
    store = Store(tmp_path)
    trace = run(store, made(lr=10.0, steps=40))
    assert trace.status is Status.DIVERGED
    assert list(tmp_path.iterdir()) == []


def test_runs_are_found_by_path_name_or_first_digits(tmp_path):
    store = Store(tmp_path)
    run(store)
    path = store.path(RECIPE)
    for name in (str(path), path.name, path.stem, path.stem[:4], RECIPE.hash[:12]):
        assert store.find(name) == path
    with pytest.raises(IclearnError, match=r"no stored run 'zz' in .*; `iclearn list` shows what is there"):
        store.find("zz")
    run(store, RECIPE.replace(seed=11))
    with pytest.raises(IclearnError, match=r"'' fits 2 runs in .*: give more digits"):
        store.find("")


def test_listing_tells_what_each_run_is_and_skips_what_is_not_ours(tmp_path):
    store = Store(tmp_path)
    assert store.list() == []
    trace = run(store)
    (tmp_path / "other.zarr").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    (summary,) = store.list()
    assert (summary.run_id, summary.path) == (RECIPE.hash[:12], store.path(RECIPE))
    assert (summary.status, summary.steps, summary.engine) == ("finished", 40, "moments")
    assert summary.final_loss == trace.final_loss
    assert summary.recipe == RECIPE.to_dict()


def test_two_recipes_with_the_same_first_digits_are_not_mixed_up(tmp_path):
    store = Store(tmp_path)
    other = RECIPE.replace(seed=11)
    run(store).save(store.path(other))
    with pytest.raises(IclearnError, match="holds another recipe with the same first digits; use another folder"):
        store.get(other)


def test_given_weights_are_part_of_the_recipe(tmp_path):
    """Runs that start from different weights are different runs; without the digest they could not be told apart."""
    store = Store(tmp_path)
    rng = np.random.default_rng(0)
    one, other = ({"value": rng.normal(size=(2, 1, 3)), "kq": rng.normal(size=(2, 2, 3))} for _ in range(2))
    small = RECIPE.replace(optimizer__lr=1e-4)
    traces = [run(store, small.replace(init=Init.given(w)), weights=w) for w in (one, other)]
    assert traces[0].run_id != traces[1].run_id
    for weights, trace in zip((one, other), traces, strict=True):
        np.testing.assert_array_equal(trace.weights(0)["kq"], weights["kq"])
    with pytest.raises(IclearnError, match=r"needs their digest: use Init\.given\(weights\)"):
        run(store, small.replace(init=Init(scheme="given")), weights=one)


def test_a_damaged_checkpoint_costs_time_and_not_the_run(tmp_path):
    store = Store(tmp_path)
    expected = run(Store(tmp_path / "clean"))
    (tmp_path / f".{RECIPE.hash[:12]}.checkpoint.npz").write_bytes(b"PK\x03\x04 half a file")
    assert run(store).equals(expected)
    assert not (tmp_path / f".{RECIPE.hash[:12]}.checkpoint.npz").exists()


def test_checkpoints_are_replaced_whole_and_only_when_due(tmp_path):
    path = tmp_path / "deep" / ".abc.checkpoint.npz"
    never, always = DiskCheckpoint(path, 1e9), DiskCheckpoint(path, 0.0)
    assert not never.due()
    assert always.due()
    assert always.load() is None
    for value in (1.0, 2.0):
        always.save({"a": np.full(3, value)})
    loaded = always.load()
    assert loaded is not None
    np.testing.assert_array_equal(loaded["a"], np.full(3, 2.0))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    killed = f".{path.name}.{machine_token()}-999999999-12345678.partial.npz"
    (path.parent / killed).write_text("killed while writing")
    always.clear()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("rule", ["gd", "flow"])
def test_a_run_interrupted_between_chunks_goes_on_bit_for_bit(tmp_path, rule):
    """The same store, after an exception in the middle: the rest is computed, the whole is the undisturbed run."""
    recipe = made(rule, steps=1000)
    undisturbed = run(Store(tmp_path / "clean"), recipe)
    store, told = Store(tmp_path / "broken"), []

    def interrupt(step: int, steps: int, loss: float) -> None:
        if step > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(store, recipe, progress=interrupt, checkpoint_seconds=0.0)
    assert [p.name for p in store.root.iterdir()] == [f".{recipe.hash[:12]}.checkpoint.npz"]
    resumed = run(store, recipe, progress=lambda *now: told.append(now[0]))
    assert resumed.equals(undisturbed)
    assert min(told) > 32, "it went on from the checkpoint"
    assert [p.suffix for p in store.root.iterdir()] == [".zarr"]
