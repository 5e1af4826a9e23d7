"""The matrix of an evaluation: a labeled dataset that is stored whole, and what it says in few numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.atomic import new_folder
from ..core.checks import require
from ..core.errors import DamagedError
from ..core.provenance import numerics
from ..core.seal import SEAL, is_marked, read_sealed, sealed

if TYPE_CHECKING:
    import xarray as xr

FORMAT = 1
MARK = "iclearn_matrix"


@dataclass(frozen=True, eq=False)
class Matrix:
    """What `evaluate` returns.

    `data` is an `xarray.Dataset`; a position i means that i pairs are seen:

    ==================================  =========================================  =================================
    ``error``, ``_low``, ``_high``      (shift, predictor, position)               mean or median error, and its band
    ``error_mean``, ``_median``, ``_std``  (shift, predictor, position)            all of them; means may not exist
    ``is_mean``                         (shift, predictor, position)               which of the two ``error`` is
    ``difference``, ``_low``, ``_high``  (shift, predictor, reference, position)   paired, minus that of a reference
    ``distance``                        (shift, predictor, reference, position)    squared, between the answers
    ``preference``, ``_low``, ``_high``  (shift, predictor, position)              distance to ``bayes_shifted`` minus
                                                                                   that to ``bayes_training``
    ``prompts``                         (shift, predictor)                         how many were asked
    ==================================  =========================================  =================================

    Args:
        data: the dataset; its attribute ``facts`` is the set-up as JSON. The attributes of each table say what it is,
            its units, and the ``normalizer`` that squared labels were divided by.
    """

    data: xr.Dataset

    @cached_property
    def facts(self) -> dict[str, Any]:
        """The set-up: law, prompts, runs, and in ``refused`` and ``left_out`` what is not there and why."""
        return json.loads(self.data.attrs["facts"])

    @property
    def shifts(self) -> tuple[str, ...]:
        """Labels of the shifts."""
        return tuple(map(str, self.data["shift"].values))

    @property
    def predictors(self) -> tuple[str, ...]:
        """Labels of runs, references and predictors."""
        return tuple(map(str, self.data["predictor"].values))

    @property
    def runs(self) -> tuple[str, ...]:
        """Those that are runs or models."""
        return tuple(n for n, k in zip(self.predictors, self.data["kind"].values, strict=True) if k == "run")

    @property
    def up_to_date(self) -> bool:
        """Whether the code that is running made these numbers."""
        return self.data.attrs.get("numerics") == numerics()

    def told_positions(self) -> tuple[int, ...]:
        """The positions of tables: half as many pairs as dimensions, as many, twice as many (or the last)."""
        dim, last = self.facts["dim"], self.facts["points"] - 1
        if self.facts["few"] == [last]:
            return (last,)
        return tuple(sorted({min(i, last) for i in (dim // 2, dim, 2 * dim)}))

    def follows(self, name: str, shift: str, position: int) -> str:
        """Which of the two Bayes predictors a predictor's answers are nearer to.

        Args:
            name: of the predictor.
            shift: the shift.
            position: pairs that are seen.

        Returns:
            ``algorithm`` (the one that knows the shift), ``prior`` (that of the training law), ``neither`` where the
            band of the difference has both signs or both are farther away than they are from each other, or nothing
            where the two are the same or not known.
        """
        here = self.data.sel(shift=shift, predictor=name, position=position)
        if not bool(self.data["references_differ"].sel(shift=shift)) or not np.isfinite(here["preference"]):
            return ""
        apart = self.data["distance"].sel(shift=shift, position=position, reference="bayes_shifted")
        near = min(float(here["distance"].sel(reference=name)) for name in ("bayes_shifted", "bayes_training"))
        if near > float(apart.sel(predictor="bayes_training")):
            return "neither"  # as one that answers 0, which is nearer to something
        if here["preference_high"] < 0:
            return "algorithm"
        return "prior" if here["preference_low"] > 0 else "neither"

    def save(self, path: str | Path) -> Path:
        """Write as a Zarr folder that holds a checksum of its numbers; a matrix that is there is replaced.

        Args:
            path: the folder; anything else that is there is refused.

        Returns:
            The path.
        """
        path = Path(path)
        free = not path.exists() or is_marked(path, MARK) or (path.is_dir() and not any(path.iterdir()))
        require(free, f"{path} is there already and is no stored matrix: choose another folder, or remove it")
        with new_folder(path) as temporary:
            sealed(self.data.assign_attrs({MARK: FORMAT})).to_zarr(temporary, mode="w", consolidated=False)
        return path

    @staticmethod
    def load(path: str | Path) -> Matrix:
        """The matrix that `save` wrote, its checksum verified.

        Args:
            path: the folder. One that is damaged or foreign raises `DamagedError`.

        Returns:
            The matrix.
        """
        path = Path(path)
        require(path.exists(), f"no stored matrix at {path}")
        data = read_sealed(path, "stored matrix")
        data.attrs.pop(SEAL, None)
        if data.attrs.pop(MARK, None) != FORMAT:
            raise DamagedError(f"{path} is no stored matrix of this version of iclearn")
        return Matrix(data)
