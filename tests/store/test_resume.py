"""A killed run goes on where it stopped, bit for bit; a stored run is reused; nothing half-written is seen."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.core.spec import Spec
from iclearn.models import Attention
from iclearn.store import Store
from iclearn.tasks import LinearRegression

RUN = """
import signal, sys
from iclearn.core.spec import Spec
from iclearn.core import interrupts
from iclearn.store import Store
import iclearn.models, iclearn.tasks
interrupts.check = lambda *_: signal.pause()  # where the first checkpoint has been written
recipe = Spec.from_json(open(sys.argv[1]).read())
Store(sys.argv[2]).run(recipe, checkpoint_seconds=0.0)
"""


def recipe(rule: str) -> Recipe:
    fresh = rule == "adam"
    return Recipe(
        task=LinearRegression(dim=2, context_len=6, num_prompts=None if fresh else 200),
        model=Attention("separate", num_heads=2),
        init=Init(0.1),
        optimizer=Optimizer(rule, lr=1e-3, batch_size=64 if fresh else None),  # type: ignore[arg-type]
        steps=12_000 if fresh else 400_000,
        record=Record(weights=20, candidates=50),
    )


@pytest.mark.parametrize("rule", ["gd", "adam"])
def test_a_killed_run_goes_on_where_it_stopped(rule, tmp_path):
    plan = recipe(rule)
    assert Spec.from_json(plan.to_json()) == plan
    (tmp_path / "recipe.json").write_text(plan.to_json())
    store = Store(tmp_path / "runs")
    checkpoint = store.root / f".{plan.hash[:12]}.checkpoint.npz"
    process = subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path / "recipe.json"), str(store.root)])
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run must have been killed, not have finished"
    with np.load(checkpoint, allow_pickle=False) as saved:
        done = len(saved["loss"])
    assert 0 < done < plan.steps
    assert store.get(plan) is None
    seen = []
    resumed = store.run(plan, progress=lambda step, steps, loss: seen.append(step))
    assert seen[0] > done, "the resumed run starts after the checkpoint"
    undisturbed = Store(tmp_path / "other").run(plan)
    assert resumed.equals(undisturbed)
    assert sorted(p.name for p in store.root.iterdir()) == [store.path(plan).name]


def test_stored_runs_are_reused_and_never_edited(tmp_path):
    plan = recipe("gd").replace(steps=50)
    store = Store(tmp_path)
    first = store.run(plan)
    again = store.run(plan)
    assert again.provenance == first.provenance
    assert again.equals(first)
    renewed = store.run(plan, again=True)
    assert renewed.equals(first)
    assert renewed.provenance["created"] >= first.provenance["created"]


def test_a_damaged_checkpoint_costs_time_not_the_run(tmp_path):
    plan = recipe("gd").replace(steps=50)
    store = Store(tmp_path)
    (tmp_path / f".{plan.hash[:12]}.checkpoint.npz").write_bytes(b"PK\x03\x04 damaged")
    assert store.run(plan).equals(Store(tmp_path / "other").run(plan))


def test_a_run_that_diverges_is_returned_and_not_stored(tmp_path):
    plan = recipe("gd").replace(steps=500, optimizer__lr=50.0, init__scale=1.0)
    trace = Store(tmp_path).run(plan)
    assert trace.status.label == "diverged"
    assert trace.sentence == f"diverged at step {trace.status_step}"
    assert np.isfinite(trace.loss).all()
    assert list(tmp_path.iterdir()) == []
