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
from iclearn.sweeps.dask_cluster import _started

dask = pytest.importorskip("dask", reason="Dask is not installed (pip install 'iclearn[dask]')")
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


SCRIPT = """
import dataclasses
import iclearn as icl

@dataclasses.dataclass(frozen=True)
class Mine({base}):
    pass

task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
recipe = icl.Recipe(task=task, model=icl.Attention("separate_reduced", num_heads=2), steps=20)
print(icl.sweep(recipe, seeds=2, out="out", cluster="local", workers=1, path="serial").sizes["seed"], "seeds")
"""


def test_a_script_without_a_guard_takes_a_local_cluster_or_is_told_what_to_write(tmp_path):
    for base, words in (("object", "2 seeds"), ("icl.LinearRegression, kind='test_mine'", "put what it runs under if")):
        (tmp_path / "script.py").write_text(SCRIPT.format(base=base))
        command = [sys.executable, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert words in (done.stdout or done.stderr.splitlines()[-1]), done.stderr
        assert done.stderr.count("Traceback") == (base != "object"), done.stderr
        if base == "object":
            assert done.stderr == ""


def test_dashboards_listen_on_this_machine_alone_unless_asked(tmp_path, monkeypatch):
    """On the queue of SLURM too, whose commands are not needed to see where the scheduler listens."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed (pip install 'iclearn[dask]')")
    for name in ("sbatch", "scancel"):
        (tmp_path / name).write_text("#!/bin/sh\necho Submitted batch job 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    networks = pytest.importorskip("psutil").net_if_addrs()  # Dask has it
    loopback = next(name for name, all in networks.items() if any(one.address == "127.0.0.1" for one in all))
    job = {"cores": 1, "memory": "1GB", "interface": loopback}
    for options, expected in (({}, "127.0.0.1"), ({"dashboard_address": "0.0.0.0:0"}, "0.0.0.0")):
        settings = {"jobqueue.slurm": {**dask.config.get("jobqueue.slurm", {}), **job, "scheduler-options": options}}
        with dask.config.set(settings), _started("slurm", 1) as cluster:
            server = cluster.scheduler.http_server
            assert {socket.getsockname()[0] for socket in server._sockets.values()} == {expected}
    with _started("local", 1) as cluster:
        assert {s.getsockname()[0] for s in cluster.scheduler.http_server._sockets.values()} == {"127.0.0.1"}
