"""Work killed at random moments, again and again, then let finish: nothing is lost and no number differs.

`pytest -m faults` kills `ICLEARN_KILLS` times (210) in all; `ICLEARN_KILL_SEED` chooses the moments, and
`ICLEARN_KILL_REPORT` names a JSON file to which the counts are written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from victims import VICTIMS, Victim, language_model

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("ICLEARN_KILLS", "210"))
SEED = int(os.environ.get("ICLEARN_KILL_SEED", "0"))
MOST = 4  # kills of one piece of work
LIMIT = 300  # seconds that an undisturbed run may take


def start(words: list[str]) -> subprocess.Popen:
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, stdout=quiet, stderr=quiet, start_new_session=True)


def finish(victim: Victim, folder: Path) -> float:
    """Let the work finish; seconds it took."""
    begin = time.monotonic()
    process = start(victim.command(folder))
    assert process.wait(LIMIT) in (0, 1), "it must end by itself"  # 1: a claim that should hold does not, in one seed
    return time.monotonic() - begin


def killed(victim: Victim, folder: Path, after: float) -> bool:
    """Kill the work and all its processes after so many seconds; False where it had finished before."""
    process = start(victim.command(folder))
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.wait(LIMIT) == -signal.SIGKILL
    return False


def report(name: str, **counts: int) -> None:
    print(name, counts)
    if "ICLEARN_KILL_REPORT" in os.environ:
        path = Path(os.environ["ICLEARN_KILL_REPORT"])
        found = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(found | {name: counts}, indent=1))


def kill_and_compare(name: str, victim: Victim, tmp_path: Path) -> None:
    rng = np.random.default_rng([SEED, *name.encode()])
    finish(victim, tmp_path / "first")  # compiles
    seconds = finish(victim, tmp_path / "calm")
    calm = victim.read(tmp_path / "calm")
    assert calm, "there is nothing to compare"
    assert victim.read(tmp_path / "first") == calm, "two undisturbed runs differ: nothing can be said"
    wanted, kills, works, too_late = -(-KILLS // (len(VICTIMS) + 1)), 0, 0, 0
    while kills < wanted:
        folder = tmp_path / f"rough{works}"
        for _ in range(min(int(rng.integers(1, MOST + 1)), wanted - kills)):
            if not killed(victim, folder, rng.uniform(0, seconds)):
                too_late += 1
                break
            kills += 1
        works += 1
        finish(victim, folder)
        assert victim.read(folder) == calm, f"kill {kills} (seed {SEED}) changed a number"
        for pattern in victim.leftovers:
            assert not list(folder.glob(pattern)), "something half-written was left"
    report(name, kills=kills, works=works, finished_before=too_late, lost=0, differing=0)


@pytest.mark.parametrize("name", VICTIMS)
def test_killed_work_ends_in_the_same_numbers(name, tmp_path):
    if "Dask" in name:
        pytest.importorskip("dask.distributed")
    kill_and_compare(name, VICTIMS[name], tmp_path)


def test_a_killed_language_model_experiment_ends_in_the_same_numbers(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    kill_and_compare("language model", language_model(tmp_path), tmp_path)
