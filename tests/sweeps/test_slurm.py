"""The job scripts of docs/how-to/slurm.md, run by a real SLURM: the numbers are those of one process.

They run where `sinfo` answers; `dev/slurm` starts a SLURM of one node.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import xarray as xr

from iclearn.cli import main
from iclearn.sweeps import SweepFolder

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/slurm.md").read_text()
SWEEP = "examples/sweeps/learning-rate.yaml"
LIMIT = 600  # seconds, after which a job is taken to hang


def slurm_answers() -> bool:
    return shutil.which("sinfo") is not None and subprocess.run(["sinfo"], capture_output=True).returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not slurm_answers(), reason="no SLURM answers: install slurm-wlm and munge, run dev/slurm FOLDER"
    ),
]


def wait_for(what: str, condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline, f"no {what} in {LIMIT} s"
        time.sleep(0.05)


def slurm(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def submit_folder(tmp_path, monkeypatch) -> Path:
    """The folder of the jobs, with the sweep of the page and this environment's `iclearn` on the path."""
    (tmp_path / "examples/sweeps").mkdir(parents=True)
    shutil.copy(ROOT / SWEEP, tmp_path / SWEEP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    return tmp_path


def submit_array() -> str:
    """Submit the job array of the page; the job's number."""
    script = re.search(r"```bash\n(#!/bin/bash\n#SBATCH.*?)```", PAGE, re.DOTALL)
    assert script
    Path("job.sh").write_text(script[1])
    return slurm("sbatch", "--parsable", "job.sh").strip()


def array_task(pid: int) -> str:
    """Which task of the array a process belongs to."""
    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(w.partition(b"=")[2].decode() for w in words if w.startswith(b"SLURM_ARRAY_TASK_ID="))


def suspend_one(folder: SweepFolder, but: str = "") -> tuple[str, str, int]:
    """Stop a process that computes a chunk, so that it cannot finish it: (task of the array, chunk, process)."""
    found: list[tuple[str, str, int]] = []

    def suspended() -> bool:
        for chunk, claim in folder.claims.active().items():
            try:
                pid = json.loads(claim.path.read_text())["pid"]
                task = array_task(pid)
                if task == but:
                    continue
                os.kill(pid, signal.SIGSTOP)
            except (OSError, ValueError):  # the claim was released, or is being written; the process has ended
                continue
            if claim.path.exists() and folder.entry(chunk) is None:
                found.append((task, chunk, pid))
                return True
            os.kill(pid, signal.SIGCONT)
        return False

    wait_for("process that computes a chunk", suspended)
    return found[0]


def assert_same_as_in_one_process(out: Path) -> None:
    assert main(["sweep", SWEEP, "--out", "alone", "--chunk", "8", "--quiet"]) == 0
    found, expected = (xr.open_zarr(o / "data.zarr", consolidated=False).load() for o in (out, Path("alone")))
    assert (found["status"] >= 0).all()
    assert found.drop_attrs().equals(expected.drop_attrs())


def test_the_job_array_gives_the_numbers_of_one_process(submit_folder):
    job = submit_array()
    wait_for("end of the array", lambda: not slurm("squeue", "--noheader", "--job", job).strip())
    assert_same_as_in_one_process(Path("lr"))
    owners = {entry.owner for entry in SweepFolder.open(Path("lr")).entries().values()}
    assert len(owners) > 1, "several jobs took part"


def test_one_job_requeued_and_another_killed_change_no_number(submit_folder):
    job = submit_array()
    wait_for("plan", Path("lr/plan.json").exists)
    folder = SweepFolder.open(Path("lr"))
    requeued, _, _ = suspend_one(folder)
    _, lost, pid = suspend_one(folder, but=requeued)
    slurm("scontrol", "requeue", f"{job}_{requeued}")
    os.kill(pid, signal.SIGKILL)  # at once, as for too much memory; scancel sends SIGTERM first, whatever it is told
    wait_for("end of the array", lambda: not slurm("squeue", "--noheader", "--job", job).strip())
    assert "Restarts=1" in slurm("scontrol", "show", "job", f"{job}_{requeued}")
    assert "JobState=FAILED" in slurm("scontrol", "show", "job", job)
    owner = folder.entries()[lost].owner
    assert not owner.startswith(f"process {pid} "), "another process computed the chunk of the killed job"
    assert_same_as_in_one_process(Path("lr"))


def test_a_cluster_of_slurm_jobs_gives_the_numbers_of_one_process(submit_folder):
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'iclearn[dask]'")
    config = re.search(r"```yaml\n(jobqueue:.*?)```", PAGE, re.DOTALL)
    assert config
    Path("dask").mkdir()
    Path("dask/jobqueue.yaml").write_text(config[1])
    words = ["sweep", SWEEP, "--out", "lr", "--chunk", "8", "--cluster", "slurm", "--workers", "2"]
    code = f"import sys; from iclearn.cli import main; sys.exit(main({words!r}))"
    sweeping = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "DASK_CONFIG": "dask"}, capture_output=True, text=True
    )
    assert sweeping.returncode == 0, sweeping.stderr
    assert_same_as_in_one_process(Path("lr"))
    jobs = slurm("scontrol", "show", "job")
    assert jobs.count("JobName=dask-worker") >= 2
