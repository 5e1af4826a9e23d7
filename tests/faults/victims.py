"""Commands to be killed, and what each leaves behind when it is let finish."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
import yaml
import zarr

from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.models import Attention
from iclearn.sweeps import SweepFolder
from iclearn.tasks import Covariance, LinearRegression

# Chunks of a twentieth of a second, a checkpoint after each: a kill finds the run anywhere.
TRAIN = """
import sys
import iclearn
from iclearn.core.recipe import Recipe
import iclearn.engines.simulate as simulate
from iclearn.store import Store
simulate.CHUNK_SECONDS = 0.05
Store(sys.argv[2]).run(Recipe.from_json(open(sys.argv[1]).read()), checkpoint_seconds=0.0)
"""
Numbers = dict[str, str]


@dataclass(frozen=True)
class Victim:
    """One kind of work.

    Args:
        command: the words of the command that works in a folder; the same words resume it.
        read: name → digest of every number that the finished work left in the folder.
        leftovers: patterns of what must not be left there.
    """

    command: Callable[[Path], list[str]]
    read: Callable[[Path], Numbers]
    leftovers: tuple[str, ...] = ()


def digest(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def arrays(data: xr.Dataset) -> Numbers:
    return {str(name): digest(variable.values) for name, variable in data.variables.items()}


def verdicts(folder: Path) -> Numbers:
    rows = json.loads((folder / "verdicts.json").read_text())
    return {f"{row['figure']}.{row['claim']}": json.dumps([row["verdict"], row["measured"]]) for row in rows}


def stored_runs(folder: Path) -> Numbers:
    """Every array of every run and dataset below the folder."""
    return {
        f"{path.relative_to(folder)}/{name}": digest(array[...])
        for path in sorted(folder.rglob("*.zarr"))
        for name, array in zarr.open_group(path, mode="r").members(max_depth=None)
        if isinstance(array, zarr.Array)
    }


def iclearn(*words: Any) -> list[str]:
    return [sys.executable, "-m", "iclearn", *map(str, words)]


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


def training(rule: str) -> Victim:
    def command(folder: Path) -> list[str]:
        plan = folder.parent / f"{rule}.json"
        plan.write_text(recipe(rule).to_json())
        return [sys.executable, "-c", TRAIN, str(plan), str(folder)]

    return Victim(command, stored_runs, (".*",))


def sweeping(*words: str) -> Victim:
    base = Recipe(
        task=LinearRegression(dim=2, context_len=8, covariance=Covariance.power(1.0), num_prompts=None),
        model=Attention("separate_reduced", num_heads=2),
        init=Init(0.1),
        optimizer=Optimizer(lr=0.02),
        steps=20_000,
    )
    spec = {
        "name": "faults",
        "base": base.to_dict(),
        "axes": {"init.scale": [0.02, 0.05], "model.rank": [1, 2]},
        "seeds": 6,
        "reduce": {"levels": "zhang2025", "samples": 50, "curve": True},
        "chunk": 2,
    }

    def command(folder: Path) -> list[str]:
        path = folder.parent / "sweep.yaml"
        path.write_text(yaml.safe_dump(spec))
        return iclearn("sweep", path, "--out", folder, *words)

    def read(folder: Path) -> Numbers:
        finished = SweepFolder.open(folder)
        assert len(finished.entries()) == len(finished.plan.chunks)
        return arrays(finished.dataset())

    return Victim(command, read)


def reproducing(paper: str, *words: Any) -> Victim:
    return Victim(
        lambda folder: iclearn("reproduce", paper, *words, "--out", folder),
        lambda folder: verdicts(folder) | stored_runs(folder),
    )


VICTIMS = {
    "train, gradient descent": training("gd"),
    "train, Adam on fresh prompts": training("adam"),
    "train, from the shell": Victim(
        lambda folder: iclearn("train", "--model", "attnS", "--trainset_size", 500, "--epoch", 30_000, "--out", folder),
        stored_runs,
        (".*",),
    ),
    "reproduce": reproducing("zhang2025", "fig8", "--seeds", 1),
    "sweep in one process": sweeping("--path", "serial"),
    "sweep, worker processes": sweeping("--path", "serial", "--workers", "2"),
    "sweep on Dask": sweeping("--path", "serial", "--workers", "2", "--cluster", "local"),
}


def language_model(folder: Path) -> Victim:
    """The language-model experiment on a tiny model with random weights."""
    sys.path.append(str(Path(__file__).parents[1] / "llm"))
    import torch
    from synthetic_stsb import write_stsb
    from tiny_models import make_model, make_tokenizer

    model, data = folder / "model", folder / "stsb"
    data.mkdir()
    tokenizer = make_tokenizer("apart")
    tokenizer.save_pretrained(model)
    make_model("llama", len(tokenizer), torch).save_pretrained(model)
    write_stsb(data, np.random.default_rng(0))
    flags = ("--stsb", data, "--model", model, "--pairs", 10, "--shots", 2, "--features", "hidden", "--device", "cpu")
    return reproducing("xie2025-llm", *flags)
