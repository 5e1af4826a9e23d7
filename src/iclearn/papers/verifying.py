"""Golden files: every quantity in one computed again and compared, quantity by quantity.

The layout of a file is told by the beginning of its name, up to an underscore or a digit (``ahn_l3_adam.npz`` has layout
``ahn``); of several layouts that fit, the longest. A paper registers the layouts it knows in `core.registry.LAYOUTS` as functions from the arrays of a file to a
`Recomputed`; other packages join by the entry points ``iclearn.layouts``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np

from ..core.errors import IclearnError
from ..core.model import AbstractModel
from ..core.registry import LAYOUTS
from ..store.npz import read_npz

RTOL = 1e-9  # of golden traces, over all steps
SHARP = 1e-5  # a quantity that agrees as closely as this says that what it is computed from was not altered
Role = Literal["start", "path", "end", "size", "value"]


@dataclass(frozen=True)
class Quantity:
    """One quantity of a golden file beside the same quantity computed here.

    Args:
        name: as the file names it.
        given: the array in the file.
        ours: the array computed here; one of another shape is refused by `compare`.
        role: ``start`` (from inputs and initial weights), ``path`` (a value a step), ``end`` (after training), ``size``
            (a number that the arrays tell too) or ``value`` (one of a table of values, where nothing is trained).
        tolerance: largest difference, relative to each value (``path``, ``value``) or to the largest one of the array.
        least: what differences are relative to at least: an array that is zero but for rounding has no size of its own.
        of: names of all arrays of the file that it is computed from, where the layout says; `Verification.conclusion`
            then tells which of them was altered.

    >>> loss = np.array([1.0, 0.5, 0.25])
    >>> Quantity("loss", loss, loss * (1 + 1e-12), "path").passed
    True
    """

    name: str
    given: np.ndarray
    ours: np.ndarray
    role: Role
    tolerance: float = RTOL
    least: float = 0.0
    of: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", np.asarray(self.given, float))
        object.__setattr__(self, "ours", np.asarray(self.ours, float))
        if self.given.shape != self.ours.shape:
            raise IclearnError(f"{self.name} has shape {self.given.shape}, its layout means {self.ours.shape}")

    @property
    def differences(self) -> np.ndarray:
        """The relative differences; infinite where a value is not a number."""
        each = self.role in ("path", "value")
        size = np.abs(self.ours) if each else np.max(np.abs(self.ours), initial=0.0)
        with np.errstate(all="ignore"):
            found = np.abs(self.given - self.ours) / np.maximum(size, max(self.least, np.finfo(float).tiny))
        return np.where(np.isfinite(found), found, np.where(self.given == self.ours, 0.0, np.inf))

    @property
    def largest(self) -> float:
        """The largest of them."""
        return float(np.max(self.differences, initial=0.0))

    @property
    def passed(self) -> bool:
        """Whether the largest is within the tolerance."""
        return self.largest <= self.tolerance

    @property
    def beyond(self) -> list[tuple[int, ...]]:
        """The indices of the values that are not."""
        return [tuple(map(int, index)) for index in np.argwhere(self.differences > self.tolerance)]

    def complaint(self) -> str:
        """What is wrong with it, in one sentence."""
        wrong, total = self.beyond, self.given.size
        worst = np.unravel_index(int(np.argmax(self.differences)), self.given.shape)
        at = tuple(map(int, worst))
        values = f"file {float(self.given[worst])!r}, computed {float(self.ours[worst])!r}"
        place = f" at {_index(at)}" if at else ""
        if len(wrong) == 1 and total > 1:
            others = np.delete(self.differences.ravel(), np.ravel_multi_index(worst, self.given.shape))
            return f"one of {total} values differs,{place}: {values}; the others agree to {others.max():.1e}"
        if total == 1:
            return values
        first = f", the first at {_index(wrong[0])}" if self.role == "path" else ""
        return f"{len(wrong)} of {total} values differ{first}, most{place}: {values}"


@dataclass(frozen=True)
class Recomputed:
    """What a layout computes of a file.

    Args:
        quantities: everything that can be computed again.
        inputs: names of arrays that are taken as given: data, initial weights, settings.
        unchecked: names of arrays and settings that nothing here depends on.
    """

    quantities: tuple[Quantity, ...]
    inputs: tuple[str, ...]
    unchecked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verification:
    """A golden file, verified; `verify_file` makes it.

    Args:
        path: the file.
        layout: of which it is.
        quantities: what was compared.
        inputs: what was taken as given.
        unchecked: what nothing here depends on.
    """

    path: Path
    layout: str
    quantities: tuple[Quantity, ...]
    inputs: tuple[str, ...]
    unchecked: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether every quantity is within its tolerance."""
        return all(quantity.passed for quantity in self.quantities)

    def conclusion(self) -> str:
        """What the pattern of differences says about the file, in one sentence; empty where there are none."""
        wrong = {q.name: q for q in self.quantities if not q.passed}
        if not wrong:
            return ""
        sizes = [name for name, q in wrong.items() if q.role == "size"]
        if sizes:
            return f"the settings in args do not fit the arrays: {', '.join(sizes)}"
        if any(q.of for q in self.quantities):
            return self._traced_back(wrong)
        paths = [q for q in self.quantities if q.role == "path"]
        early = any(not q.passed and q.differences.ravel()[0] > q.tolerance for q in paths)
        starts = [q for q in self.quantities if q.role == "start" and not q.passed]
        follows = any(len(q.beyond) > 1 for q in paths) or (not paths and bool(starts))
        if not follows and (alone := _single(wrong)):
            return alone
        given = ", ".join(self.inputs)
        if not paths and not starts:
            return f"what differs is {', '.join(wrong)}, or what it is computed from (given: {given})"
        if not follows:
            return f"the training in the file agrees; what was altered is in {', '.join(wrong)}"
        predictions = [q for q in starts if q.name.startswith("pred")]
        if predictions and len(predictions[0].beyond) == 1:
            return f"the tokens of prompt {predictions[0].beyond[0][0]} are not those of the run"
        if early and not predictions and any(q.name.startswith("pred") and q.role == "start" for q in self.quantities):
            return "the first predictions agree and the first loss does not: a target (y_q) is not that of the run"
        if early or starts:
            return f"it differs from the first step on: inputs or initial weights are not those of the run (given: {given})"
        first = min(int(q.beyond[0][0]) for q in paths if not q.passed)
        return (
            f"it agrees up to step {first - 1}: the settings of the update in args (or the values from there on) differ"
        )

    def _traced_back(self, wrong: Mapping[str, Quantity]) -> str:
        """Which array can have been altered: all that differs comes from it, and nothing that agrees closely does.

        What agrees may hardly depend on the number that was altered: where it leaves no array, it does not count.
        """
        found = {name.split(".")[0]: q.of for name, q in wrong.items()}
        sources = [(name, *of) for name, of in found.items() if of or not any(found.values())]
        common = [name for name in sources[0] if all(name in source for source in sources[1:])]
        cleared = {name for q in self.quantities if q.passed and q.tolerance <= SHARP for name in q.of}
        suspects = [name for name in common if name not in cleared] or common
        if suspects == list(wrong) and (alone := _single(wrong)):
            return alone
        names = ", ".join(wrong)
        rows = {index[:1] for q in wrong.values() for index in q.beyond}
        place = f" at {_index(rows.pop())}" if len(rows) == 1 and () not in rows else ""
        if not suspects:
            return f"what differs is {names}{place}, and no one array of the file explains it: several were altered"
        which = suspects[0] if len(suspects) == 1 else f"one of {', '.join(suspects)}"
        return f"{which} was altered{place}: all that differs ({names}) comes from it, and all else agrees"

    def as_dict(self) -> dict[str, Any]:
        """Names and values that can be written as JSON."""
        rows = [
            {
                "quantity": q.name, "values": q.given.size, "largest_difference": q.largest, "tolerance": q.tolerance,
                "passed": q.passed, "complaint": "" if q.passed else q.complaint(),
            }
            for q in self.quantities
        ]  # fmt: skip
        found = {"file": str(self.path), "layout": self.layout, "passed": self.passed, "quantities": rows}
        return {**found, "given": list(self.inputs), "unchecked": list(self.unchecked), "conclusion": self.conclusion()}


