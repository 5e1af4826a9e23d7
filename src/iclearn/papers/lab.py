"""The Lab: where figures get their data. Stored once, never computed twice, and every fact noted for the card."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import resource
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import interrupts
from ..core.atomic import new_folder, set_aside
from ..core.errors import DamagedError, IclearnError, IclearnWarning
from ..core.hashing import digest_arrays
from ..core.processes import usable_cores
from ..core.provenance import numerics, numerics_of
from ..core.recipe import Recipe
from ..core.seal import read_sealed, sealed
from ..core.status import Status
from ..core.trace import Trace
from ..engines.counting import counted_runs
from ..engines.simulate import simulate_many
from ..store.locks import held
from ..store.runs import Store

if TYPE_CHECKING:
    import xarray as xr


@dataclass
class Facts:
    """What a figure's data cost and consists of, noted while it was collected."""

    runs: list[str] = field(default_factory=list)
    recipes: list[dict[str, Any]] = field(default_factory=list)
    datasets: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)  # SHA-256 of the numbers themselves, in the order of use
    seconds: float = 0.0
    simulated_seconds: float = 0.0
    trained: int = 0  # runs trained for this figure, whether or not they are stored one by one
    reused: int = 0
    stale: int = 0  # stored results that other code than today's made
    peak_memory_mb: float = 0.0
    devices: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)  # sentences on data that no recipe describes, and on its splits
    splits: list[str] = field(default_factory=list)

    def add(self, other: Facts) -> None:
        """What another page noted, after what is noted here."""
        for name in ("runs", "recipes", "datasets", "content", "data", "splits"):
            getattr(self, name).extend(getattr(other, name))
        self.devices += [device for device in other.devices if device not in self.devices]
        self.seconds += other.seconds
        self.simulated_seconds += other.simulated_seconds
        self.trained += other.trained
        self.reused += other.reused
        self.stale += other.stale
        self.peak_memory_mb = max(self.peak_memory_mb, other.peak_memory_mb)


