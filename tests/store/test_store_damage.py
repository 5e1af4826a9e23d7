"""What is damaged, edited, foreign or from the future is recognized, named, never believed, and made again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from small_runs import DATA, made

from iclearn.cli import main
from iclearn.core.atomic import new_folder
from iclearn.core.errors import DamagedError, IclearnError, IclearnWarning
from iclearn.core.processes import machine_token
from iclearn.core.trace import Trace
from iclearn.store import DiskCheckpoint, Store

RECIPE = made(steps=40)


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    Store(root).run(RECIPE, dataset=DATA)
    return root


@pytest.fixture
def store(sound, tmp_path) -> Store:
    shutil.copytree(sound, tmp_path / "runs")
    return Store(tmp_path / "runs")


def attributes(path: Path, change) -> None:
    file = path / "zarr.json"
    data = json.loads(file.read_text())
    change(data["attributes"])
    file.write_text(json.dumps(data))


def provenance(change):
    def apply(attrs: dict) -> None:
        made = json.loads(attrs["provenance"])
        change(made)
        attrs["provenance"] = json.dumps(made)

    return apply


DAMAGE = {
    "a missing chunk": lambda p: shutil.rmtree(p / "loss" / "c"),
    "a missing chunk of a coordinate": lambda p: shutil.rmtree(p / "step" / "c"),
    "a truncated chunk": lambda p: os.truncate(p / "loss" / "c" / "0", 20),
    "a missing variable": lambda p: shutil.rmtree(p / "weight_kq"),
    "no metadata of the loss": lambda p: (p / "loss" / "zarr.json").unlink(),
    "no metadata": lambda p: (p / "zarr.json").unlink(),
    "metadata cut off": lambda p: os.truncate(p / "zarr.json", 100),
    "metadata that is a list": lambda p: (p / "zarr.json").write_text("[1, 2]"),
    "an unknown status": lambda p: attributes(p, lambda a: a.update(status="sleeping")),
    "no status step": lambda p: attributes(p, lambda a: a.pop("status_step")),
    "provenance that is no JSON": lambda p: attributes(p, lambda a: a.update(provenance="{")),
    "no checksum": lambda p: attributes(p, lambda a: a.pop("content_sha256")),
    "an edited recipe": lambda p: attributes(p, provenance(lambda made: made["recipe"].update(steps=7))),
    "provenance without a recipe": lambda p: attributes(p, provenance(lambda made: made.pop("recipe"))),
    "a future format": lambda p: attributes(p, lambda a: a.update(iclearn_format=99)),
    "an absurd size": lambda p: (p / "loss" / "zarr.json").write_text(
        (p / "loss" / "zarr.json").read_text().replace('"shape":[40]', '"shape":[4000000000000]').replace(
            '"shape": [\n    40\n  ]', '"shape": [4000000000000]'
        )
    ),
    "nothing": lambda p: [shutil.rmtree(c) if c.is_dir() else c.unlink() for c in p.iterdir()],
    "a file in its place": lambda p: (shutil.rmtree(p), p.write_text("notes")),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_listed_beside_the_others_and_healed(store, kind, capsys):
    path, other = store.path(RECIPE), RECIPE.replace(seed=11)
    expected = store.get(RECIPE)
    store.run(other, dataset=DATA)
    DAMAGE[kind](path)
    with pytest.raises(DamagedError, match=str(path)):
        store.get(RECIPE)
    assert main(["list", "--check", "--out", str(store.root)]) == 1
    told = capsys.readouterr()
    assert other.hash[:12] in told.out
    assert path.name in told.err
    assert main(["list", "--out", str(store.root)]) == 0
    assert main(["show", str(path), "--out", str(store.root), "--json"]) == 2
    with pytest.warns(IclearnWarning, match=r"kept as .*\.damaged"):
        again = store.run(RECIPE, dataset=DATA)
    assert again == expected
    assert store.get(RECIPE) == expected
    assert path.with_name(f"{path.name}.damaged").exists()


def test_no_flipped_bit_is_believed(store):
    """Every byte of numbers counts; a flip in text that is no number (a title, a space) may change nothing."""
    path, rng = store.path(RECIPE), random.Random(0)
    expected = store.get(RECIPE)
    chunks = [f for f in sorted(path.rglob("*")) if f.is_file() and f.name != "zarr.json"]
    for _ in range(60):
        file = rng.choice(chunks)
        before = file.read_bytes()
        at = rng.randrange(len(before))
        file.write_bytes(before[:at] + bytes([before[at] ^ 1 << rng.randrange(8)]) + before[at + 1 :])
        with contextlib.suppress(DamagedError):
            assert Trace.load(path) == expected
        file.write_bytes(before)
    assert Trace.load(path) == expected


def test_a_run_is_never_saved_over_something_else(sound, tmp_path):
    trace = Store(sound).get(RECIPE)
    assert trace is not None
    (tmp_path / "important").mkdir()
    (tmp_path / "important" / "thesis.tex").write_text("my work")
    (tmp_path / "notes.txt").write_text("my notes")
    for name in ("important", "notes.txt"):
        with pytest.raises(IclearnError, match=r"is there already and is no stored run: choose another path"):
            trace.save(tmp_path / name)
    assert (tmp_path / "important" / "thesis.tex").read_text() == "my work"
    assert (tmp_path / "notes.txt").read_text() == "my notes"
    (tmp_path / "empty").mkdir()
    trace.save(tmp_path / "empty")
    assert Trace.load(trace.save(tmp_path / "empty")) == trace
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "important", "notes.txt"]


@pytest.mark.parametrize("token", [machine_token(), "00000000"])
def test_a_kill_between_the_two_renames_loses_nothing(store, token):
    path = store.path(RECIPE)
    expected = store.get(RECIPE)
    os.rename(path, path.with_name(f".{path.name}.{token}-999999999-00000000.old"))
    assert store.get(RECIPE) == expected
    assert [p.name for p in store.root.iterdir()] == [path.name]


def test_what_another_process_is_writing_is_left_alone(store):
    """The one that is done removes what killed processes left, not what living ones write."""
    path = store.path(RECIPE)
    dead = path.with_name(f".{path.name}.12345678.partial")
    dead.mkdir()
    os.utime(dead, (0, 0))
    with new_folder(path) as temporary:
        temporary.mkdir()
        keeper = DiskCheckpoint(store.root / f".{path.stem}.checkpoint.npz", 0.0)
        keeper.clear()
        store.run(RECIPE, dataset=DATA, again=True)
        assert temporary.is_dir()
        shutil.copytree(path, temporary, dirs_exist_ok=True)
    assert not dead.exists()
    assert store.get(RECIPE) is not None
    assert [p.name for p in store.root.iterdir()] == [path.name]


@pytest.mark.parametrize("wrong", ["layout", "code", "bits"])
def test_a_checkpoint_that_other_code_wrote_or_that_is_damaged_is_not_gone_on_from(tmp_path, wrong, monkeypatch):
    path = tmp_path / ".abc.checkpoint.npz"
    keeper = DiskCheckpoint(path, 0.0)
    if wrong == "layout":
        np.savez(path, loss=np.zeros(3))
    elif wrong == "code":
        with monkeypatch.context() as other:
            other.setattr("iclearn.store.checkpoints.numerics", lambda: "0-of-another-time")
            keeper.save({"loss": np.zeros(3)})
    else:
        keeper.save({"loss": np.zeros(300)})
        data = bytearray(path.read_bytes())
        data[data.index(b"loss.npy") + 200] ^= 1
        path.write_bytes(data)
    assert keeper.load() is None


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "iclearn.store.checkpoints.np.savez", lambda *a, **k: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.warns(IclearnWarning, match=r"no checkpoint could be written to .*: full; the run goes on without"):
        trace = Store(tmp_path).run(made(steps=900), dataset=DATA, checkpoint_seconds=0.0)
    assert len(trace.loss) == 900


def test_runs_of_format_2_are_read(tmp_path):
    with zipfile.ZipFile(Path(__file__).resolve().parents[1] / "data" / "format2.zip") as archive:
        archive.extractall(tmp_path)
    losses = {"dbd7d2ddda34": "0x1.1f6f901d08f66p-1", "9dfd843f12e0": "0x1.0771100efb9d2p-1"}
    for name, loss in losses.items():
        trace = Trace.load(tmp_path / "runs" / f"{name}.zarr")
        assert trace.final_loss == float.fromhex(loss)
        assert Store(tmp_path / "runs").get(trace.recipe) == trace, "its hash is today's"
        shutil.rmtree(tmp_path / "runs" / f"{name}.zarr" / "loss" / "c")
        with pytest.raises(DamagedError, match="missing"):
            Trace.load(tmp_path / "runs" / f"{name}.zarr")


@pytest.mark.slow
def test_processes_that_write_the_same_run_do_not_disturb_each_other(tmp_path):
    script = Path(__file__).with_name("writers_at_once.py")
    command = [sys.executable, str(script), str(tmp_path), "25"]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    told = [writer.communicate(timeout=600)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], told
    assert [p.name for p in tmp_path.iterdir()] == [Store(tmp_path).path(RECIPE).name]
    assert Store(tmp_path).get(RECIPE) is not None