Layout = Callable[[Mapping[str, np.ndarray]], Recomputed]


def verify_file(path: str | Path) -> Verification:
    """Compute every quantity of a golden file again.

    Args:
        path: the .npz file; the beginning of its name is that of its layout. A file of an unknown layout, a damaged
            one, and one that lacks an array are refused in one line.

    Returns:
        The comparison.
    """
    path = Path(path)
    layout = layout_of(path.stem)
    if layout is None:
        known = ", ".join(f"{name}*" for name in LAYOUTS.names())
        raise IclearnError(f"{path}: the stem of a golden file names its layout, and {path.stem!r} is none of {known}")
    arrays = read_npz(path)
    compute: Layout = LAYOUTS.get(layout)
    try:
        found = compute(arrays)
    except KeyError as missing:
        raise IclearnError(f"{path}: layout {layout} needs the array {missing.args[0]!r}, which is not there") from None
    except IclearnError as error:
        raise IclearnError(f"{path}: {error}") from None
    except Exception as error:  # a layout computes with whatever kinds and shapes the file holds
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        raise IclearnError(
            f"{path}: its arrays are not of the kinds and shapes of layout {layout}: {reason}"
        ) from error
    named = [*(q.name for q in found.quantities), *found.inputs]
    seen = {*named, *(name.split(".")[0] for name in named)}
    others = tuple(name for name in arrays if name not in seen and name not in found.unchecked)
    return Verification(path, layout, found.quantities, found.inputs, (*found.unchecked, *others))


