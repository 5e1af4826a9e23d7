"""Runs on disk, found by the content of their recipe: a run is written once, whole, and never edited."""

from __future__ import annotations

import json
import shutil
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.atomic import new_file
from ..core.dataset import Dataset
from ..core.errors import IclearnError
from ..core.recipe import Recipe
from ..core.status import Status
from ..core.trace import Trace
from ..engines.simulate import Progress, simulate

DEFAULT_ROOT = "runs"


@dataclass(frozen=True)
class Summary:
    """What is known of a stored run without reading its numbers: one line of `iclearn list`.

    Args:
        run_id: first 12 digits of the recipe's hash.
        path: its folder.
        status: ``finished`` or ``converged``.
        final_loss: the last training loss.
        steps: of the recipe.
        engine: that computed it.
        created: when, in UTC.
        recipe: as plain values.

    For an example see `Store`.
    """

    run_id: str
    path: Path
    status: str
    final_loss: float
    steps: int
    engine: str
    created: str
    recipe: dict[str, Any]

    def describe(self) -> tuple[str, str]:
        """Model and task, a line each; their kinds where no installed package knows them."""
        try:
            recipe = Recipe.from_dict(self.recipe)
            return recipe.model.describe(), recipe.task.describe()
        except IclearnError:
            return str(self.recipe["model"].get("kind")), str(self.recipe["task"].get("kind"))


class Store:
    """A folder of runs. `run(recipe)` gives the stored Trace, or simulates, stores and gives it.

    A run is named by the first 12 digits of its recipe's hash; an interrupted one leaves a checkpoint from which
    the same recipe goes on, bit for bit.

    Args:
        root: the folder; it is made when the first run is stored.

    >>> import tempfile
    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None)
    >>> recipe = icl.Recipe(task=task, model=icl.Attention("merged_reduced"), steps=5)
    >>> store = Store(tempfile.mkdtemp())
    >>> trace = store.run(recipe)
    >>> store.get(recipe).equals(trace), [summary.run_id == trace.run_id for summary in store.list()]
    (True, [True])
    """

    def __init__(self, root: str | Path = DEFAULT_ROOT) -> None:
        self.root = Path(root)

    def path(self, recipe: Recipe) -> Path:
        """Where the run of this recipe is, or would be."""
        return self.root / f"{recipe.hash[:12]}.zarr"

    def get(self, recipe: Recipe) -> Trace | None:
        """The stored run of this recipe; None where there is none."""
        path = self.path(recipe)
        if not path.is_dir():
            return None
        trace = Trace.load(path)
        if trace.provenance["recipe_hash"] != recipe.hash:
            raise IclearnError(f"{path} holds another recipe with the same first digits; use another folder")
        return trace

    def run(
        self, recipe: Recipe, *, dataset: Dataset | None = None, weights: Mapping[str, np.ndarray] | None = None,
        progress: Progress | None = None, checkpoint_seconds: float = 30.0, again: bool = False,
    ) -> Trace:  # fmt: skip
        """The stored run, or a new one. A run that diverges is returned and not stored.

        Args:
            recipe: what to train.
            dataset: the arrays a `GivenData` task describes.
            weights: the arrays an ``init`` of scheme ``given`` describes.
            progress: called between chunks with (step, steps, loss).
            checkpoint_seconds: how often the state of a run in progress is kept.
            again: train even if the run is stored. A stored run that other code made says so in
                `Trace.up_to_date`; this is how to make it anew.
        """
        if recipe.init.scheme == "given" and not recipe.init.digest:
            raise IclearnError("a stored run from given weights needs their digest: use Init.given(weights)")
        if not again and (stored := self.get(recipe)) is not None:
            return stored
        keeper = DiskCheckpoint(self.root / f".{recipe.hash[:12]}.checkpoint.npz", checkpoint_seconds)
        if again:
            keeper.clear()
        trace = simulate(recipe, dataset=dataset, weights=weights, progress=progress, checkpoint=keeper)
        if trace.status is not Status.DIVERGED:
            trace.save(self.path(recipe))
        keeper.clear()
        return trace

    def find(self, name: str) -> Path:
        """A run by its path, its name, or enough first digits of it."""
        given = Path(name)
        if given.is_dir() and given.suffix == ".zarr":
            return given
        matches = sorted(self.root.glob(f"{given.name.removesuffix('.zarr')}*.zarr"))
        if not matches:
            raise IclearnError(f"no stored run {name!r} in {self.root}; `iclearn list` shows what is there")
        if len(matches) > 1:
            raise IclearnError(f"{name!r} fits {len(matches)} runs in {self.root}: give more digits")
        return matches[0]

    def list(self) -> list[Summary]:
        """All runs, newest first. Only the attributes are read."""
        import zarr

        summaries = []
        for path in self.root.glob("*.zarr"):
            try:
                meta = json.loads((path / "zarr.json").read_text())["attributes"]
                made = json.loads(meta["provenance"])
                loss = float(np.asarray(zarr.open_array(path / "loss", mode="r")[-1]))
            except (OSError, KeyError, ValueError):
                continue  # not one of ours
            recipe = made["recipe"]
            parts = (path.stem, path, meta["status"], loss, recipe["steps"], made["engine"], made["created"], recipe)
            summaries.append(Summary(*parts))
        return sorted(summaries, key=lambda s: s.created, reverse=True)


class DiskCheckpoint:
    """The state of a run in progress, in one file replaced whole; written at most every `seconds`.

    `engines.simulate.Checkpointer` says what the methods are for.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self._last = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.seconds

    def load(self) -> dict[str, np.ndarray] | None:
        if not self.path.is_file():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (OSError, ValueError, zipfile.BadZipFile):
            return None  # a damaged checkpoint costs time, not the run

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        with new_file(self.path) as temporary:
            np.savez(temporary, **arrays)  # type: ignore[arg-type]
        self._last = time.monotonic()

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        for left in self.path.parent.glob(f".{self.path.name}.*.partial.npz"):
            left.unlink(missing_ok=True)
        for left in self.path.parent.glob(f".{self.path.name[1:13]}.zarr.*"):
            shutil.rmtree(left, ignore_errors=True)
