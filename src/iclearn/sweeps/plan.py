"""The plan of a sweep: static groups times vmapped axes, cut into boxes that are computed and stored whole."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..core.checks import check_int, check_literals, require
from ..core.errors import IclearnError
from ..core.reader import read_spec
from ..core.recipe import Recipe
from ..core.registry import THEORIES
from ..core.spec import Spec
from .axes import Axis, is_traceable, read_axes

FORMAT = 3  # 2: slow stretches are called plateaus
# How format 1, before the American spellings, calls the ways to train a batch.
_FORMER_PATHS = {"plain": "vmap", "written": "unrolled", "fused": "pallas", "alone": "serial"}
ComputePath = Literal["auto", "vmap", "unrolled", "pallas", "compiled", "serial"]
NAME = re.compile(r"\w[\w .-]{0,99}")  # it becomes part of a folder's name
Box = tuple[tuple[int, int], ...]  # first point and end along every axis


@dataclass(frozen=True)
class Reduce(Spec, kind="reduce"):
    """What is kept of each run's loss curve, sampled at evenly spaced steps.

    Args:
        levels: a theory (``zhang2025``): keep when the loss crosses its levels and how long it stays at each;
            ``none``: keep the slow stretches of the curve.
        samples: the curve is read at (about) samples + 1 steps.
        curve: keep the sampled curve itself too.

    >>> Reduce(levels="zhang2025", samples=100)
    Reduce(levels='zhang2025', samples=100)
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
    """A sweep: the base recipe, the axes, what is kept, and how many runs make a chunk at most.

    An axis is numeric if runs that differ along it share one program; the values of all other axes make static groups.
    A chunk is a box of points of one group. Neither `limit` nor `path` changes what a run is: the same sweep in
    another chunking gives the same numbers. See `make_plan` for one that is checked.

    Args:
        base: the recipe that the axes change.
        axes: the dimensions of the grid.
        reduce: what is kept of each run.
        limit: runs of a chunk at most.
        name: of the sweep.
        path: how a chunk is trained.
        box: points of a chunk along each axis, of a sweep that was extended (empty: what `limit` gives).

    >>> import iclearn as icl
    >>> from iclearn.sweeps import read_axes
    >>> base = icl.Recipe(task=icl.LinearRegression(), model=icl.Attention())
    >>> plan = Plan(base, read_axes(base, {"init.scale": [0.1, 0.2], "model.num_heads": [1, 2]}, 3), Reduce(), limit=3)
    >>> plan.shape, plan.numeric, plan.box_shape, len(plan.chunks)
    ((2, 2, 3), (True, False, True), (1, 1, 3), 4)
    >>> plan.recipe((1, 0, 2)).init, plan.describe((1, 0, 2))
    (Init(scale=0.2), 'scale=0.2, num_heads=1, seed=2')
    """

    former = False  # read from a folder in which slow stretches are called plateaus

    base: Recipe
    axes: tuple[Axis, ...]
    reduce: Reduce
    limit: int
    name: str = "sweep"
    path: ComputePath = "auto"
    box: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_literals(Plan, vars(self))
        check_int("the chunk size", self.limit, 1)
        named = NAME.fullmatch(self.name) is not None
        require(named, f"a sweep's name may hold letters, digits, spaces and . _ - (and no path), not {self.name!r}")

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along every axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def num_runs(self) -> int:
        """Runs in all."""
        return math.prod(self.shape)

    @property
    def fields(self) -> list[str]:
        """Dotted paths of all fields that are swept."""
        return [field for axis in self.axes for field in axis.fields]

    def values(self, field: str) -> list[Any]:
        """The values a field takes: those along its axis, or the base's one."""
        swept = (axis.column(field) for axis in self.axes if field in axis.fields)
        return next(swept, None) or [functools.reduce(getattr, field.split("."), self.base)]

    @cached_property
    def numeric(self) -> tuple[bool, ...]:
        """Which axes only change numbers; the others make static groups."""
        return tuple(is_traceable(axis, self.base, self.axes) for axis in self.axes)

    @property
    def num_groups(self) -> int:
        """Static groups: combinations of values along the axes that are not numeric."""
        return math.prod(n for n, number in zip(self.shape, self.numeric, strict=True) if not number)

    @cached_property
    def box_shape(self) -> tuple[int, ...]:
        """Points of a chunk along each axis: one on static axes, and as many of the last numeric ones as fit."""
        if self.box:
            return self.box
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
        columns = {}
        for axis, number, (first, end), at in zip(self.axes, self.numeric, box, grids, strict=True):
            for field in axis.fields if number else ():
                kind = np.int64 if field == "seed" else np.float64
                columns[field.replace(".", "__")] = np.asarray(axis.column(field, first, end), kind)[at]
        return columns

    def indices(self, box: Box) -> Iterator[tuple[int, ...]]:
        """The points of a box, the last axis moving fastest."""
        return itertools.product(*(range(first, end) for first, end in box))

    @property
    def num_chunks(self) -> int:
        """How many chunks there are, without making them."""
        return math.prod(-(-count // size) for count, size in zip(self.shape, self.box_shape, strict=True))

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All chunks. Their identity depends on their content alone, never on who computes them."""
        cuts = [
            [(first, min(first + size, count)) for first in range(0, count, size)]
            for count, size in zip(self.shape, self.box_shape, strict=True)
        ]
        return tuple(self._chunk(box) for box in itertools.product(*cuts))

    @cached_property
    def _rows(self) -> list[list[Any]]:
        return [axis.to_dict()["values"] for axis in self.axes]

    def _chunk(self, box: Box) -> Chunk:
        moving = {
            f"{axis.name}:{','.join(axis.fields)}": values[first:end]
            for axis, values, number, (first, end) in zip(self.axes, self._rows, self.numeric, box, strict=True)
            if number
        }
        content = {"group": self.group(box).to_dict(), "moving": moving, "reduce": self.reduce.to_dict()}
        return Chunk(digest(content)[:20], box, math.prod(end - first for first, end in box))

    def extended_to(self, plan: Plan) -> Plan | None:
        """A plan that differs from this one by values appended to axes, cut into the boxes of this one.

        Args:
            plan: the longer plan.

        Returns:
            The plan, whose chunks are those of this one and new ones; only incomplete boxes at the end of a lengthened
            axis become other chunks. None if `plan` differs in anything else.
        """
        if len(plan.axes) != len(self.axes) or any(
            (new.name, new.fields, new.values[: len(old)]) != (old.name, old.fields, old.values)
            for old, new in zip(self.axes, plan.axes, strict=True)
        ):
            return None
        longer = replace(plan, limit=self.limit, name=self.name, path=self.path, box=self.box_shape)
        return longer if self.chunks[0].id in longer.chunk_by_id else None  # the same base, reductions and programs

    @cached_property
    def chunk_by_id(self) -> dict[str, Chunk]:
        """The chunks by their identity."""
        return {chunk.id: chunk for chunk in self.chunks}

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the runs and of what is kept of them; the name, the chunking and the path do not enter."""
        axes = [axis.to_dict() for axis in self.axes]
        return digest({"base": self.base.to_dict(), "axes": axes, "reduce": self.reduce.to_dict(), "format": 2})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as plan.json holds them."""
        chunks = [{"id": c.id, "box": [list(ends) for ends in c.box], "runs": c.runs} for c in self.chunks]
        return {
            "format": FORMAT, "name": self.name, "hash": self.hash, "base": self.base.to_dict(),
            "axes": [axis.to_dict() for axis in self.axes], "reduce": self.reduce.to_dict(), "limit": self.limit,
            "path": self.path, "runs": self.num_runs, "groups": self.num_groups, "chunks": chunks,
            **({"box": list(self.box)} if self.box else {}),
        }  # fmt: skip

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Plan:
        """The plan that `to_dict` wrote, checked against the hash it wrote beside it."""
        if data.get("format") not in range(1, FORMAT + 1):
            raise IclearnError(f"the plan has format {data.get('format')}; this version reads formats 1 to {FORMAT}")
        base = read_spec(Recipe, data["base"], "base")
        axes = {}
        for axis in data["axes"]:
            names = [field.replace("optimiser", "optimizer").replace("centre", "center") for field in axis["fields"]]
            columns = dict(zip(names, zip(*axis["values"], strict=True), strict=True))
            axes[axis["name"]] = {"fields": columns, "coords": axis["coords"]}
        path: Any = _FORMER_PATHS.get(data["path"], data["path"])
        reduce, box = Reduce.from_dict(data["reduce"]), tuple(data.get("box", ()))
        plan = Plan(base, read_axes(base, axes), reduce, data["limit"], data["name"], path, box)
        if data["format"] == 1:  # names of chunks are hashes of recipes as they were spelled
            boxes = [(c["id"], tuple(tuple(ends) for ends in c["box"]), c["runs"]) for c in data["chunks"]]
            vars(plan).update(hash=data["hash"], chunks=tuple(Chunk(*chunk) for chunk in boxes))
        vars(plan)["former"] = data["format"] < FORMAT
        if plan.hash != data["hash"]:
            raise IclearnError("the plan does not have the hash written in it: the folder is damaged, start another")
        return plan

    def describe(self, index: tuple[int, ...]) -> str:
        """A point in words: ``rank=3, lr=0.1``."""
        return ", ".join(f"{a.name}={a.coords[i]}" for a, i in zip(self.axes, index, strict=True))


def digest(content: Any) -> str:
    """SHA-256 of the JSON of plain values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()
