"""Ctrl-C: the chunk at hand is saved, one line says how to go on, exit code 130, and the rest is bit for bit equal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iclearn.cli import main
from iclearn.core.processes import process_lives
from iclearn.core.trace import Trace

TRAIN = ["train", "--model", "attnS", "--heads", "2", "--dim", "2", "--prompts", "inf", "--lr", "1e-5"]
LIMIT = 120.0


def start(words: list[str], folder: Path, **changes: str) -> subprocess.Popen:
    environment = {**os.environ, **changes}
    command = [sys.executable, "-m", "iclearn", *words]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def interrupt(process: subprocess.Popen, when: Callable[[], object], times: int = 1) -> tuple[int, str]:
    deadline = time.monotonic() + LIMIT
    while not when():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "what should be interrupted did not come"
        time.sleep(0.02)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, told = process.communicate(timeout=LIMIT)
    return process.returncode, told


def moment(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() > end


def interrupted_run(folder: Path) -> tuple[list[str], str]:
    """A run interrupted after it has said that it is on its way, long enough for this machine, and what it told."""
    for steps in (600_000 * 4**k for k in range(4)):
        words = [*TRAIN, "--steps", str(steps)]
        process = start(words, folder)
        assert process.stderr is not None
        begun = process.stderr.readline()  # nothing at all from a run that ends within a second or two
        code, told = interrupt(process, lambda: True) if begun else (process.wait(LIMIT), begun)
        if code == 130:
            assert begun.startswith("step "), begun
            return words, told
        assert code == 0, told
    raise AssertionError("no run was long enough to be interrupted")


def test_a_run_is_saved_and_goes_on_bit_for_bit(tmp_path):
    checkpoint = lambda: list((tmp_path / "runs").glob(".*.checkpoint.npz"))  # noqa: E731
    words, told = interrupted_run(tmp_path)
    first, last = told.splitlines()[-2:]
    assert first == "iclearn train: stopping after the work at hand, which is saved; a second Ctrl-C stops at once"
    assert re.fullmatch(
        rf"iclearn train: interrupted; step \d+ of {words[-1]} is saved; the same .* goes on from here", last
    )
    assert checkpoint()
    assert main([*words, "--out", str(tmp_path / "runs")]) == 0
    assert main([*words, "--out", str(tmp_path / "other")]) == 0
    (expected,) = (tmp_path / "other").glob("*.zarr")
    assert Trace.load(tmp_path / "runs" / expected.name) == Trace.load(expected)
    assert not checkpoint()


@pytest.mark.parametrize("seconds", [1.0, 2.0])
def test_while_it_compiles_it_ends_without_a_crash(tmp_path, seconds):
    words = [*TRAIN, "--heads", "8", "--dim", "6", "--optimizer", "flow"]
    process = start(words, tmp_path, ICLEARN_COMPILE_CACHE="off")
    code, told = interrupt(process, moment(seconds), times=2)
    assert code == 130, told
    assert "Traceback" not in told


SPEC = """
base: {task: {dim: 2, context_len: 8, num_prompts: inf}, model: {family: separate_reduced}, steps: 40000}
axes: {init.scale: [0.02, 0.05, 0.1]}
seeds: 4
chunk: 1
"""


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_sweep_finishes_its_chunk(tmp_path, monkeypatch, workers):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grid.yaml").write_text(SPEC)
    words = ["sweep", "grid.yaml", "--out", "s", "--workers", str(workers), "--path", "serial"]
    ledger = lambda: list((tmp_path / "s" / "ledger").glob("*.json"))  # noqa: E731
    code, told = interrupt(start(words, tmp_path), ledger)
    assert code == 130, told
    assert "the same command goes on" in told
    assert "Traceback" not in told
    kept = {path.name: path.stat().st_mtime_ns for path in ledger()}
    assert 0 < len(kept) < 12
    assert main(words) == 0
    assert len(ledger()) == 12
    assert {name: (tmp_path / "s/ledger" / name).stat().st_mtime_ns for name in kept} == kept, "nothing is repeated"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_reproduction_keeps_what_it_has(tmp_path, monkeypatch, workers):
    """The run at hand is finished or saved, one line says how to go on, and what is stored is not computed again."""
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "zhang2025", "fig1b", "fig10", "--seeds", "2", "--out", "r", "--workers", workers]
    runs = lambda: list((tmp_path / "r/runs").glob("*.zarr"))  # noqa: E731
    code, told = interrupt(start(words, tmp_path), runs)
    if code in (0, 1):
        pytest.skip("the reproduction was over before it could be interrupted")
    assert code == 130, told
    assert "Traceback" not in told
    assert "goes on" in told.splitlines()[-1]
    kept = {path.name: path.stat().st_mtime_ns for path in runs()}
    assert kept
    words.remove("fig10")  # the first figure goes on; the second would take as long again
    assert main(words) in (0, 1)
    assert {name: (tmp_path / "r/runs" / name).stat().st_mtime_ns for name in kept} == kept, "nothing is repeated"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are looked up in /proc")
def test_processes_of_a_reproduction_end_with_it(tmp_path):
    """Killed without a chance to say so: what it started does not go on alone."""
    process = start(["reproduce", "zhang2025", "fig1b", "fig10", "--seeds", "3", "--workers", "2"], tmp_path)
    stored, deadline = tmp_path / "reproduced/zhang2025/runs", time.monotonic() + LIMIT
    while not stored.is_dir():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert len(children) >= 2
    process.kill()
    process.communicate()
    while any(process_lives(pid) for pid in children):
        assert time.monotonic() < deadline, "a process outlives the command"
        time.sleep(0.1)
