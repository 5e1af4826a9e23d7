"""Runs and sweeps of every format that was ever written are still read: tests/data holds a frozen example of each."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.core.recipe import Recipe
from iclearn.core.trace import Trace
from iclearn.engines.simulate import simulate
from iclearn.store import Store
from iclearn.sweeps import SweepFolder, carry_out, status

DATA = Path(__file__).resolve().parents[1] / "data"
KINDS = {
    "ea95234cbb5a": ("linear_regression", "attention", "0x1.659de17359646p-2"),
    "f428143fa1b9": ("linear_regression", "lsa", "0x1.684af851195eap+0"),
    "16936bbef90e": ("linear_regression", "lsa_together", "0x1.b5f480e6187b9p-4"),
    "cb90bdaa1268": ("softmax_regression", "softmax_layer", "0x1.6209c2c8004bbp-6"),
    "d4351ea13d26": ("given_data", "attention", None),
}


@pytest.fixture(scope="module")
def format1(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("format1")
    with zipfile.ZipFile(DATA / "format1.zip") as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_runs_of_format_1_are_read_and_known_to_be_old(format1, name):
    trace = Trace.load(format1 / "runs" / f"{name}.zarr")
    task, model, loss = KINDS[name]
    assert isinstance(trace.recipe, Recipe)
    assert (trace.recipe.task.kind, trace.recipe.model.kind) == (task, model)
    assert loss is None or trace.final_loss == float.fromhex(loss)
    assert not trace.up_to_date
    assert trace.model().predict is not None


@pytest.mark.parametrize("name", [name for name, kinds in KINDS.items() if kinds[0] != "given_data"])
def test_todays_numbers_are_those_of_format_1(format1, name):
    old = Trace.load(format1 / "runs" / f"{name}.zarr")
    fresh = old.recipe.optimizer.batch_size is not None and hasattr(old.recipe.task, "fresh_normals")
    # prompts drawn anew at every step come from another stream by default now; the old one gives the old numbers
    new = simulate(old.recipe.replace(task__fresh_normals="jax") if fresh else old.recipe)
    np.testing.assert_allclose(new.loss.values, old.loss.values, rtol=1e-6)  # normals are drawn in float32


def test_the_sweep_of_format_1_is_read_where_it_stands(format1):
    folder = SweepFolder.open(format1 / "sweep")
    assert status(format1 / "sweep").complete
    assert folder.plan.base.optimizer.lr == 0.02
    assert folder.verify() == [], "every chunk has the digest that its ledger entry says"
    assert np.isfinite(folder.dataset()["final_loss"].values).all()


def test_the_sweep_of_format_1_goes_on_under_its_own_names(format1, tmp_path):
    import shutil

    path = Path(shutil.copytree(format1 / "sweep", tmp_path / "sweep"))
    before = SweepFolder.open(path).dataset().load()
    assert {"plateau_count", "plateau_height", "plateau_start", "plateau_steps"} <= set(before)
    next((path / "ledger").glob("*.json")).unlink()
    folder = carry_out(SweepFolder.open(path).plan, path)
    after = folder.dataset().load()
    assert set(after) == set(before)
    np.testing.assert_array_equal(after["plateau_count"], before["plateau_count"])
    np.testing.assert_allclose(after["plateau_height"], before["plateau_height"], rtol=1e-6)


def test_list_and_show_tell_of_every_kind_of_run(format1, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["list", "--out", str(format1 / "runs")]) == 0
    told = capsys.readouterr().out
    for name in KINDS:
        assert name in told
    for words in ("separate H=2 R=1", "lsa H=2", "2 lsa together", "softmax layer query", "given data", "documents"):
        assert words in told
    for name in KINDS:
        assert main(["show", name, "--out", str(format1 / "runs"), "--plot", f"{name}.png"]) == 0
        told = capsys.readouterr().out
        assert "other numerics than today's" in told
        assert Path(f"{name}.png").stat().st_size > 1000
        assert ("L(M_2)" in told) == (KINDS[name][1] == "attention" and KINDS[name][0] == "linear_regression")
    assert main(["show", "f42814", "--out", str(format1 / "runs"), "--plot", "a.png"]) == 0
    assert "Bayes" in capsys.readouterr().out, "an lsa run has the levels of xie2025, not those of zhang2025"


def test_a_run_of_an_unknown_kind_is_listed_by_its_kind(format1, tmp_path, capsys):
    import shutil

    shutil.copytree(format1 / "runs" / "ea95234cbb5a.zarr", tmp_path / "ea95234cbb5a.zarr")
    meta = tmp_path / "ea95234cbb5a.zarr" / "zarr.json"
    data = json.loads(meta.read_text())
    data["attributes"]["provenance"] = data["attributes"]["provenance"].replace('"attention"', '"from_elsewhere"')
    meta.write_text(json.dumps(data))
    assert main(["list", "--out", str(tmp_path)]) == 0
    assert "from_elsewhere" in capsys.readouterr().out
    assert len(Store(tmp_path).list()) == 1
