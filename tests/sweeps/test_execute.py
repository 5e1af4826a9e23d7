"""The same numbers however a sweep is carried out; failures are tried again, and told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from sweep_cases import AXES, REDUCE, tiny

import iclearn
from iclearn.core.errors import IclearnError
from iclearn.core.status import Status
from iclearn.engines.simulate import simulate
from iclearn.sweeps import SweepFolder, make_plan, run_chunk, runners, status
from iclearn.sweeps.runners import here
from iclearn.theory.zhang2025 import saddle_losses

RTOL = 1e-12


def assert_same(found: xr.Dataset, expected: xr.Dataset, rtol: float = 0.0) -> None:
    """Equal in every variable and coordinate, to `rtol`."""
    assert set(found.variables) == set(expected.variables)
    for name in expected.variables:
        assert found[name].dims == expected[name].dims
        if found[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], expected[name], rtol=rtol, atol=0, err_msg=str(name))
        else:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=str(name))


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> xr.Dataset:
    """The reference: every run by itself."""
    out = tmp_path_factory.mktemp("serial") / "sweep"
    return iclearn.sweep(tiny(), AXES, 3, out, reduce={**REDUCE, "curve": True}, path="serial")


def test_each_point_is_the_run_of_its_recipe(alone):
    """Read off `simulate` by hand at a few points."""
    for scale, decay, rank, seed in [(0, 0, 0, 0), (1, 2, 1, 2), (0, 1, 1, 1)]:
        recipe = tiny(
            init__scale=[0.02, 0.1][scale],
            task__covariance__parameters=([0.5, 1.25, 2.0][decay],),
            model__rank=[1, 2][rank],
            seed=seed,
        )
        trace, point = simulate(recipe), alone.isel(scale=scale, decay=decay, rank=rank, seed=seed)
        assert float(point["first_loss"]) == float(trace.loss[0])
        assert float(point["final_loss"]) == float(trace.loss[-1])
        assert [Status.FINISHED, Status.CONVERGED][int(point["status"])] is trace.status
        levels = saddle_losses(recipe.task.covariance.values(2), 8)  # type: ignore[attr-defined]
        below = np.nonzero(trace.loss.values < (levels[0] + levels[1]) / 2)[0]
        if len(below):
            assert abs(float(point["crossing_step"][0]) - below[0]) <= 200 / 40, "to the distance of two samples"
        else:
            assert np.isnan(point["crossing_step"][0])


@pytest.mark.parametrize("path", ["vmap", "auto"])
def test_alone_and_side_by_side_are_the_same(alone, tmp_path, path):
    together = iclearn.sweep(tiny(), AXES, 3, tmp_path / "s", reduce={**REDUCE, "curve": True}, path=path)
    assert_same(together, alone, RTOL)


def test_another_chunking_gives_the_same(alone, tmp_path):
    """Boxes of 2 × 3 and, at the edge, 1 × 3 runs instead of all 18."""
    axes = {name: values for name, values in AXES.items() if name != "model.rank"}
    reduce = {**REDUCE, "curve": True}
    found = iclearn.sweep(tiny(), axes, 3, tmp_path / "s", reduce=reduce, path="vmap", chunk=7)
    assert_same(found, alone.isel(rank=0).drop_vars("rank"), RTOL)


def test_worker_processes_give_the_same(alone, tmp_path):
    reduce = {**REDUCE, "curve": True}
    found = iclearn.sweep(tiny(), AXES, 3, tmp_path / "s", reduce=reduce, chunk=9, path="serial", workers=2)
    assert_same(found, alone, RTOL)
    owners = {entry.owner for entry in SweepFolder.open(tmp_path / "s").entries().values()}
    assert not any(f"process {os.getpid()} " in owner for owner in owners)


def test_sizes_that_differ_share_one_dataset(tmp_path):
    """dim is a static axis; what a smaller task does not have is NaN."""
    axes = {"task.dim": [2, 3]}
    found = iclearn.sweep(tiny(), axes, 2, tmp_path / "s", reduce=REDUCE, path="serial")
    assert found.sizes["level"] == 4
    assert np.isnan(found["dwell_steps"].sel(dim=2, level=3)).all()
    assert not np.isnan(found["dwell_steps"].sel(dim=3)).any()


def test_a_run_that_diverges_is_a_point_like_the_others(tmp_path):
    axes = {"optimizer.lr": [0.02, 50.0]}
    for path in ("serial", "vmap"):
        found = iclearn.sweep(tiny(init__scale=1.0), axes, 2, tmp_path / path, reduce={"samples": 20}, path=path)
        assert (found["status"].sel(lr=50.0) == 2).all()
        assert (found["status"].sel(lr=0.02) < 2).all()
        assert (found["status_step"].sel(lr=50.0) <= 60).all(), "the sample after it happened"


def test_finished_chunks_are_not_computed_again(tmp_path):
    plan = make_plan(tiny(), AXES, 2, reduce=REDUCE, chunk=6, path="serial")
    folder = SweepFolder.create(tmp_path / "s", plan)
    first = plan.chunks[0].id
    assert run_chunk(str(folder.root), first) == "done"
    assert run_chunk(str(folder.root), first) == "already"
    entry = folder.entry(first)
    runners.execute(folder, here)
    assert folder.entry(first) == entry
    stamps = {c.id: folder.entry(c.id) for c in plan.chunks}
    runners.execute(folder, here)
    assert stamps == {c.id: folder.entry(c.id) for c in plan.chunks}


@pytest.mark.parametrize("resizes", [None, 0, 1, 4])
def test_a_sweep_is_extended_and_nothing_finished_is_computed_again(tmp_path, monkeypatch, resizes):
    """Values are appended to a numeric axis, to a static one and to the seeds, with a kill at no, the first, … resize
    of an array of the dataset."""
    axes = {"init.scale": [0.02, 0.1], "model.rank": [1]}
    longer = {"init.scale": [0.02, 0.1, 0.3], "model.rank": [1, 2]}
    given = {"reduce": {**REDUCE, "curve": True}, "path": "serial"}
    iclearn.sweep(tiny(), axes, 4, tmp_path / "s", **given)
    finished = SweepFolder.open(tmp_path / "s").entries()
    resize, left = zarr.Array.resize, [resizes]

    def dying(array, shape):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] = None if left[0] is None else left[0] - 1
        resize(array, shape)

    if resizes is not None:
        monkeypatch.setattr(zarr.Array, "resize", dying)
        with pytest.raises(KeyboardInterrupt):
            iclearn.sweep(tiny(), longer, 8, tmp_path / "s", **given)
        monkeypatch.undo()
    extended = iclearn.sweep(tiny(), longer, 8, tmp_path / "s", **given)
    assert_same(extended, iclearn.sweep(tiny(), longer, 8, tmp_path / "t", **given))
    folder = SweepFolder.open(tmp_path / "s")
    assert finished.items() <= folder.entries().items()
    assert sum(entry.runs for entry in finished.values()) == 8
    assert sum(entry.runs for entry in folder.entries().values()) == folder.plan.num_runs == 48
    assert extended.attrs["sweep_hash"] == folder.plan.hash


def test_of_an_extended_axis_only_the_incomplete_box_at_its_end_is_computed_again(tmp_path):
    given = {"reduce": REDUCE, "path": "serial", "chunk": 3}
    iclearn.sweep(tiny(), {}, 5, tmp_path / "s", **given)
    before = SweepFolder.open(tmp_path / "s").entries()
    extended = iclearn.sweep(tiny(), {}, 8, tmp_path / "s", **given)
    after = SweepFolder.open(tmp_path / "s").entries()
    assert sorted(entry.runs for entry in before.values()) == [2, 3]
    assert [entry.runs for id, entry in after.items() if before.get(id) == entry] == [3]
    assert_same(extended, iclearn.sweep(tiny(), {}, 8, tmp_path / "t", **given))


def test_what_is_no_extension_is_refused_and_so_is_one_of_a_sweep_at_work(tmp_path):
    out, axes = tmp_path / "s", {"init.scale": [0.02, 0.1]}
    plan = make_plan(tiny(), axes, 4, reduce=REDUCE)
    folder = SweepFolder.create(out, plan)
    others = [
        make_plan(tiny(), axes, [4, 5, 6, 7], reduce=REDUCE),
        make_plan(tiny(), axes, 3, reduce=REDUCE),
        make_plan(tiny(), {"init.scale": [0.02, 0.2]}, 8, reduce=REDUCE),
        make_plan(tiny(steps=100), axes, 8, reduce=REDUCE),
        make_plan(tiny(), axes, 8, reduce={**REDUCE, "curve": True}),
        make_plan(tiny(), {**axes, "task.dim": [2]}, 8, reduce=REDUCE),
    ]
    for other in others:
        with pytest.raises(IclearnError, match=r"holds another sweep .* is extended by appending values to its axes"):
            SweepFolder.create(out, other)
    longer = make_plan(tiny(), axes, 8, reduce=REDUCE)
    claim = folder.claims.take(plan.chunks[0].id)
    assert claim is not None
    with pytest.raises(IclearnError, match="is being computed: extend the sweep when that has ended"):
        SweepFolder.create(out, longer)
    claim.release()
    assert SweepFolder.create(out, longer).plan.num_runs == 16
    assert folder.claims.take(plan.chunks[0].id) is not None
    assert SweepFolder.create(out, longer).plan.num_runs == 16, "by then it is the same sweep, which others may compute"


def test_a_corrupted_chunk_is_computed_again(tmp_path):
    out = tmp_path / "s"
    before = iclearn.sweep(tiny(), AXES, 2, out, reduce=REDUCE, chunk=6, path="serial")
    damaged = sorted(p for p in (out / "data.zarr" / "final_loss" / "c").rglob("*") if p.is_file())[1]
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    kept = {id: entry.finished for id, entry in SweepFolder.open(out).entries().items()}
    after = iclearn.sweep(tiny(), AXES, 2, out, reduce=REDUCE, chunk=6, path="serial")
    assert_same(after, before)
    now = {id: entry.finished for id, entry in SweepFolder.open(out).entries().items()}
    assert sum(now[id] != kept[id] for id in now) == 1


def test_a_chunk_in_other_hands_is_left_alone(tmp_path):
    plan = make_plan(tiny(), AXES, 2, reduce=REDUCE, chunk=6, path="serial")
    folder = SweepFolder.create(tmp_path / "s", plan)
    other = subprocess.Popen([sys.executable, "-c", f"""
