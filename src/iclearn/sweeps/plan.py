"""The plan of a sweep: static groups times vmapped axes, cut into boxes that are computed and stored whole."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..core.checks import check_choice, check_int
from ..core.errors import IclearnError
from ..core.reader import read_spec
from ..core.recipe import Recipe
from ..core.registry import THEORIES
from ..core.spec import Spec
from .axes import Axis, is_traceable

FORMAT = 2
# How format 1, before the American spellings, calls the ways to train a batch.
_FORMER_PATHS = {"plain": "vmap", "written": "unrolled", "fused": "pallas", "alone": "serial"}
ComputePath = Literal["auto", "vmap", "unrolled", "pallas", "serial"]
Box = tuple[tuple[int, int], ...]  # first point and end along every axis


@dataclass(frozen=True)
class Reduce(Spec, kind="reduce"):
    """What is kept of each run's loss curve, sampled at `samples` + 1 steps.

    Args:
        levels: a theory (``zhang2025``): crossings of and dwell at its levels; ``none``: plateaus found in the curve.
        curve: keep the sampled curve itself too.
    """

    levels: str = "none"
    samples: int = 256
    curve: bool = False

    def __post_init__(self) -> None:
        if self.levels != "none":
            THEORIES.get(self.levels, "reduce.levels")
        check_int("samples", self.samples, 1)


@dataclass(frozen=True)
class Chunk:
    """The runs of one box, computed together; `id` is the hash of what they are."""

    id: str
    box: Box
    runs: int


@dataclass(frozen=True)
class Plan:
    """A sweep, whole: the base recipe, the axes, what is kept, and how many runs make a chunk at most.

    Neither `limit` nor `path` changes what a run is: the same sweep in another chunking gives the same numbers.
    """

    base: Recipe
    axes: tuple[Axis, ...]
    reduce: Reduce
    limit: int
    name: str = "sweep"
    path: ComputePath = "auto"

    def __post_init__(self) -> None:
        check_int("the chunk size", self.limit, 1)
        check_choice("path", self.path, ComputePath)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    @property
    def num_runs(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def numeric(self) -> tuple[bool, ...]:
        """Which axes only change numbers; the others make static groups."""
        return tuple(is_traceable(axis, self.base, self.axes) for axis in self.axes)

    @property
    def num_groups(self) -> int:
        return math.prod(n for n, number in zip(self.shape, self.numeric, strict=True) if not number)

    @cached_property
    def box_shape(self) -> tuple[int, ...]:
        """Points of a chunk along each axis: one on static axes, and as many of the last numeric ones as fit."""
        room, sizes = self.limit, []
        for count, number in zip(reversed(self.shape), reversed(self.numeric), strict=True):
            take = min(count, room) if number else 1
            take = -(-count // -(-count // take))  # as even as can be
            sizes.append(take)
            room = max(1, room // take) if take == count or not number else 1
        return tuple(reversed(sizes))

    def recipe(self, index: tuple[int, ...]) -> Recipe:
        """The recipe of one run."""
        changes: dict[str, Any] = {}
        for axis, i in zip(self.axes, index, strict=True):
            changes |= axis.changes(i)
        return self.base.replace(**changes)

    def group(self, box: Box) -> Recipe:
        """The base of a chunk's runs: its static fields, and the first value of every numeric axis."""
        return self.recipe(tuple(0 if n else box[k][0] for k, n in enumerate(self.numeric)))

    def varying(self, box: Box) -> dict[str, np.ndarray]:
        """Field (as `Recipe.replace` takes it) → its values in the chunk's runs, in the order of `indices`."""
        grids = np.indices([end - first for first, end in box]).reshape(len(box), -1)
        found = {}
        for axis, number, (first, end), at in zip(self.axes, self.numeric, box, grids, strict=True):
            if number:
                for field in axis.fields:
                    kind = np.int64 if field == "seed" else np.float64
                    found[field.replace(".", "__")] = np.asarray(axis.column(field, first, end), kind)[at]
        return found

    def indices(self, box: Box) -> Iterator[tuple[int, ...]]:
        """The points of a box, the last axis moving fastest."""
        return itertools.product(*(range(first, end) for first, end in box))

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks. Their identity depends on their content alone, never on who computes them."""
        cuts = [
            [(first, min(first + size, count)) for first in range(0, count, size)]
            for count, size in zip(self.shape, self.box_shape, strict=True)
        ]
        return tuple(self._chunk(box) for box in itertools.product(*cuts))

    @cached_property
    def _plain(self) -> list[list[Any]]:
        return [axis.to_dict()["values"] for axis in self.axes]

    def _chunk(self, box: Box) -> Chunk:
        moving = {
            f"{axis.name}:{','.join(axis.fields)}": values[first:end]
            for axis, values, number, (first, end) in zip(self.axes, self._plain, self.numeric, box, strict=True)
            if number
        }
        content = {"group": self.group(box).to_dict(), "moving": moving, "reduce": self.reduce.to_dict()}
        return Chunk(digest(content)[:20], box, math.prod(end - first for first, end in box))

    @cached_property
    def chunk_by_id(self) -> dict[str, Chunk]:
        return {chunk.id: chunk for chunk in self.chunks}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what the sweep is: its runs and what is kept of them."""
        axes = [axis.to_dict() for axis in self.axes]
        return digest({"base": self.base.to_dict(), "axes": axes, "reduce": self.reduce.to_dict(), "format": FORMAT})

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "name": self.name,
            "hash": self.hash,
            "base": self.base.to_dict(),
            "axes": [axis.to_dict() for axis in self.axes],
            "reduce": self.reduce.to_dict(),
            "limit": self.limit,
            "path": self.path,
            "runs": self.num_runs,
            "groups": self.num_groups,
            "chunks": [{"id": c.id, "box": [list(ends) for ends in c.box], "runs": c.runs} for c in self.chunks],
        }

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Plan:
        """The plan that `to_dict` wrote, checked against the hash it wrote beside it."""
        from .axes import read_axes

        if data.get("format") not in (1, FORMAT):
            raise IclearnError(f"the plan has format {data.get('format')}; this version reads formats 1 and {FORMAT}")
        base = read_spec(Recipe, data["base"], "base")
        told = {
            a["name"]: {
                "fields": dict(zip(map(_field, a["fields"]), zip(*a["values"], strict=True), strict=True)),
                "coords": a["coords"],
            }
            for a in data["axes"]
        }
        path = _FORMER_PATHS.get(data["path"], data["path"])
        plan = Plan(base, read_axes(base, told), Reduce.from_dict(data["reduce"]), data["limit"], data["name"], path)
        if data["format"] == 1:  # names of chunks are hashes of recipes as they were spelled
            boxes = [(c["id"], tuple(tuple(ends) for ends in c["box"]), c["runs"]) for c in data["chunks"]]
            vars(plan).update(hash=data["hash"], chunks=tuple(Chunk(*chunk) for chunk in boxes))
        if plan.hash != data["hash"]:
            raise IclearnError("the plan does not have the hash written in it: the folder is damaged, start another")
        return plan

    def describe(self, index: tuple[int, ...], only: tuple[bool, ...] | None = None) -> str:
        """A point in words: ``rank=3, lr=0.1``."""
        kept = only or (True,) * len(self.axes)
        return ", ".join(f"{a.name}={a.coords[i]}" for a, i, keep in zip(self.axes, index, kept, strict=True) if keep)


def _field(path: str) -> str:
    """A dotted path as it is spelled now."""
    return path.replace("optimiser", "optimizer").replace("centre", "center")


def digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
