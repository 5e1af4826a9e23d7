"""The Trace: labeled time series of one run, how it ended, and where it came from."""

from __future__ import annotations

import html
import importlib
import json
import numbers
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .atomic import new_file, new_folder
from .checks import check_type, require
from .errors import DamagedError
from .model import AbstractModel
from .provenance import numerics, numerics_of
from .recipe import Recipe
from .seal import SEAL, content_digest, is_marked, read_sealed, sealed
from .status import Status

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from .columns import Columns

FORMAT = 3
# 1: British spellings in the recipe, no version of the numerics; 2: no checksum
READABLE = (1, 2, 3)
MARK = "iclearn_format"  # the attribute by which a folder is known to be a stored run


@dataclass(frozen=True, eq=False)
class Trace:
    """One run: what was recorded, how it ended, and where it came from.

    `data` is an `xarray.Dataset` with these names and axes; theory predicts under the same ones.

    ==================  =========================  ==========================================================
    ``loss``            (step)                     training loss before each update
    ``test_loss``       (step, test_set)           losses on the test sets, where there are any
    ``time``            (step)                     t/τ = 2·lr·step (gradient descent and flow only)
    ``weight_<name>``   (record, …named axes)      weights at the recorded steps; the last is after the last step
    ``record``          (record)                   the step numbers at which weights were recorded
    ``covariance``      (input, key_input)         Λ of the inputs, where it is known
    ``loss_minimum``    ()                         least training loss any weights could reach, where it is known
    ``optimizer_<i>``   (…)                        what momentum or Adam remembered at the end, to go on from there
    ==================  =========================  ==========================================================

    Args:
        data: the recorded numbers.
        status: how the run ended.
        status_step: the step at which it diverged, else the number of its steps.
        provenance: the recipe, its hash, the engine, versions, the machine, and times.

    >>> import iclearn as icl
    >>> task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    >>> trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged", num_heads=2), steps=50))
    >>> trace.status.label, trace.loss.sizes["step"], sorted(trace.weights())
    ('finished', 50, ['kq', 'value'])
    >>> trace.model(step=20).value.shape  # (head, output, entry)
    (2, 1, 3)
    """

    data: xr.Dataset
    status: Status
    status_step: int
    provenance: dict[str, Any]

    @staticmethod
    def of_columns(columns: Columns, status: Status, status_step: int, provenance: dict[str, Any]) -> Trace:
        """A Trace whose `data` is made when it is first asked for; storing it does not need xarray.

        Args:
            columns: what `data` is made of.
            status: how the run ended.
            status_step: as above.
            provenance: as above.
        """
        trace = object.__new__(Trace)
        held = {"columns": columns, "status": status, "status_step": status_step, "provenance": provenance}
        for name, value in held.items():
            object.__setattr__(trace, name, value)
        return trace

    def __getattr__(self, name: str) -> Any:
        if name != "data" or "columns" not in self.__dict__:
            raise AttributeError(f"a Trace has no {name!r}")
        object.__setattr__(self, "data", self.__dict__.pop("columns").dataset())
        return self.data

    def has(self, name: str) -> bool:
        """Whether something was recorded.

        Args:
            name: of a variable or coordinate of `data`.
        """
        return name in self._variables()

    def values(self, name: str) -> np.ndarray:
        """The numbers of something recorded, without importing xarray for them.

        Args:
            name: of a variable or coordinate of `data`.
        """
        return self._variables()[name].values

    def axes(self, name: str) -> tuple[str, ...]:
        """The axes of something recorded.

        Args:
            name: of a variable or coordinate of `data`.
        """
        return self._variables()[name].dims

    def _variables(self) -> Any:
        """Name → array with its axes, without making `data` where that was not needed yet."""
        held = self.__dict__.get("columns")
        return self.data.variables if held is None else held.variables

    def __repr__(self) -> str:
        return f"Trace({self.run_id}, {self.sentence}, final loss {self.final_loss:.6g})"

    @property
    def run_id(self) -> str:
        """The name of the run in a store: the first 12 digits of the recipe's hash."""
        return self.provenance["recipe_hash"][:12]

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe this run came from."""
        return Recipe.from_dict(self.provenance["recipe"])

    @property
    def up_to_date(self) -> bool:
        """Whether the code that is running made these numbers (`core.provenance.numerics`)."""
        return numerics_of(self.provenance) == numerics()

    @property
    def loss(self) -> xr.DataArray:
        """The training loss before each update, over ``step``."""
        return self.data["loss"]

    @property
    def final_loss(self) -> float:
        """The last recorded training loss."""
        return float(self.values("loss")[-1])

    @property
    def num_losses(self) -> int:
        """How many training losses were recorded."""
        return len(self.values("loss"))

    @property
    def sentence(self) -> str:
        """How the run ended, as shown to the user."""
        if self.status is Status.FINISHED and self.provenance.get("at_rest"):
            below = f"its steps are below what {self.provenance.get('dtype', 'floating point')} resolves"
            return f"ran all its steps and is at rest: the gradient is zero, or {below}"
        where = f" at step {self.status_step}" if self.status is Status.DIVERGED else ""
        return f"{self.status.value}{where}"

    def weights(self, record: int = -1) -> dict[str, Any]:
        """The weights at one record.

        Args:
            record: index into `data.record` (default: the last).

        Returns:
            Name → array, named as the model names them.
        """
        count = self.data.sizes.get("record", 0)
        known = isinstance(record, numbers.Integral) and -count <= record < count
        require(known, f"record must be an index into the {count} records of this run, not {record!r}")
        return {name: path[record] for name, path in self.weight_paths().items()}

    def weight_paths(self) -> dict[str, np.ndarray]:
        """The weights at all records.

        Returns:
            Name → array (record, …), named as the model names them.
        """
        names = [str(n) for n in self.data.data_vars if str(n).startswith("weight_")]
        return {n.removeprefix("weight_"): self.data[n].values for n in names}

    def model(self, step: int | None = None) -> AbstractModel:
        """The model as it was at a step.

        Args:
            step: of the run, or -1 for the last (None: the same). `data.record` lists the recorded steps; the one
                nearest to it is taken.

        Returns:
            The model, a pytree with `predict(prompt)`.
        """
        return self.recipe.model.rebuild(self.recipe.task.dim, self.weights(self.nearest_record(step)))

    def nearest_record(self, step: int | None = None) -> int:
        """The index into `data.record` of the recorded step nearest to a step.

        Args:
            step: of the run, or -1 for the last one recorded (None: the same).

        Returns:
            The index.
        """
        require("record" in self.data, "this run recorded no weights: train with record=Record(weights=…) above 0")
        steps = self.data["record"].values
        last, step = max(int(steps[-1]), self.num_losses - 1), -1 if step is None else step
        known = isinstance(step, numbers.Integral) and -1 <= step <= last
        require(known, f"step must be a whole number from 0 to {last}, or -1 for the last, not {step!r}")
        return len(steps) - 1 if step == -1 else int(np.argmin(np.abs(steps - step)))

    def continue_(self, steps: int, **given: Any) -> Trace:
        """Train `steps` further steps and return the Trace of the whole, longer run.

        It is the run that `recipe.replace(steps=…)` would have been from the start, its first part not trained again.

        Args:
            steps: further updates.
            given: ``dataset`` and ``weights`` where the recipe needs them, ``progress``.

        Returns:
            The Trace of all steps.
        """
        return _door("engines.simulate").continue_training(self, steps, **given)

    def plot(self, *, theory: bool = False, values: bool = False) -> Figure:
        """The loss, the levels of the theory that covers the run, and test losses, as a matplotlib figure.

        Args:
            theory: lay the predicted loss over it.
            values: a second panel with the value weights of the heads.

        Returns:
            The figure.
        """
        return _door("report.run_figure").run_figure(self, theory=theory, values=values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self.equals(other)

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        rows = {
            "run": self.run_id,
            "recipe": repr(self.recipe),
            "status": f"{self.sentence}; final loss {self.final_loss:.6g}",
            "engine": f"{self.provenance['engine']}, {self.provenance.get('wall_seconds', 0):.2f} s",
        }
        table = "".join(f"<tr><th>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table>{table}</table>{_door('report.run_figure').run_svg(self)}"

    def _attributes(self) -> dict[str, Any]:
        provenance = json.dumps(self.provenance, sort_keys=True)
        return {MARK: FORMAT, "status": self.status.label, "status_step": self.status_step, "provenance": provenance}

    def equals(self, other: Trace) -> bool:
        """Whether another run has the same numbers, names, axes and outcome; provenance is not compared."""
        same = self.status is other.status and self.status_step == other.status_step
        return same and self.data.drop_attrs().equals(other.data.drop_attrs())

    def save(self, path: str | Path) -> Path:
        """Write as a Zarr folder that holds a checksum of its numbers. Nothing half-written is seen under `path`.

        Args:
            path: the folder. A stored run that is there already is replaced; anything else there is refused.

        Returns:
            The path written.
        """
        path = Path(path)
        replaceable = not path.exists() or is_marked(path, MARK) or (path.is_dir() and not any(path.iterdir()))
        require(replaceable, f"{path} is there already and is no stored run: choose another path, or remove it")
        with new_folder(path) as temporary:
            held = self.__dict__.get("columns")
            if held is not None and held.plain:
                whole = held.with_attrs(self._attributes())
                whole.with_attrs({SEAL: content_digest(whole)}).write(temporary)
            else:
                data = self.data.assign_attrs(self._attributes())
                sealed(data).to_zarr(temporary, mode="w", consolidated=False)
        return path

    @staticmethod
    def load(path: str | Path) -> Trace:
        """The run that `save` wrote, in this format or an earlier one, its checksum verified.

        Args:
            path: the folder. One that is damaged, foreign or of a later format raises `DamagedError`.

        Returns:
            The run.
        """
        check_type("the path of a stored run", path, str | Path)
        path = Path(path)
        require(path.exists(), f"no stored run at {path}")
        data = read_sealed(path, "stored run")
        attrs, seal = data.attrs, data.attrs.pop(SEAL, None)
        if MARK not in attrs:
            raise DamagedError(f"{path} is not a stored run: it does not say its format")
        found = attrs.pop(MARK)
        if found not in READABLE:
            readable = ", ".join(map(str, READABLE))
            raise DamagedError(f"{path} has format {found!r}; this version of iclearn reads formats {readable}")
        try:
            status, step = Status[attrs.pop("status").upper()], int(attrs.pop("status_step"))
            provenance = json.loads(attrs.pop("provenance"))
            whole = status is Status.DIVERGED or bool(np.isfinite(data["loss"].values).all())
            sound = seal is not None if found > 2 else whole and "steps" in provenance["recipe"]
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise DamagedError(f"{path} is a damaged stored run: {reason}") from None
        if not sound:
            raise DamagedError(f"{path} is a damaged stored run: its checksum, or part of its losses, is missing")
        return Trace(data, status, step, provenance)

    def export(self, path: str | Path) -> Path:
        """Write the losses for other programs.

        Args:
            path: the file. Its ending says the form: ``.csv``, ``.nc`` (NetCDF, with everything else in the Trace), or
                ``.txt`` as the public code writes it: one loss a line, and with test sets a column for each of them.

        Returns:
            The path written.
        """
        path = Path(path)
        tests = list(self.data["test_set"].values) if self.has("test_loss") else []
        columns = [self.values("loss")]
        columns += [self.data["test_loss"].sel(test_set=t).values for t in tests]
        known = path.suffix in (".csv", ".nc", ".txt")
        require(known, f"cannot export to {path.name}: the name must end in .csv, .nc or .txt")
        with new_file(path) as temporary:
            if path.suffix == ".nc":
                self.data.assign_attrs(self._attributes()).to_netcdf(temporary, engine="scipy")
            elif path.suffix == ".csv":
                table = np.column_stack([self.values("step"), *columns])
                header, formats = ",".join(["step", "loss", *map(str, tests)]), ["%d"] + ["%.17g"] * len(columns)
                np.savetxt(temporary, table, delimiter=",", header=header, comments="", fmt=formats)
            else:
                np.savetxt(temporary, np.column_stack(columns), fmt="%.18e")
        return path


def _door(module: str) -> Any:
    """A module of a layer above, imported when one of the few methods that need it is called."""
    return importlib.import_module(f"iclearn.{module}")