def layout_of(stem: str) -> str | None:
    """The layout that the name of a file begins with, the longest one; None if there is none.

    Args:
        stem: the name of the file without its ending.

    Returns:
        The name of the layout.

    >>> layout_of("mlp_run3"), layout_of("mlp_descent_d5"), layout_of("mlpx")
    ('mlp', 'mlp_descent', None)
    """
    fits = [name for name in LAYOUTS.names() if re.match(rf"{re.escape(name)}(?=\d|_|$)", stem)]
    return max(fits, key=len, default=None)


def settings_of(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The settings of a golden file, from the JSON in its array ``args``.

    Args:
        arrays: the arrays of the file.

    Returns:
        Name → value; asking it for a setting that is not there gives a sentence.

    >>> settings_of({"args": np.array('{"lr": 0.1}')})["lr"]
    0.1
    """
    try:
        found = json.loads(str(arrays["args"]))
    except ValueError as error:
        raise IclearnError(f"args is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise IclearnError(f"args is not a table of settings: {str(found)[:60]}")

    class Settings(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            raise IclearnError(f"args lacks the setting {name!r}")

    return Settings(found)


def sizes(settings: Mapping[str, Any], told: Mapping[str, int]) -> tuple[Quantity, ...]:
    """Settings that the shapes of the arrays tell too.

    Args:
        settings: of the file.
        told: name of the setting → what the arrays say.

    Returns:
        A quantity for each, to be met exactly.
    """
    return tuple(
        Quantity(f"args.{name}", np.asarray(settings[name]), np.asarray(value), "size", 0.0)
        for name, value in told.items()
    )


def _single(wrong: Mapping[str, Quantity]) -> str:
    """The sentence for one number that differs; empty where there are more."""
    (name, quantity), *more = wrong.items()
    if more or len(quantity.beyond) != 1:
        return ""
    return f"one number of {name} was altered; everything else in the file agrees with it unaltered"


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


@eqx.filter_jit
def every_prefix(model: AbstractModel, x: jax.Array, y: jax.Array) -> jax.Array:
    """The answers of a model to every prefix of many sequences with one output.

    Args:
        model: the model.
        x: (sequence, token, dim) inputs.
        y: (sequence, token) labels.

    Returns:
        (sequence, token) the answers.
    """
    return model.predict_sequences(x, y[..., None])[..., 0]
