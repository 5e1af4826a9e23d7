"""A sweep on disk: its plan, one Zarr dataset that fills up while it runs, and a ledger of what is finished.

    plan.json            the base, the axes, the chunks, versions
    data.zarr/           the dataset; a sweep's chunk is one Zarr chunk of every variable, so no two write the same file
    ledger/ID.json       chunk ID is finished: the SHA-256 of its numbers, who computed them, when, how long
    claims/  failures/   who is at work; why attempts failed, as text

A chunk is finished once its ledger entry is there. That is written last, whole or not at all, so a process killed at
any moment leaves a folder from which the sweep goes on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import socket
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import IclearnError
from .dataset import NOT_RUN, STATUS, Variable, coordinates, schema
from .leases import STALE_SECONDS, Claims
from .plan import Chunk, Plan

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Entry:
    """A ledger entry."""

    chunk: str
    runs: int
    digest: str
    seconds: float
    finished: float
    owner: str


class SweepFolder:
    """The folder of one sweep, opened."""

    def __init__(self, root: Path, plan: Plan, *, stale: float = STALE_SECONDS) -> None:
        self.root, self.plan = root, plan
        self.claims = Claims(root / "claims", stale=stale)

    @property
    def data_path(self) -> Path:
        return self.root / "data.zarr"

    @staticmethod
    def create(root: str | Path, plan: Plan) -> SweepFolder:
        """The folder for this plan: a new one, or the one where the same sweep was begun (its chunking stays)."""
        root = Path(root)
        if (root / "plan.json").exists():
            folder = SweepFolder.open(root)
            if folder.plan.hash != plan.hash:
                raise IclearnError(f"{root} holds another sweep ({folder.plan.name}): choose another folder with --out")
            return folder
        if root.exists() and any(root.iterdir()):
            raise IclearnError(f"{root} is not empty and holds no sweep: choose another folder with --out")
        root.parent.mkdir(parents=True, exist_ok=True)
        temporary = root.with_name(f".{root.name}.{uuid.uuid4().hex[:8]}.partial")
        try:
            _allocate(temporary / "data.zarr", plan)
            for name in ("ledger", "claims", "failures"):
                (temporary / name).mkdir()
            (temporary / "plan.json").write_text(json.dumps({**plan.to_dict(), "made": _versions()}, indent=1) + "\n")
            if root.exists():
                root.rmdir()
            os.rename(temporary, root)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return SweepFolder(root, plan)

    @staticmethod
    def open(root: str | Path, *, stale: float = STALE_SECONDS) -> SweepFolder:
        root = Path(root)
        try:
            data = json.loads((root / "plan.json").read_text())
        except FileNotFoundError:
            raise IclearnError(f"no sweep in {root}: it has no plan.json") from None
        except json.JSONDecodeError:
            raise IclearnError(f"{root / 'plan.json'} is damaged: start the sweep in another folder") from None
        try:
            return SweepFolder(root, Plan.from_dict(data), stale=stale)
        except KeyError as error:
            raise IclearnError(f"{root / 'plan.json'} lacks {error}: it is not the plan of a sweep") from None

    def dataset(self) -> xr.Dataset:
        """The result so far, read when it is used; what is missing is NaN, its status -1."""
        import xarray as xr

        return xr.open_zarr(self.data_path, consolidated=False, chunks=None)

    # chunks

    def region(self, chunk: Chunk) -> tuple[slice, ...]:
        return tuple(slice(first, end) for first, end in chunk.box)

    def write(self, chunk: Chunk, arrays: dict[str, np.ndarray], seconds: float) -> Entry:
        """Store a chunk's numbers (leading axis: its runs) and then enter it in the ledger."""
        import zarr

        variables = schema(self.plan)
        shape = tuple(end - first for first, end in chunk.box)
        blocks = {name: _fitted(arrays[name], v, shape) for name, v in variables.items()}
        group = zarr.open_group(self.data_path, mode="r+")
        for name, block in blocks.items():
            array = group[name]
            assert isinstance(array, zarr.Array)
            array[self.region(chunk)] = block
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        entry = Entry(chunk.id, chunk.runs, digest_of(blocks), seconds, time.time(), owner)
        path = self.root / "ledger" / f"{chunk.id}.json"
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
        temporary.write_text(json.dumps(vars(entry)) + "\n")
        os.replace(temporary, path)
        return entry

    def entry(self, chunk: str) -> Entry | None:
        """The ledger entry of a finished chunk."""
        path = self.root / "ledger" / f"{chunk}.json"
        try:
            return Entry(**json.loads(path.read_text()))
        except FileNotFoundError:
            return None
        except (TypeError, ValueError):
            return None  # a damaged entry: the chunk is computed again

    def entries(self) -> dict[str, Entry]:
        found = (self.entry(path.stem) for path in (self.root / "ledger").glob("*.json"))
        known = self.plan.chunk_by_id
        return {entry.chunk: entry for entry in found if entry is not None and entry.chunk in known}

    def sound(self, chunk: Chunk) -> bool:
        """Whether the stored numbers of a finished chunk are those that were entered."""
        import zarr

        entry = self.entry(chunk.id)
        if entry is None:
            return False
        try:
            group = zarr.open_group(self.data_path, mode="r")
            blocks = {}
            for name in schema(self.plan):
                array = group[name]
                assert isinstance(array, zarr.Array)
                blocks[name] = np.asarray(array[self.region(chunk)])
        except Exception:
            return False  # cannot be decoded
        return digest_of(blocks) == entry.digest

    def verify(self) -> list[Chunk]:
        """Check every finished chunk against its hash; unsound ones are struck from the ledger and returned."""
        unsound = [
            c for c in self.plan.chunks if (self.root / "ledger" / f"{c.id}.json").exists() and not self.sound(c)
        ]
        for chunk in unsound:
            (self.root / "ledger" / f"{chunk.id}.json").unlink(missing_ok=True)
        return unsound

    def begin_session(self) -> list[Chunk]:
        """What is left to do, every attempt counted afresh; leftovers of killed processes are cleared away."""
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
            for path in [*self.root.glob("ledger/.*.partial"), *self.data_path.rglob("*.partial")]:
                path.unlink(missing_ok=True)
        return left

    def note_failure(self, chunk: str, attempt: int, text: str) -> None:
        path = self.root / "failures" / f"{chunk}.{int(time.time())}.{attempt}.txt"
        path.write_text(text.rstrip() + "\n")

    def failures(self) -> dict[str, list[str]]:
        """Chunk → the text of every failed attempt, oldest first."""
        found: dict[str, list[str]] = {}
        for path in sorted((self.root / "failures").glob("*.txt"), key=lambda p: p.stat().st_mtime):
            found.setdefault(path.name.partition(".")[0], []).append(path.read_text())
        return found


