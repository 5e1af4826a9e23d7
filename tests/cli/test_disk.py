"""A full disk, a folder removed in mid-run: one line that says where, and what was stored before is intact."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from held_commands import LIMIT, HeldCommand

from iclearn.cli import main
from iclearn.core.trace import Trace

SMALL = ["train", "--steps", "5", "--dim", "2", "--prompts", "20", "--no-text"]
LARGE = ["train", "--steps", "100000", "--dim", "2", "--prompts", "20", "--no-text"]
GRID = """
base: {task: {dim: 2, num_prompts: inf}, model: {family: merged}, steps: 40000}
seeds: 30
chunk: 10
reduce: {curve: true}
"""


def iclearn(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "iclearn", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 600 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root can mount a small file system (sudo pytest, or a container)")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(
    "words",
    [
        LARGE,
        pytest.param(["sweep", "grid.yaml", "--out", "s"], marks=pytest.mark.slow),
        pytest.param(["reproduce", "zhang2025", "landscape", "--out", "r"], marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_named_and_harms_nothing(small_disk, monkeypatch, words):
    monkeypatch.chdir(small_disk)
    (small_disk / "grid.yaml").write_text(GRID)
    assert main(SMALL) == 0
    (kept,) = (small_disk / "runs").glob("*.zarr")
    before = Trace.load(kept)
    (small_disk / "filling").write_bytes(bytes(shutil.disk_usage(small_disk).free - 50_000))
    told = iclearn(words, small_disk)
    assert told.returncode == 2, told.stderr
    (line,) = [line for line in told.stderr.splitlines() if "space" in line]
    assert line.startswith(f"iclearn {words[0]}: "), line
    assert "Traceback" not in told.stderr, told.stderr
    assert Trace.load(kept) == before
    assert not [name for name in small_disk.rglob("*.partial*")], "nothing half-written stays and fills the disk"
    subprocess.run(["mount", "-o", "remount,size=30m", small_disk], check=True)
    assert main(words) in (0, 1), "with room the same command goes on"


def test_a_folder_removed_in_mid_run(tmp_path):
    """The run ends stored in the folder made anew, or in one line; never in a store that cannot be read."""
    assert main([*SMALL, "--out", str(tmp_path / "gone/runs")]) == 0
    process = HeldCommand([*LARGE, "--out", "gone/runs"], tmp_path, after="signs")
    process.until_held()
    shutil.rmtree(tmp_path / "gone")
    process.go_on()
    _, told = process.communicate(timeout=LIMIT)
    assert "Traceback" not in told
    assert process.returncode in (0, 2), told
    if process.returncode == 2:
        assert "gone" in told
    else:
        (run,) = (tmp_path / "gone/runs").glob("*.zarr")
        assert len(Trace.load(run).loss) == 100_000
