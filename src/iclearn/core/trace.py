"""The Trace: labeled time series of one run, how it ended, and where it came from."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import IclearnError
from .status import Status

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1


@dataclass(frozen=True)
class Trace:
    """One run. `data` has these names and axes; theory predicts under the same ones.

    ==================  =========================  ==========================================================
    ``loss``            (step)                     training loss before each update
    ``test_loss``       (step, test_set)           losses on the test sets, where there are any
    ``time``            (step)                     t/τ = 2·lr·step (gradient descent and flow only)
    ``weight_<name>``   (record, …named axes)      weights at the recorded steps; the last is after the last step
    ``record``          (record)                   the step numbers at which weights were recorded
    ``covariance``      (input, key_input)         Λ of the inputs, where it is known
    ``loss_minimum``    ()                         least training loss any weights could reach, where it is known
    ==================  =========================  ==========================================================
    """

    data: xr.Dataset
    status: Status
    status_step: int
    provenance: dict[str, Any]

    def __repr__(self) -> str:
        return f"Trace({self.run_id}, {self.sentence}, final loss {self.final_loss:.6g})"

    @property
    def run_id(self) -> str:
        """The first 12 digits of the recipe's hash: how a stored run is called."""
        return self.provenance["recipe_hash"][:12]

    @property
    def loss(self) -> xr.DataArray:
        return self.data["loss"]

    @property
    def final_loss(self) -> float:
        return float(self.data["loss"][-1])

    @property
    def sentence(self) -> str:
        """How the run ended, as shown to the user."""
        if self.status is Status.DIVERGED:
            return f"{self.status.value} at step {self.status_step}"
        return self.status.value

    def weights(self, record: int = -1) -> dict[str, Any]:
        """Weight arrays at one record, named as the model names them."""
        names = [str(n) for n in self.data.data_vars if str(n).startswith("weight_")]
        return {n.removeprefix("weight_"): self.data[n].isel(record=record).values for n in names}

    def _attributed(self) -> xr.Dataset:
        return self.data.assign_attrs(
            iclearn_format=FORMAT,
            status=self.status.label,
            status_step=self.status_step,
            provenance=json.dumps(self.provenance, sort_keys=True),
        )

    def equals(self, other: Trace) -> bool:
        """Same numbers, names, axes and outcome; provenance (which holds times) is not compared."""
        same = self.status is other.status and self.status_step == other.status_step
        return same and self.data.drop_attrs().equals(other.data.drop_attrs())

    def save(self, path: str | Path) -> Path:
        """Write as a Zarr folder. Nothing half-written is ever seen under `path`."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._attributed().to_zarr(temporary, mode="w", consolidated=False)
            if path.exists():
                retired = temporary.with_suffix(".old")
                os.rename(path, retired)
                os.rename(temporary, path)
                shutil.rmtree(retired)
            else:
                os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return path

    @staticmethod
    def load(path: str | Path) -> Trace:
        import xarray as xr

        path = Path(path)
        if not path.is_dir():
            raise IclearnError(f"no stored run at {path}")
        try:
            data = xr.open_zarr(path, consolidated=False).load()
            attrs = data.attrs
            found = attrs.pop("iclearn_format")
        except Exception as error:
            raise IclearnError(f"{path} is not a stored run: {type(error).__name__}: {error}".split("\n")[0]) from None
        if found != FORMAT:
            raise IclearnError(f"{path} has format {found}; this version of iclearn reads format {FORMAT}")
        status = Status[attrs.pop("status").upper()]
        step, provenance = int(attrs.pop("status_step")), json.loads(attrs.pop("provenance"))
        return Trace(data, status, step, provenance)

    def export(self, path: str | Path) -> Path:
        """Write for other programs, by the name's ending: .csv, .nc (NetCDF), or .txt as the public code writes it.

        The .txt holds one loss a line, or with test sets three columns: train, in-weight, in-context.
        """
        import numpy as np

        path = Path(path)
        columns = [("loss", self.data["loss"].values)]
        if "test_loss" in self.data:
            columns += [(str(t), self.data["test_loss"].sel(test_set=t).values) for t in self.data["test_set"].values]
        if path.suffix not in (".csv", ".nc", ".txt"):
            raise IclearnError(f"cannot export to {path.name}: the name must end in .csv, .nc or .txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
        try:
            if path.suffix == ".nc":
                self._attributed().to_netcdf(temporary, engine="scipy")
            elif path.suffix == ".csv":
                table = np.column_stack([self.data["step"].values, *(c for _, c in columns)])
                header = ",".join(["step", *(name for name, _ in columns)])
                np.savetxt(
                    temporary,
                    table,
                    delimiter=",",
                    header=header,
                    comments="",
                    fmt=["%d"] + ["%.17g"] * len(columns),
                )
            else:
                np.savetxt(temporary, np.column_stack([c for _, c in columns]), fmt="%.18e")
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        return path
