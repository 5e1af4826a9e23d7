"""The folder of a sweep: readable while it fills, claimed by one at a time, and checked against its hashes."""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr
from sweep_cases import AXES, REDUCE, tiny

from iclearn.core.errors import IclearnError
from iclearn.sweeps import Plan, Reduce, SweepFolder, make_plan, read_axes, status
from iclearn.sweeps import folder as folder_module
from iclearn.sweeps.leases import Claims, heartbeat
from iclearn.sweeps.schema import schema


@pytest.fixture(scope="module")
def plan() -> Plan:
    base = tiny()
    return Plan(base, read_axes(base, AXES, 3), Reduce(**REDUCE, curve=True), 6)  # type: ignore[arg-type]


@pytest.fixture
def folder(plan, tmp_path) -> SweepFolder:
    return SweepFolder.create(tmp_path / "sweep", plan)


def numbers(plan: Plan, chunk, start: float = 0.0) -> dict[str, np.ndarray]:
    """Numbers that could be a chunk's, all different."""
    shapes = {name: (chunk.runs, *v.sizes) for name, v in schema(plan).items()}
    return {name: start + np.arange(np.prod(shape)).reshape(shape) for name, shape in shapes.items()}


def test_the_dataset_has_the_axes_as_dimensions_and_is_empty_at_first(folder, plan):
    data = xr.open_zarr(folder.data_path, consolidated=False)
    assert dict(data.sizes) == {
        "scale": 2, "decay": 3, "rank": 2, "seed": 3, "crossing": 2, "level": 3, "sample": 41
    }  # fmt: skip
    np.testing.assert_array_equal(data["decay"], [0.5, 1.25, 2])
    assert np.isnan(data["final_loss"]).all()
    assert (data["status"] == -1).all()
    assert data["crossing_step"].dims == ("scale", "decay", "rank", "seed", "crossing")
    assert "not_run finished converged diverged" in data["status"].attrs["flag_meanings"]


def test_a_chunk_fills_its_own_points_and_no_others(folder, plan):
    chunk = plan.chunks[3]
    given = numbers(plan, chunk)
    folder.write(chunk, given, 0.5)
    data = folder.dataset()
    for run, index in enumerate(plan.indices(chunk.box)):
        at = dict(zip(("scale", "decay", "rank", "seed"), index, strict=True))
        assert data["final_loss"].isel(at) == given["final_loss"][run]
        np.testing.assert_array_equal(data["curve"].isel(at), given["curve"][run])
    assert int((data["status"] >= 0).sum()) == chunk.runs
    assert folder.sound(chunk)


def test_shorter_rows_are_padded():
    base = tiny()
    axes = {"size": {"fields": {"task.dim": [2, 3]}}, "seed": [0, 1]}
    plan = Plan(base, read_axes(base, axes), Reduce("zhang2025", 4), 2)
    assert schema(plan)["dwell_steps"].sizes == (4,)


