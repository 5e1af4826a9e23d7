"""Runs on disk, found by the content of their recipe: a run is written once, whole, and never edited."""

from __future__ import annotations

import glob
import json
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.atomic import being_replaced, clear_leftovers, recover, set_aside
from ..core.checks import check_type
from ..core.dataset import Dataset
from ..core.errors import DamagedError, IclearnError, IclearnWarning
from ..core.lazy_names import import_beside
from ..core.reader import plain_value
from ..core.recipe import Recipe
from ..core.status import Status
from ..core.trace import MARK, READABLE, Trace
from ..engines.simulate import Progress, simulate
from .checkpoints import DiskCheckpoint

DEFAULT_ROOT = "runs"
REPLACED = 40  # times that a folder may be replaced while it is read


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
            parts = (self.recipe.get(name) for name in ("model", "task"))
            model, task = (str(part.get("kind")) if isinstance(part, dict) else "unknown" for part in parts)
            return model, task

    def values(self, *, changed: bool = False) -> dict[str, Any]:
        """The recipe's values by path, see `Spec.by_path`; none where no installed package knows its parts."""
        try:
            return Recipe.from_dict(self.recipe).by_path(changed=changed)
        except IclearnError:
            return {}

    def contains(self, word: str) -> bool:
        """Whether a word occurs in what tells this run from others: name, model, task, status, engine, `values`."""
        changed = (f"{path}={value}" for path, value in self.values(changed=True).items())
        return any(word in text for text in (self.run_id, *self.describe(), self.status, self.engine, *changed))

    def has(self, field: str, value: str) -> bool | None:
        """Whether a field of the recipe, by its path or the end of it, has this value; None where it has no such field.

        Args:
            field: ``task.noise``, or ``noise``.
            value: as JSON, or as the value prints.
        """
        ends = [v for path, v in self.values().items() if f".{path}".endswith(f".{field}")]
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = value
        return any(plain_value(v) == read or str(v) == value for v in ends) if ends else None


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
        check_type("the run asked for", recipe, Recipe, "Recipe(task=…, model=…), or Recipe.from_json(text)")
        return self.root / f"{recipe.hash[:12]}.zarr"

    def get(self, recipe: Recipe) -> Trace | None:
        """The stored run of this recipe; None where there is none. A damaged one raises `DamagedError`."""
        path = self.path(recipe)
        trace = self._load(path)
        if trace is not None and trace.provenance["recipe_hash"] != recipe.hash:
            raise IclearnError(f"{path} holds another recipe with the same first digits; use another folder")
        return trace

    def _load(self, path: Path) -> Trace | None:
        """The run in a folder, read again when another process replaced the folder in the meantime."""
        for _ in range(REPLACED):
            before = _inode(path)
            if before is None and not recover(path):
                if not being_replaced(path):
                    return None
                time.sleep(0.05)
                continue
            try:
                return Trace.load(path)
            except (IclearnError, OSError):
                if _inode(path) == before:
                    raise
        if recover(path, whoever=True):
            return Trace.load(path)
        raise IclearnError(f"{path} is replaced again and again by another process: try later")

    def sound(self, recipe: Recipe) -> Trace | None:
        """As `get`, but a damaged run is set aside under another name, with a warning, and counts as none."""
        try:
            return self.get(recipe)
        except DamagedError as error:
            kept = set_aside(self.path(recipe))
            warnings.warn(f"{error}; it is kept as {kept.name} and the run is made again", IclearnWarning, stacklevel=2)
            return None

    def put(self, recipe: Recipe, trace: Trace) -> Path:
        """Store a run as the one of this recipe, whole; several processes may do so at once.

        Args:
            recipe: whose run it is.
            trace: the run.

        Returns:
            Its folder.
        """
        return trace.save(self.path(recipe))

    def run(
        self, recipe: Recipe, *, dataset: Dataset | None = None, weights: Mapping[str, np.ndarray] | None = None,
        progress: Progress | bool | None = None, checkpoint_seconds: float = 30.0, again: bool = False,
    ) -> Trace:  # fmt: skip
        """The stored run, or a new one. A run that diverges is returned and not stored.

        Args:
            recipe: what to train.
            dataset: the arrays a `GivenData` task describes.
            weights: the arrays an ``init`` of scheme ``given`` describes.
            progress: as for `simulate`.
            checkpoint_seconds: how often the state of a run in progress is kept.
            again: train even if the run is stored. A stored run that other code made says so in
                `Trace.up_to_date`; this is how to make it anew.
        """
        self.path(recipe)
        if recipe.init.scheme == "given" and not recipe.init.digest:
            raise IclearnError("a stored run from given weights needs their digest: use Init.given(weights)")
        stored = self.sound(recipe)
        if stored is not None and not again:
            return stored
        path = self.path(recipe)
        keeper = DiskCheckpoint(self.root / f".{path.stem}.checkpoint.npz", checkpoint_seconds)
        if again:
            keeper.clear()
        clear_leftovers(path)
        import_beside("zarr")  # storing needs it
        trace = simulate(recipe, dataset=dataset, weights=weights, progress=progress, checkpoint=keeper)
        if trace.status is not Status.DIVERGED:
            self.put(recipe, trace)
        keeper.clear()
        return trace

    def find(self, name: str) -> Path:
        """A run by its path, its name, or enough first digits of it."""
        given = Path(name)
        if given.is_dir() and given.suffix == ".zarr":
            return given
        matches = sorted(self.root.glob(f"{glob.escape(given.name.removesuffix('.zarr'))}*.zarr"))
        if not matches:
            raise IclearnError(f"no stored run {name!r} in {self.root}; `iclearn list` shows what is there")
        if len(matches) > 1:
            raise IclearnError(f"{name!r} fits {len(matches)} runs in {self.root}: give more digits")
        return matches[0]

    def list(self, *where: str) -> list[Summary]:
        """The runs, newest first. Only the attributes and the last loss are read.

        Args:
            where: which runs: ``"task.noise=0.25"`` or ``"noise=0.25"`` is a field of the recipe and its value; a word
                without ``=`` is one that `Summary.contains`. Default: all.
        """
        return self.survey(*where)[0]

    def survey(self, *where: str, verify: bool = False) -> tuple[list[Summary], dict[Path, str]]:
        """The runs, newest first, and what else ends in ``.zarr``: its path, and why it cannot be listed.

        Args:
            where: which runs, see `list`.
            verify: read every run whole and verify its checksum.

        Returns:
            The runs, and path → reason for the others.
        """
        summaries, others = [], {}
        for path in sorted(self.root.glob("*.zarr")):
            try:
                if verify:
                    Trace.load(path)
                summaries.append(_summary(path))
            except IclearnError as error:
                others[path] = str(error)
        for word in where:
            field, equals, value = word.partition("=")
            fits = [s.has(field, value) if equals else s.contains(word) for s in summaries]
            if summaries and all(fit is None for fit in fits):
                raise IclearnError(
                    f"no run in {self.root} has a field {field!r}: `iclearn list --json` shows the fields"
                )
            summaries = [s for s, fit in zip(summaries, fits, strict=True) if fit]
        return sorted(summaries, key=lambda s: s.created, reverse=True), others


def _inode(path: Path) -> int | None:
    """What tells one folder from another that took its place; None where there is none."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _summary(path: Path) -> Summary:
    """What is known of the run in a folder without reading its numbers."""
    import zarr

    try:
        meta = json.loads((path / "zarr.json").read_text())["attributes"]
        known = meta.get(MARK) in READABLE
    except Exception:
        raise DamagedError(f"{path} is no stored run") from None
    if not known:
        raise DamagedError(f"{path} is no run of this version of iclearn: its format is {meta.get(MARK)}")
    try:
        made = json.loads(meta["provenance"])
        recipe, loss = made["recipe"], float(np.asarray(zarr.open_array(path / "loss", mode="r")[-1]))
        words = str(Status[meta["status"].upper()].label), loss, int(recipe["steps"]), str(made["engine"])
        return Summary(path.stem, path, *words, str(made["created"]), dict(recipe))
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DamagedError(f"{path} is a damaged run: {reason}") from None
