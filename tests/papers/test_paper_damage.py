"""Damage to what a reproduction stored is seen and healed; it never becomes a verdict on the paper."""

from __future__ import annotations

import shutil

import pytest
from test_frame import tiny_paper

from iclearn.core.errors import DamagedError, IclearnError, IclearnWarning
from iclearn.papers.base import Paper
from iclearn.papers.collect import collect, read_json


def lose(path) -> None:
    shutil.rmtree(path)


DAMAGE = {
    "losses of the runs": lambda out: [lose(p / "loss" / "c") for p in (out / "runs").glob("*.zarr")],
    "numbers of a dataset": lambda out: [lose(p / "square" / "c") for p in (out / "data").glob("*.zarr")],
    "verdicts": lambda out: (out / "verdicts.json").write_text("[1]"),
    "facts": lambda out: (out / "facts.json").write_text("[]"),
    "facts of a figure": lambda out: (out / "facts.json").write_text('{"tiny": 3}'),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_does_not_change_a_verdict(tmp_path, what):
    paper, out = tiny_paper(), tmp_path / "out"
    (before,) = collect(paper, (), out, seeds=6)
    verdicts = read_json(out / "verdicts.json", [])
    assert before.verdicts[0].verdict == "reproduced"
    DAMAGE[what](out)
    if what in ("losses of the runs", "numbers of a dataset"):
        with pytest.raises(DamagedError, match="checksum"):
            collect(paper, (), out, seeds=6, draw_only=True)
    with pytest.warns(IclearnWarning, match="damaged"):
        (after,) = collect(paper, (), out, seeds=6)
    assert after.verdicts == before.verdicts
    assert read_json(out / "verdicts.json", []) == verdicts


def test_one_folder_holds_one_paper(tmp_path):
    paper = tiny_paper()
    collect(paper, (), tmp_path, seeds=2)
    with pytest.raises(IclearnError, match=r"holds tiny2025: choose another folder with --out"):
        collect(Paper("other2025", "Other", "Nobody", paper.figures), (), tmp_path, seeds=2)