import time
from pathlib import Path
from iclearn.sweeps.leases import Claims
assert Claims(Path({str(folder.root / "claims")!r})).take({plan.chunks[0].id!r})
time.sleep(600)
"""])  # fmt: skip
    try:
        while not list((folder.root / "claims").glob("*")):
            assert other.poll() is None
            time.sleep(0.05)
        assert run_chunk(str(folder.root), plan.chunks[0].id) == "busy"
    finally:
        other.kill()
        other.wait()
    assert run_chunk(str(folder.root), plan.chunks[0].id) == "done"
    assert "died at work" in folder.failures()[plan.chunks[0].id][0]


@pytest.fixture
def hopeless(tmp_path) -> SweepFolder:
    """A sweep one of whose chunks cannot be stored: a folder lies where its file should be."""
    plan = make_plan(tiny(), {"seed": [0, 1, 2]}, reduce={"samples": 4}, chunk=1, path="serial")
    folder = SweepFolder.create(tmp_path / "s", plan)
    (folder.data_path / "final_loss" / "c" / "1").mkdir(parents=True)
    return folder


def test_failures_are_tried_again_then_told_and_the_rest_is_done(hopeless):
    with pytest.raises(IclearnError, match="1 of 3 chunks failed, the first with: IsADirectoryError"):
        runners.execute(hopeless, here, retries=2)
    found = status(hopeless.root)
    assert (found.chunks_done, len(found.failed)) == (2, 1)
    (failed,) = found.failed
    assert len(hopeless.failures()[failed]) == 3, "one attempt and two more"
    (hopeless.data_path / "final_loss" / "c" / "1").rmdir()
    runners.execute(hopeless, here)
    assert status(hopeless.root).complete


def test_an_interrupt_leaves_a_folder_that_goes_on(tmp_path):
    """Ctrl-C in the middle: the claim is let go, what was finished stays."""
    plan = make_plan(tiny(), {"seed": {"range": 6}}, reduce={"samples": 4}, chunk=1, path="serial")
    folder = SweepFolder.create(tmp_path / "s", plan)

    def interrupted(done: int, total: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runners.execute(folder, here, progress=interrupted)
    assert status(folder.root).chunks_done == 2
    assert not folder.claims.active()
    runners.execute(folder, here)
    assert status(folder.root).complete


# Read by every process: a worker that has taken a chunk waits until it is interrupted.
HELD = """
import sys, time
from contextlib import contextmanager
from iclearn.core import interrupts