def test_damage_is_found_by_the_hash_and_struck_from_the_ledger(folder, plan):
    for chunk in plan.chunks[:3]:
        folder.write(chunk, numbers(plan, chunk), 0.1)
    files = sorted(p for p in (folder.data_path / "final_loss" / "c").rglob("*") if p.is_file())
    assert len(files) == 3
    raw = bytearray(files[1].read_bytes())
    raw[len(raw) // 2] ^= 0x40
    files[1].write_bytes(bytes(raw))
    files[2].unlink()
    unsound = folder.verify()
    assert len(unsound) == 2
    assert len(folder.entries()) == 1
    assert {chunk.id for chunk in folder.begin_session()} == {c.id for c in plan.chunks} - set(folder.entries())


def test_the_digest_of_a_chunk_is_the_one_that_finished_sweeps_hold(folder):
    """Frozen: names in order, one NaN, no minus zero."""
    odd = np.frombuffer(np.uint64(0x7FF8000000000001).tobytes(), np.float64)
    for blocks in (
        {"a": np.array([0.0, np.nan]), "b": np.array([[1, 2]], np.int8)},
        {"b": np.array([[1, 2]], np.int8), "a": np.array([-0.0, odd[0]])},
    ):
        assert folder_module._digest(blocks) == "4e1cdc27da6e25e5bf03c8b0f127069da2c77fc97aada36048810d3497b014a1"


def test_an_entry_under_its_temporary_name_counts_as_none_and_is_cleared_away(folder, plan):
    """A process killed between writing an entry (or the end of a claim) and renaming it leaves nothing behind."""
    chunk = plan.chunks[0]
    folder.write(chunk, numbers(plan, chunk), 0.1)
    entry = folder.root / "ledger" / f"{chunk.id}.json"
    left = entry.rename(entry.with_name(f".{entry.name}.0123abcd.partial.json"))
    claim = folder.root / "claims" / f".{chunk.id}.0.0123abcd.partial.0"
    claim.write_text('{"failed": true}')
    assert folder.entries() == {}
    assert folder.claims.everything() == {}
    assert chunk in folder.begin_session()
    assert not left.exists()
    assert not claim.exists()


def test_a_cut_ledger_entry_counts_as_none(folder, plan):
    chunk = plan.chunks[0]
    folder.write(chunk, numbers(plan, chunk), 0.1)
    (folder.root / "ledger" / f"{chunk.id}.json").write_text('{"chunk": ')
    assert folder.entry(chunk.id) is None
    assert chunk in folder.begin_session()


def test_the_same_sweep_opens_its_folder_again_and_another_is_refused(folder, plan):
    again = SweepFolder.create(folder.root, Plan(plan.base, plan.axes, plan.reduce, 2))
    assert again.plan.limit == 6, "the chunking of a folder stays"
    with pytest.raises(IclearnError, match="holds another sweep"):
        SweepFolder.create(folder.root, make_plan(tiny(), {"seed": [1]}, chunk=1))


def test_processes_that_begin_a_sweep_at_once_share_its_folder(tmp_path, plan, monkeypatch):
    """The jobs of an array: the second makes its folder while the first is at it, and takes a chunk."""
    allocate, root = folder_module.allocate, tmp_path / "sweep"
    chunk = plan.chunks[0].id

    def slow(path, planned):
        monkeypatch.setattr(folder_module, "allocate", allocate)
        allocate(path, planned)
        assert SweepFolder.create(root, plan).claims.take(chunk) is not None

    monkeypatch.setattr(folder_module, "allocate", slow)
    first = SweepFolder.create(root, plan)
    assert first.claims.take(chunk) is None, "the claim of the other process is still there"
    assert [path.name for path in tmp_path.iterdir()] == ["sweep"]


def test_folders_that_hold_no_sweep_are_refused_in_one_line(tmp_path, plan):
    with pytest.raises(IclearnError, match="no sweep in"):
        SweepFolder.open(tmp_path)
    (tmp_path / "thesis.tex").write_text("dear to somebody")
    with pytest.raises(IclearnError, match="is not empty and holds no sweep"):
        SweepFolder.create(tmp_path, plan)
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(IclearnError, match="is damaged"):
        SweepFolder.open(tmp_path)


def test_one_claim_at_a_time(tmp_path):
    claims = Claims(tmp_path)
    first = claims.take("a")
    assert first is not None
    assert claims.take("a") is None
    assert claims.take("b") is not None
    assert set(claims.active()) == {"a", "b"}
    first.release()
    again = claims.take("a")
    assert again is not None
    again.fail()
    assert claims.attempts() == {"a": 1, "b": 0}
    third = claims.take("a")
    assert third is not None
    assert third.generation == 1


def _grab(folder: str, barrier, won) -> None:
    barrier.wait()
    won.put(Claims(__import__("pathlib").Path(folder)).take("a") is not None)
    barrier.wait()  # nobody leaves before all have tried


def test_of_many_processes_one_wins(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier, won = context.Barrier(3), context.Queue()
    crew = [context.Process(target=_grab, args=(str(tmp_path), barrier, won)) for _ in range(2)]
    for process in crew:
        process.start()
    _grab(str(tmp_path), barrier, won)
    results = [won.get(timeout=600) for _ in range(3)]
    for process in crew:
        process.join()
    assert sorted(results) == [False, False, True]


def test_the_claim_of_a_dead_process_is_taken_over(tmp_path):
    code = f"""
import os, signal
from pathlib import Path
from iclearn.sweeps.leases import Claims
assert Claims(Path({str(tmp_path)!r})).take("a")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    claims = Claims(tmp_path)
    assert claims.active() == {}
    claim = claims.take("a")
    assert claim is not None
    assert claim.generation == 1


def test_a_claim_of_another_machine_lives_by_its_heartbeat(tmp_path):
    claims = Claims(tmp_path, stale=30)
    owner = {"host": f"not-{socket.gethostname()}", "pid": os.getpid(), "start": "", "since": 0}
    path = tmp_path / "a.0"
    path.write_text(json.dumps(owner))
    assert claims.take("a") is None
    os.utime(path, (time.time() - 31,) * 2)
    taken = claims.take("a")
    assert taken is not None
    os.utime(taken.path, (0, 0))
    with heartbeat(taken, 0.01):
        deadline = time.time() + 600
        while taken.path.stat().st_mtime < 1 and time.time() < deadline:
            time.sleep(0.01)
    assert taken.path.stat().st_mtime > 1


def test_a_process_number_used_again_is_not_its_owner(tmp_path):
    owner = {"host": socket.gethostname(), "pid": os.getpid(), "start": "1", "since": 0}
    (tmp_path / "a.0").write_text(json.dumps(owner))
    claim = Claims(tmp_path).take("a")
    assert claim is not None, "this process runs, but it began at another time than the owner did"


def test_status_reads_the_folder(folder, plan):
    assert not status(folder.root).complete
    assert status(folder.root).rate is None
    for finished, chunk in enumerate(plan.chunks[:2]):
        entry = folder.write(chunk, numbers(plan, chunk), 3.0)
        told = json.dumps({**vars(entry), "finished": float(finished)})
        (folder.root / "ledger" / f"{chunk.id}.json").write_text(told)
    folder.claims.take(plan.chunks[2].id)
    bad = plan.chunks[3].id
    for attempt in range(3):
        claim = folder.claims.take(bad)
        assert claim is not None
        folder.note_failure(bad, attempt, "Traceback\nMemoryError: too large")
        claim.fail()
    found = status(folder.root)
    done = plan.chunks[0].runs + plan.chunks[1].runs
    assert (found.runs_done, found.chunks_done, found.chunks_active) == (done, 2, 1)
    assert found.failed == {bad: "MemoryError: too large"}
    assert found.rate == pytest.approx(done / 4), "two chunks of 3 s each, finished a second apart"
    assert found.left_seconds == pytest.approx((36 - done) / found.rate)
    text = "\n".join(found.lines())
    assert f"{done} of 36 runs" in text
    assert f"chunk {bad} failed: MemoryError: too large" in text