class Lab:
    """Runs recipes and keeps datasets for one paper under one folder.

    Args:
        root: folder of the stored runs and datasets.
        seeds: how many seeds every figure uses (None: as many as planned, `fork`).
        offline: never simulate (``--draw-only``); missing data is an error that says what to run.
        workers: recipes run side by side (None: one per core).
        options: what this paper alone is given (its ``OPTIONS``), for its figures to read.
        refresh: compute again what is stored but was made by other code than today's.
    """

    def __init__(
        self,
        root: str | Path,
        *,
        seeds: int | None = None,
        offline: bool = False,
        workers: int | None = None,
        progress: Callable[[str], None] | None = None,
        options: Any = None,
        refresh: bool = False,
    ) -> None:
        if seeds is not None and seeds < 1:
            raise IclearnError(f"the number of seeds must be at least 1, not {seeds}")
        self.root = Path(root)
        self.store = Store(self.root / "runs")
        self.asked_seeds, self.planned_seeds = seeds, 6
        self.offline = offline
        self.workers = workers or usable_cores()
        self.progress = progress
        self.options, self.refresh = options, refresh
        self.facts = Facts()

    def fork(self, progress: Callable[[str], None] | None, seeds: int | None = None) -> Lab:
        """The same lab with a page of facts of its own, for a figure collected beside others, with its planned seeds."""
        other = copy.copy(self)
        other.facts, other.progress = Facts(), progress
        other.planned_seeds = seeds or self.planned_seeds
        return other

    @contextmanager
    def only_once(self, name: str) -> Iterator[None]:
        """Held while `name` is computed, so that figures collected side by side do not compute it twice."""
        if self.offline:
            yield
            return
        with held(self.root / ".locks" / hashlib.sha256(name.encode()).hexdigest()[:16]):
            yield

    @property
    def num_seeds(self) -> int:
        """How many seeds the figure has: those asked for, or those planned."""
        return self.asked_seeds or self.planned_seeds

    @property
    def seeds(self) -> range:
        """The seeds of a figure: 0, 1, 2, … in order, never chosen."""
        return range(self.num_seeds)

    def seeds_or(self, planned: int) -> range:
        """The seeds of a part of a figure: those asked for, or so many."""
        return range(self.asked_seeds or planned)

    def say(self, text: str) -> None:
        if self.progress is not None:
            self.progress(text)

    def run(self, recipes: Sequence[Recipe]) -> list[Trace]:
        """The traces of these recipes, in order: stored ones reused, the others simulated side by side."""
        begin = time.perf_counter()
        done = itertools.count(1)
        sampled = [recipe for recipe in recipes if recipe.engine in ("samples", "gram")]
        together: dict[str, Trace] = {}
        if len(sampled) > 1 and not self.offline and on_accelerator():  # a CPU has no room for that
            together = self.train_group(sampled)

        def one(recipe: Recipe) -> tuple[Trace, bool]:
            interrupts.check()
            with self.only_once(recipe.hash):
                trace = together.get(recipe.hash) or self._stored(recipe)
                made = trace is None
                if trace is None:
                    if self.offline:
                        raise IclearnError(
                            f"run {recipe.hash[:12]} is not stored yet: reproduce once without --draw-only"
                        )
                    trace = self.store.run(recipe, again=True)
            self.say(f"{next(done)}/{len(recipes)} runs")
            return trace, made

        if self.workers > 1 and len(recipes) > 1 and not self.offline:
            with ThreadPoolExecutor(self.workers) as pool:
                results = list(pool.map(one, recipes))
        else:
            results = [one(recipe) for recipe in recipes]
        facts = self.facts  # counted here, in one thread
        for recipe, (trace, made) in zip(recipes, results, strict=True):
            facts.runs.append(trace.run_id)
            facts.recipes.append(recipe.to_dict())
            facts.content.append(digest_of(trace.data))
            facts.trained += made
            facts.reused += not made and recipe.hash not in together
            facts.simulated_seconds += trace.provenance["wall_seconds"] if made else 0.0
            facts.stale += not trace.up_to_date
            if (device := trace.provenance["device"]) not in facts.devices:
                facts.devices.append(device)
        self._note(begin)
        return [trace for trace, _ in results]

    def _stored(self, recipe: Recipe) -> Trace | None:
        """The stored run, unless it was made by other code and is to be made again."""
        trace = self.store.get(recipe) if self.offline else self.store.sound(recipe)
        return None if trace is not None and self.refresh and not trace.up_to_date else trace

    def train_group(self, recipes: Sequence[Recipe]) -> dict[str, Trace]:
        """Train what is not stored yet, runs of one program side by side; each is stored when those of its program end.

        Args:
            recipes: the experiments.

        Returns:
            The hash of each recipe that was trained, and its Trace, also where it diverged and is not stored.
        """
        if self.offline:
            return {}
        made: dict[str, Trace] = {}
        with self.only_once(f"group of {recipes[0].hash}"):
            missing = [recipe for recipe in recipes if self._stored(recipe) is None]

            def keep(index: int, trace: Trace) -> None:
                if trace.status is not Status.DIVERGED:
                    self.store.put(missing[index], trace)
                self.facts.simulated_seconds += trace.provenance["wall_seconds"]
                made[missing[index].hash] = trace
                self.say(f"{len(made)}/{len(missing)} runs")

            def between(done: int, total: int) -> None:
                interrupts.check()

            simulate_many(missing, progress=between, finished=keep)
        self.facts.trained += len(missing)
        return made

    def concurrently(self, *calls: Callable[[Lab], Any], at_once: int | None = None) -> list[Any]:
        """The results of several collections, side by side where there are cores for it.

        Each is given a page of its own; the facts are put together in the order of the calls, whoever ends first.

        Args:
            at_once: how many at a time (None: all of them, on two cores one).
        """
        pages = [self.fork(self.progress) for _ in calls]
        with ThreadPoolExecutor(at_once or (len(calls) if self.workers > 2 else 1)) as pool:
            futures = [pool.submit(call, page) for call, page in zip(calls, pages, strict=True)]
            results = [future.result() for future in futures]
        for page in pages:
            self.facts.add(page.facts)
        return results

    def dataset(self, name: str, parameters: dict[str, Any], compute: Callable[[], xr.Dataset]) -> xr.Dataset:
        """A dataset computed once for these parameters (plain JSON values) and stored under `name`."""
        begin = time.perf_counter()
        text = json.dumps(parameters, sort_keys=True)
        path = self._dataset_path(name, parameters)
        with self.only_once(path.name):
            stored = self._stored_dataset(path)
            fresh = stored is not None and numerics_of(stored.attrs) == numerics()
            if stored is not None and (fresh or not self.refresh or self.offline):
                found = stored
                self.facts.reused += 1
                self.facts.stale += not fresh
                self.facts.trained += int(found.attrs.get("trained", 0))
            elif self.offline:
                raise IclearnError(f"dataset {name} is not stored yet: reproduce once without --draw-only")
            else:
                self.say(name)
                with counted_runs() as trained:
                    found = storable(compute()).assign_attrs(parameters=text, numerics=numerics())
                found.attrs["trained"] = trained.count
                self.facts.trained += trained.count
                with new_folder(path) as temporary:
                    sealed(found).to_zarr(temporary, mode="w", consolidated=False)
                found = read_sealed(path, "dataset")
                self.facts.simulated_seconds += time.perf_counter() - begin
        self.facts.datasets.append(path.name)
        self.facts.content.append(digest_of(found))
        self._note(begin)
        return found

    def is_stored(self, name: str, parameters: dict[str, Any]) -> bool:
        """Whether `dataset` of these arguments would find it stored, and need not be made again."""
        stored = self._stored_dataset(self._dataset_path(name, parameters))
        return stored is not None and (not self.refresh or numerics_of(stored.attrs) == numerics())

    def _dataset_path(self, name: str, parameters: dict[str, Any]) -> Path:
        text = json.dumps(parameters, sort_keys=True)
        digest = hashlib.sha256(f"{name}{text}".encode()).hexdigest()[:12]
        return self.root / "data" / f"{name}-{digest}.zarr"

    def _stored_dataset(self, path: Path) -> xr.Dataset | None:
        """The dataset in a folder; a damaged one is set aside, with a warning, and counts as none."""
        if not path.is_dir():
            return None
        try:
            return read_sealed(path, "dataset")
        except DamagedError as error:
            if self.offline:
                raise
            kept = set_aside(path)
            warnings.warn(f"{error}; it is kept as {kept.name} and made again", IclearnWarning, stacklevel=2)
            return None

    def _note(self, begin: float) -> None:
        self.facts.seconds += time.perf_counter() - begin
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.facts.peak_memory_mb = max(self.facts.peak_memory_mb, kilobytes / 1024)


def on_accelerator() -> bool:
    import jax

    return jax.default_backend() != "cpu"


def digest_of(data: xr.Dataset) -> str:
    """SHA-256 of the names, shapes and numbers of a dataset."""
    return digest_arrays((name, data[name].values) for name in sorted(map(str, data.data_vars)))


def storable(data: xr.Dataset) -> xr.Dataset:
    """Strings of any length as Zarr specifies them; numpy's strings of fixed length have no specification there."""
    fixed = [name for name in data.variables if data[name].dtype.kind == "U"]
    return data.assign({name: data[name].astype(object) for name in fixed})