finishing = interrupts.finishing

@contextmanager
def held(*really):
    with finishing(*really):
        while "iclearn.sweeps.worker" in sys.orig_argv and not interrupts.requested():
            time.sleep(0.01)
        yield

interrupts.finishing = held
"""


@pytest.mark.slow
def test_interrupted_workers_let_go_of_their_chunks(tmp_path):
    plan = make_plan(tiny(), {"seed": {"range": 4}}, chunk=1, path="serial")
    folder = SweepFolder.create(tmp_path / "s", plan)
    code = f"""
from iclearn.sweeps import SweepFolder, runners
runners.execute(SweepFolder.open({str(folder.root)!r}), runners.processes(2))
"""
    (tmp_path / "sitecustomize.py").write_text(HELD)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": paths}
    sweeping = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, env=environment)
    try:
        deadline = time.time() + 600
        while len(folder.claims.active()) < 2:
            assert sweeping.poll() is None, "it ended before it was interrupted"
            assert time.time() < deadline
            time.sleep(0.1)
        pids = [json.loads(claim.path.read_text())["pid"] for claim in folder.claims.active().values()]
        sweeping.send_signal(signal.SIGINT)
        sweeping.wait(600)  # a worker ends what its program is at
    finally:
        sweeping.kill()
        sweeping.wait()
    assert not folder.claims.active()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids), "workers end with the sweep"
