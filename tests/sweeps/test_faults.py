"""Kills in mid-sweep: a Dask worker, then the sweep. Nothing finished is lost or repeated, no number changes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from sweep_cases import tiny

from iclearn.cli import main
from iclearn.sweeps import SweepFolder

pytest.importorskip("dask.distributed", reason="Dask is not installed (pip install 'iclearn[dask]')")

SPEC = {
    "name": "faults",
    "base": tiny(steps=4000).to_dict(),
    "axes": {"init.scale": [0.02, 0.05], "model.rank": [1, 2]},
    "seeds": 4,
    "reduce": {"levels": "zhang2025", "samples": 50, "curve": True},
    "chunk": 2,
}
LIMIT = 600  # seconds; only so that nothing hangs for ever
# Read by every process of the sweep: one that has taken a chunk waits while so many chunks are finished as files say.
SITE = """
import json, os, time
from pathlib import Path
from iclearn.core import interrupts

here, finishing = Path(__file__).parent, interrupts.finishing

def held(*really):
    most = lambda: 8 if (here / "all").exists() else 6 if (here / "more").exists() else 2
    while len(list((here / "rough/ledger").glob("*.json"))) >= most():
        (here / f"held-{os.getpid()}").touch()
        time.sleep(0.01)
    return finishing(*really)

interrupts.finishing = held
"""


def wait_for(what: str, condition: Callable[[], object], process: subprocess.Popen) -> None:
    deadline = time.time() + LIMIT
    while not condition():
        assert process.poll() is None, f"the sweep ended before there was {what}"
        assert time.time() < deadline, f"no {what} in {LIMIT} s"
        time.sleep(0.02)


def at_work(folder: SweepFolder, signs: Path) -> dict[str, int]:
    """Chunk → the process that has taken it and waits."""
    found = {}
    for chunk, claim in folder.claims.active().items():
        try:
            owner = json.loads(claim.path.read_text())["pid"]
        except (OSError, ValueError):  # being written just now
            continue
        if (signs / f"held-{owner}").exists():
            found[chunk] = owner
    return found


def start(spec: Path, out: Path) -> subprocess.Popen:
    words = ["sweep", str(spec), "--out", str(out), "--cluster", "local", "--workers", "2", "--path", "serial"]
    code = f"import sys; from iclearn.cli import main; sys.exit(main({words!r}))"
    paths = os.pathsep.join([str(out.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def test_a_killed_worker_and_a_killed_sweep_lose_and_repeat_nothing(tmp_path):
    spec, calm, rough = tmp_path / "spec.yaml", tmp_path / "calm", tmp_path / "rough"
    spec.write_text(yaml.safe_dump(SPEC))
    assert main(["sweep", str(spec), "--out", str(calm), "--path", "serial"]) == 0

    (tmp_path / "sitecustomize.py").write_text(SITE)
    sweeping = start(spec, rough)
    try:
        wait_for("a plan", lambda: (rough / "plan.json").exists(), sweeping)
        folder = SweepFolder.open(rough)
        assert len(folder.plan.chunks) == 8
        wait_for("two finished chunks", lambda: len(folder.entries()) >= 2, sweeping)
        begun: dict[str, int] = {}
        wait_for("a chunk at work", lambda: begun.update(at_work(folder, tmp_path)) or begun, sweeping)
        left_behind, victim = begun.popitem()
        assert victim != sweeping.pid, "chunks are computed by Dask's workers"
        os.kill(victim, signal.SIGKILL)
        (tmp_path / "more").touch()  # with two workers at most 7 of 8 can be finished
        # Dask may hand the chunk on before the kernel has buried its owner; then it is "busy" and comes last.
        retried_or_last = lambda: folder.entry(left_behind) or len(folder.entries()) >= 6  # noqa: E731
        wait_for("another try at a killed worker's chunk", retried_or_last, sweeping)
        sweeping.kill()
    finally:
        sweeping.kill()
        sweeping.wait()
    (tmp_path / "all").touch()
    wait = time.time() + LIMIT
    while folder.claims.active() and time.time() < wait:  # Dask's workers end when their parent is gone
        time.sleep(0.1)
    before = folder.entries()
    assert 3 <= len(before) < 8, "killed in the middle"
    partial = folder.dataset()["status"]
    assert int((partial >= 0).sum()) >= sum(entry.runs for entry in before.values())

    assert main(["sweep", str(spec), "--out", str(rough), "--path", "serial"]) == 0
    after = folder.entries()
    assert set(after) == {chunk.id for chunk in folder.plan.chunks}
    assert {id: after[id] for id in before} == before, "what was finished was not computed again"
    assert sum(entry.runs for entry in after.values()) == folder.plan.num_runs
    assert f"process {victim} " in folder.failures()[left_behind][0]
    assert not after[left_behind].owner.startswith(f"process {victim} ")

    expected, found = (xr.open_zarr(out / "data.zarr", consolidated=False).load() for out in (calm, rough))
    assert (found["status"] >= 0).all(), "every run is there"
    assert found.drop_attrs().equals(expected.drop_attrs())
    assert np.isfinite(found["final_loss"]).all()
    calm_digests = {id: entry.digest for id, entry in SweepFolder.open(calm).entries().items()}
    assert {id: entry.digest for id, entry in after.items()} == calm_digests
