"""Damage to a sweep's folder: every kind is seen when the sweep goes on, and the result is the undisturbed one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from sweep_cases import tiny

from iclearn.core.errors import IclearnError
from iclearn.sweeps import SweepFolder, carry_out, make_plan, status

PLAN = make_plan(tiny(steps=30), {"init.scale": [0.1, 0.2], "model.rank": [1, 2]}, 2, chunk=2, path="serial")


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sound") / "sweep"
    carry_out(PLAN, root)
    return root


DAMAGE = {
    "a coordinate": lambda p: shutil.rmtree(p / "data.zarr" / "scale" / "c"),
    "a coordinate's description": lambda p: (p / "data.zarr" / "scale" / "zarr.json").unlink(),
    "the numbers of a chunk": lambda p: next(
        f for f in (p / "data.zarr/final_loss/c").rglob("*") if f.is_file()
    ).unlink(),
    "the description of a variable": lambda p: (p / "data.zarr" / "final_loss" / "zarr.json").write_text("[]"),
    "the description of the dataset": lambda p: (p / "data.zarr" / "zarr.json").unlink(),
    "the whole dataset": lambda p: shutil.rmtree(p / "data.zarr"),
    "a ledger entry": lambda p: os.truncate(next((p / "ledger").iterdir()), 10),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_lost_is_made_again(sound, tmp_path, what):
    root = tmp_path / "sweep"
    shutil.copytree(sound, root)
    expected = SweepFolder.open(root).dataset().load()
    DAMAGE[what](root)
    assert carry_out(PLAN, root).dataset().load().identical(expected)
    assert status(root).complete


@pytest.mark.parametrize("text", ["[]", "{", "{}", "17", '{"format": 2, "base": [], "axes": 3}', '{"format": 99}'])
def test_a_damaged_plan_is_refused_in_one_line(sound, tmp_path, text):
    shutil.copytree(sound, tmp_path / "sweep")
    (tmp_path / "sweep" / "plan.json").write_text(text)
    with pytest.raises(IclearnError, match=r"plan|base"):
        status(tmp_path / "sweep")
