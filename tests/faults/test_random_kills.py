"""SIGKILL at random moments, again and again, then the same command: nothing is lost, no number differs.

    pytest -m faults                    # 240 kills
    ICLEARN_KILLS=2 pytest -m faults    # a few of each kind

Each kind of work is done once undisturbed. Then it is begun in another folder and killed, with all its processes, at
moments drawn from the time the undisturbed one took; once it finishes the folder is compared and emptied, and this goes
on until it was killed often enough.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from iclearn.core.trace import Trace

pytestmark = pytest.mark.faults

KILLS = int(os.environ.get("ICLEARN_KILLS", "30"))  # of each kind
LIMIT = 600
CHECKPOINTS = """
import sys
from iclearn.core.recipe import Recipe
from iclearn.store import Store
import iclearn.engines.simulate as simulate
simulate.CHUNK_SECONDS = 0.05
Store("runs").run(Recipe.from_json(sys.argv[1]), checkpoint_seconds=0.2)
"""
GD = {"task": {"dim": 2, "context_len": 6, "num_prompts": 200}, "model": {"family": "separate", "num_heads": 2},
      "init": 0.1, "steps": 400_000, "record": {"weights": 20, "candidates": 50}}  # fmt: skip
ADAM = {
    **GD,
    "optimizer": {"rule": "adam", "batch_size": 64},
    "steps": 12_000,
    "task": {"dim": 2, "num_prompts": "inf"},
}
SWEEP = {
    "base": {"task": {"dim": 2, "context_len": 8, "num_prompts": "inf"}, "model": {"family": "separate_reduced"},
             "init": 0.1, "steps": 40_000},
    "axes": {"init.scale": [0.02, 0.05], "model.rank": [1, 2]}, "seeds": 4, "chunk": 2,
    "reduce": {"levels": "zhang2025", "samples": 50, "curve": True},
}  # fmt: skip
COMMAND = [sys.executable, "-m", "iclearn"]
SWEEPING = [*COMMAND, "sweep", "grid.yaml", "--out", "s", "--path", "serial"]
WORK = {
    "train": [*COMMAND, "train", "--steps", "50000", "--dim", "3", "--prompts", "500"],
    "checkpoints of gradient descent": [sys.executable, "-c", CHECKPOINTS, json.dumps(GD)],
    "checkpoints of adam": [sys.executable, "-c", CHECKPOINTS, json.dumps(ADAM)],
    "reproduce": [*COMMAND, "reproduce", "zhang2025", "fig4", "--seeds", "1", "--out", "r"],
    "sweep": SWEEPING,
    "sweep with workers": [*SWEEPING, "--workers", "2"],
    "sweep on Dask": [*SWEEPING, "--cluster", "local", "--workers", "2"],
    "language model": [*COMMAND, "reproduce", "xie2025-llm", "--stsb", "../stsb", "--models", "../model", "--out", "r",
                       "--pairs", "30", "--shots", "2", "--device", "cpu"],
}  # fmt: skip


def prepare(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kind of work reads: a tiny language model with random weights, and files of STS-Benchmark's shape."""
    if "Dask" in kind:
        pytest.importorskip("dask.distributed")
    if kind == "language model":
        torch = pytest.importorskip("torch")
        pytest.importorskip("transformers")
        monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "llm"))
        from synthetic_stsb import write_stsb
        from tiny_models import make_model, make_tokenizer

        tokenizer = make_tokenizer("apart")
        tokenizer.save_pretrained(folder / "model")
        make_model("llama", len(tokenizer), torch).save_pretrained(folder / "model")
        (folder / "stsb").mkdir()
        write_stsb(folder / "stsb", np.random.default_rng(0))


def begin(words: list[str], folder: Path) -> subprocess.Popen:
    folder.mkdir(exist_ok=True)
    (folder / "grid.yaml").write_text(json.dumps(SWEEP))
    with open(folder / "output.log", "a") as log:
        return subprocess.Popen(words, cwd=folder, stdout=log, stderr=log, start_new_session=True)


def end(process: subprocess.Popen) -> None:
    """Kill a process and all it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def assert_same(one: Path, other: Path) -> None:
    """Every stored run, dataset and verdict of two folders."""
    names = sorted(str(p.relative_to(one)) for p in one.rglob("*.zarr"))
    assert names
    assert names == sorted(str(p.relative_to(other)) for p in other.rglob("*.zarr"))
    for name in names:
        if "/data/" in f"/{name}" or name.endswith("data.zarr"):
            first, second = (xr.open_zarr(root / name, consolidated=False).load() for root in (one, other))
            assert first.equals(second), name
        else:
            assert Trace.load(one / name) == Trace.load(other / name), name
    for replies in one.rglob("replies-*.jsonl"):  # of a language model, in the order they came
        first, second = (sorted((root / replies.relative_to(one)).read_text().splitlines()) for root in (one, other))
        assert first == second, replies.name
    for verdicts in one.rglob("verdicts.json"):
        assert verdicts.read_text() == (other / verdicts.relative_to(one)).read_text()
    left = [p for p in other.rglob(".*") if ".partial" in p.name or p.name.endswith(".old")]
    assert len(left) < 40, f"leftovers pile up: {left[:5]}"


@pytest.mark.parametrize("kind", WORK)
def test_nothing_is_lost_and_no_number_differs(kind, tmp_path, monkeypatch):
    prepare(kind, tmp_path, monkeypatch)
    rng = random.Random(kind)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    start = time.monotonic()
    process = begin(WORK[kind], whole)
    assert process.wait(LIMIT) in (0, 1), (whole / "output.log").read_text()[-2000:]
    usual = time.monotonic() - start
    kills = 0
    while kills < KILLS:
        process = begin(WORK[kind], broken)
        try:
            code = process.wait(rng.uniform(0, 1.3 * usual) if kills < KILLS else LIMIT)
        except subprocess.TimeoutExpired:
            end(process)
            kills += 1
            continue
        assert code in (0, 1), (broken / "output.log").read_text()[-2000:]
        assert_same(whole, broken)
        shutil.rmtree(broken)
    process = begin(WORK[kind], broken)
    assert process.wait(LIMIT) in (0, 1), (broken / "output.log").read_text()[-2000:]
    assert_same(whole, broken)
