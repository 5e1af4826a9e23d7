"""A sweep on disk: its plan, one Zarr dataset that fills up while it runs, and a ledger of what is finished.

    plan.json            the base, the axes, the chunks, versions
    data.zarr/           the dataset; a sweep's chunk is one Zarr chunk of every variable, so no two write the same file
    ledger/ID.json       chunk ID is finished: the SHA-256 of its numbers, who computed them, when, how long
    claims/  failures/   who is at work; why attempts failed, as text

A chunk is finished once its ledger entry is there. That is written last, whole or not at all, so a process killed at
any moment leaves a folder from which the sweep goes on.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.atomic import new_folder, write_text
from ..core.errors import DamagedError, IclearnError
from ..core.hashing import digest_arrays
from ..core.provenance import now, versions
from .allocate import allocate, restore
from .leases import STALE_SECONDS, Claims
from .plan import Chunk, Plan
from .schema import Variable, schema

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Entry:
    """A ledger entry: chunk `chunk` of `runs` runs is finished.

    Args:
        digest: SHA-256 of its numbers.
        seconds: how long it took.
        finished: when it was finished, as `time.time` counts.
        owner: the process that computed it, in words.
        path: which code trained its runs (empty in folders written before this was kept).
    """

    chunk: str
    runs: int
    digest: str
    seconds: float
    finished: float
    owner: str
    path: str = ""


class SweepFolder:
    """The folder of one sweep, opened: the only truth about what is finished.

    Args:
        root: the folder.
        plan: what is computed there.
        stale: seconds without a heartbeat after which a claim of another machine is given up.

    >>> import tempfile
    >>> from iclearn.sweeps import make_plan
    >>> base = {"task": {"dim": 2, "num_prompts": "inf"}, "model": {"family": "separate_reduced"}, "steps": 20}
    >>> folder = SweepFolder.create(f"{tempfile.mkdtemp()}/sweep", make_plan(base, seeds=2, chunk=1))
    >>> sorted(path.name for path in folder.root.iterdir())
    ['claims', 'data.zarr', 'failures', 'ledger', 'plan.json']
    >>> folder.dataset()["status"].values.tolist(), len(folder.entries()), len(folder.begin_session())
    ([-1, -1], 0, 2)
    """

    def __init__(self, root: Path, plan: Plan, *, stale: float = STALE_SECONDS) -> None:
        self.root, self.plan = root, plan
        self.data_path = root / "data.zarr"
        self.claims = Claims(root / "claims", stale=stale)

    @staticmethod
    def create(root: str | Path, plan: Plan) -> SweepFolder:
        """The folder for this plan: a new one, or the one where the same sweep was begun (its chunking stays).

        A folder whose plan has fewer values along some axes is extended: finished chunks stay.
        """
        root = Path(root)
        if (root / "plan.json").exists():
            folder = SweepFolder.open(root)
            return folder if folder.plan.hash == plan.hash else folder._extended(plan)
        if root.exists() and any(root.iterdir()):
            raise IclearnError(f"{root} is not empty and holds no sweep: choose another folder with --out")
        try:
            with new_folder(root, replace=False) as temporary:
                allocate(temporary / "data.zarr", plan)
                for name in ("ledger", "claims", "failures"):
                    (temporary / name).mkdir()
                (temporary / "plan.json").write_text(_plan_text(plan))
        except FileExistsError:  # several processes began the same sweep: the first one's folder is everybody's
            return SweepFolder.create(root, plan)
        return SweepFolder(root, plan)

    @staticmethod
    def open(root: str | Path, *, stale: float = STALE_SECONDS) -> SweepFolder:
        """The folder of a sweep that was begun; see the class for the arguments."""
        path = Path(root) / "plan.json"
        try:
            return SweepFolder(Path(root), Plan.from_dict(json.loads(path.read_text())), stale=stale)
        except FileNotFoundError:
            raise IclearnError(f"no sweep in {root}: it has no plan.json") from None
        except KeyError as error:
            raise DamagedError(f"{path} lacks {error}: it is not the plan of a sweep") from None
        except (IclearnError, OSError):
            raise
        except Exception:  # no JSON, or JSON of another shape
            raise DamagedError(f"{path} is damaged: start the sweep in another folder") from None

    def _extended(self, plan: Plan) -> SweepFolder:
        """This folder with a plan that adds values at the end of axes; `begin_session` lengthens the dataset."""
        longer = self.plan.extended_to(plan)
        if longer is None or str(schema(longer)) != str(schema(self.plan)):  # as text: NaN equals nothing
            appended = "a sweep is extended by appending values to its axes and changing nothing else"
            raise IclearnError(
                f"{self.root} holds another sweep ({self.plan.name}): choose another folder with --out; {appended}"
            )
        if self.claims.active():
            there = SweepFolder.open(self.root)
            if there.plan.hash == plan.hash:  # another process has extended it meanwhile
                return there
            raise IclearnError(f"{self.root} is being computed: extend the sweep when that has ended")
        write_text(self.root / "plan.json", _plan_text(longer))
        return SweepFolder(self.root, longer)

    def dataset(self) -> xr.Dataset:
        """The result so far, read when it is used; what is missing is NaN, its status -1."""
        import xarray as xr

        return xr.open_zarr(self.data_path, consolidated=False, chunks=None)

    # chunks

    def _arrays(self, mode: Any) -> dict[str, Any]:
        """Every variable of the dataset as a Zarr array."""
        import zarr

        group = zarr.open_group(self.data_path, mode=mode)
        return {name: group[name] for name in schema(self.plan)}

    def _ledger(self, chunk: str) -> Path:
        return self.root / "ledger" / f"{chunk}.json"

    def write(self, chunk: Chunk, arrays: dict[str, np.ndarray], seconds: float, path: str = "") -> Entry:
        """Store a chunk's numbers and then enter it in the ledger.

        Args:
            chunk: which one.
            arrays: name → array (run, …) of every variable in `dataset.schema`.
            seconds: how long they took to compute.
            path: which code trained the runs.
        """
        shape = tuple(end - first for first, end in chunk.box)
        kept = schema(self.plan)  # in a folder of an earlier version slow stretches are called plateaus
        blocks = {name: _fitted(arrays[name.replace("plateau_", "slow_")], v, shape) for name, v in kept.items()}
        for name, stored in self._arrays("r+").items():
            stored[_region(chunk)] = blocks[name]
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        entry = Entry(chunk.id, chunk.runs, _digest(blocks), seconds, time.time(), owner, path)
        write_text(self._ledger(chunk.id), json.dumps(vars(entry)) + "\n")
        return entry

    def entry(self, chunk: str) -> Entry | None:
        """The ledger entry of a finished chunk; a damaged one counts as none, so that the chunk is computed again."""
        try:
            return Entry(**json.loads(self._ledger(chunk).read_text()))
        except (FileNotFoundError, TypeError, ValueError):
            return None

    def entries(self) -> dict[str, Entry]:
        """Chunk → ledger entry, of all finished chunks."""
        read = (self.entry(path.stem) for path in (self.root / "ledger").glob("[!.]*.json"))
        return {entry.chunk: entry for entry in read if entry is not None and entry.chunk in self.plan.chunk_by_id}

    def sound(self, chunk: Chunk) -> bool:
        """Whether the stored numbers of a finished chunk are those that were entered."""
        entry = self.entry(chunk.id)
        if entry is None:
            return False
        try:
            blocks = {name: np.asarray(stored[_region(chunk)]) for name, stored in self._arrays("r").items()}
        except Exception:
            return False  # cannot be decoded
        return _digest(blocks) == entry.digest

    def verify(self) -> list[Chunk]:
        """Check every finished chunk against its hash; unsound ones are struck from the ledger and returned."""
        unsound = [c for c in self.plan.chunks if self._ledger(c.id).exists() and not self.sound(c)]
        for chunk in unsound:
            self._ledger(chunk.id).unlink(missing_ok=True)
        return unsound

    def begin_session(self) -> list[Chunk]:
        """What is left to do, every attempt counted afresh; leftovers of killed processes are cleared away."""
        restore(self.data_path, self.plan)
        self.verify()
        finished, active = self.entries(), self.claims.active()
        left = [chunk for chunk in self.plan.chunks if chunk.id not in finished]
        for chunk in left:
            if chunk.id not in active:
                for claim in self.claims.generations(chunk.id):
                    if not claim.failed():
                        self.note_failure(chunk.id, claim.generation, f"{claim.owner()} died at work on this chunk")
                    claim.release()
        if not active:
            partial = [p for name in ("ledger", "claims") for p in (self.root / name).glob(".*.partial*")]
            for path in [*partial, *self.data_path.rglob("*.partial")]:
                path.unlink(missing_ok=True)
        return left

    def note_failure(self, chunk: str, attempt: int, text: str) -> None:
        """Keep the text of a failed attempt; its last line is the reason."""
        path = self.root / "failures" / f"{chunk}.{int(time.time())}.{attempt}.txt"
        path.write_text(text.rstrip() + "\n")

    def failures(self, chunk: str = "*") -> dict[str, list[str]]:
        """Chunk → the text of every failed attempt, oldest first, of all chunks or one."""
        texts: dict[str, list[str]] = {}
        for path in sorted((self.root / "failures").glob(f"{chunk}.*.txt"), key=lambda p: p.stat().st_mtime):
            texts.setdefault(path.name.partition(".")[0], []).append(path.read_text())
        return texts

    def reason(self, chunk: str) -> str:
        """Why the last attempt on a chunk failed, in one line."""
        return self.failures(chunk).get(chunk, ["no reason was noted"])[-1].strip().splitlines()[-1]


def _plan_text(plan: Plan) -> str:
    made = {**versions("jax", "numpy"), "created": now()}
    return json.dumps({**plan.to_dict(), "made": made}, indent=1) + "\n"


def _region(chunk: Chunk) -> tuple[slice, ...]:
    return tuple(slice(first, end) for first, end in chunk.box)


def _digest(blocks: dict[str, np.ndarray]) -> str:
    """SHA-256 of a chunk's numbers. All NaNs count as one: which one it is, is not kept by every codec."""
    return digest_arrays(sorted(blocks.items()), one_nan=True)


def _fitted(array: np.ndarray, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    """Runs in the shape of their box; dimensions that are longer elsewhere in the sweep are padded."""
    block = np.full((*shape, *variable.sizes), variable.fill, variable.dtype)
    given = np.nan_to_num(array) if block.dtype.kind == "i" else np.asarray(array)  # no NaN among whole numbers
    given = given.reshape(*shape, *np.shape(array)[1:])
    block[(..., *(slice(0, size) for size in given.shape[len(shape) :]))] = given
    return block