def _fitted(array: np.ndarray, variable: Variable, shape: tuple[int, ...]) -> np.ndarray:
    """Runs in the shape of their box; dimensions that are longer elsewhere in the sweep are padded."""
    block = np.full((*shape, *variable.sizes), variable.fill, variable.dtype)
    given = np.asarray(array).reshape(*shape, *np.shape(array)[1:])
    block[(..., *(slice(0, size) for size in given.shape[len(shape) :]))] = given
    return block


def digest_of(blocks: dict[str, np.ndarray]) -> str:
    """SHA-256 of names, shapes, types and numbers. NaNs are one NaN: which one it is, is not kept by every codec."""
    sha = hashlib.sha256()
    for name in sorted(blocks):
        block = np.ascontiguousarray(blocks[name])
        if block.dtype.kind == "f":
            block = np.where(np.isnan(block), block.dtype.type(np.nan), block) + block.dtype.type(0)
        sha.update(f"{name}{block.shape}{block.dtype.str}".encode() + block.tobytes())
    return sha.hexdigest()


def _versions() -> dict[str, str]:
    import jax

    from .. import __version__

    versions = {"iclearn": __version__, "jax": jax.__version__, "numpy": np.__version__}
    made = {"python": platform.python_version(), "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    return versions | made


def _allocate(path: Path, plan: Plan) -> None:
    """The empty dataset: coordinates in full, variables without a single chunk."""
    import xarray as xr
    import zarr

    attrs = {"iclearn_sweep": plan.name, "sweep_hash": plan.hash, "base": plan.base.to_json()}
    xr.Dataset(coords=coordinates(plan), attrs=attrs).to_zarr(path, mode="w", consolidated=False, zarr_format=3)
    group = zarr.open_group(path, mode="r+")
    names = tuple(axis.name for axis in plan.axes)
    for name, variable in schema(plan).items():
        attributes = variable.attributes()
        if name == "status":
            attributes["flag_values"] = [NOT_RUN, *range(len(STATUS))]
            attributes["flag_meanings"] = "not_run " + " ".join(status.label for status in STATUS)
        group.create_array(
            name,
            shape=(*plan.shape, *variable.sizes),
            chunks=(*plan.box_shape, *variable.sizes),
            dtype=variable.dtype,
            fill_value=variable.fill,
            dimension_names=(*names, *variable.dims),
            attributes=attributes,
        )
