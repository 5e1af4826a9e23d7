"""Ctrl-C: the chunk at hand is saved, one line says how to go on, exit code 130, and the rest is bit for bit equal."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from held_commands import LIMIT, HeldCommand, until

from iclearn.cli import main
from iclearn.core.processes import process_lives
from iclearn.core.trace import Trace

TRAIN = ["train", "--model", "attnS", "--heads", "2", "--dim", "2", "--prompts", "inf", "--lr", "1e-5"]


def interrupt(process: subprocess.Popen, times: int = 1) -> tuple[int, str]:
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    _, told = process.communicate(timeout=LIMIT)
    return process.returncode, told


def test_a_run_is_saved_and_goes_on_bit_for_bit(tmp_path):
    checkpoint = lambda: list((tmp_path / "runs").glob(".*.checkpoint.npz"))  # noqa: E731
    words = [*TRAIN, "--steps", "600000"]
    process = HeldCommand(words, tmp_path, after="signs")
    process.until_held()
    code, told = interrupt(process)
    assert code == 130, told
    first, last = told.splitlines()[-2:]
    assert first == "iclearn train: stopping after the work at hand, which is saved; a second Ctrl-C stops at once"
    assert re.fullmatch(r"iclearn train: interrupted; step \d+ of 600000 is saved; the same .* goes on from here", last)
    assert checkpoint()
    assert main([*words, "--out", str(tmp_path / "runs")]) == 0
    assert main([*words, "--out", str(tmp_path / "other")]) == 0
    (expected,) = (tmp_path / "other").glob("*.zarr")
    assert Trace.load(tmp_path / "runs" / expected.name) == Trace.load(expected)
    assert not checkpoint()


@pytest.mark.parametrize(
    ("setting", "line"), [("PYTHONPROFILEIMPORTTIME", " jax\n"), ("JAX_LOG_COMPILES", "Compiling jit(advance_flow)")]
)
def test_while_it_imports_or_compiles_it_ends_without_a_crash(tmp_path, setting, line):
    words = [*TRAIN, "--heads", "8", "--dim", "6", "--optimizer", "flow"]
    process = HeldCommand(words, tmp_path, after="signs", ICLEARN_COMPILE_CACHE="off", **{setting: "1"})
    assert process.stderr is not None
    while line not in (said := process.stderr.readline()):
        assert said, "it ended before it was interrupted"
    code, told = interrupt(process, times=2)
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
    process = HeldCommand(words, tmp_path, after="s/ledger/*.json")
    process.until_held()
    code, told = interrupt(process)
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
    process = HeldCommand(words, tmp_path, after="r/runs/*.zarr")
    process.until_held()
    code, told = interrupt(process)
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
    words = ["reproduce", "zhang2025", "fig1b", "fig10", "--seeds", "3", "--workers", "2"]
    process = HeldCommand(words, tmp_path, after="reproduced/zhang2025/runs")
    process.until_held()
    children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
    assert len(children) >= 2
    process.kill()
    process.communicate()
    until(lambda: not any(process_lives(pid) for pid in children))
