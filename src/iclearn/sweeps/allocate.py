"""The dataset of a sweep on disk before any run: coordinates in full, variables without a single chunk."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from .plan import Plan
from .schema import NOT_RUN, STATUS, Variable, coordinates, schema


def allocate(path: Path, plan: Plan) -> None:
    """Make the empty dataset.

    Args:
        path: of the Zarr folder.
        plan: of the sweep.
    """
    import zarr

    _write_coordinates(path, plan, "w")
    group = zarr.open_group(path, mode="r+")
    for name, variable in schema(plan).items():
        _create(group, plan, name, variable)


def restore(path: Path, plan: Plan) -> None:
    """Write again what is damaged or missing of the coordinates and of the descriptions of variables.

    The dataset of a sweep that was extended is lengthened. Numbers of runs are not touched; those of a variable whose
    description was lost no longer have the digests of the ledger, and are computed again.

    Args:
        path: of the Zarr folder.
        plan: of the sweep.
    """
    import xarray as xr
    import zarr

    expected = xr.Dataset(coords=coordinates(plan))
    group: Any = None
    try:
        group = zarr.open_group(path, mode="r+")
        sound = all(_same(group[str(name)], expected.variables[name]) for name in expected.variables)
    except Exception:  # whatever is wrong, it is written again
        sound = False
    if not sound:
        for name, variable in expected.variables.items():
            with contextlib.suppress(Exception):
                group[str(name)].resize(variable.shape)
        _write_coordinates(path, plan, "a")
    group = zarr.open_group(path, mode="r+")
    for name, variable in schema(plan).items():
        shape = (*plan.shape, *variable.sizes)
        stored: Any = None
        try:
            stored = group[name]
            kept = stored.ndim == len(shape) and stored.dtype == np.dtype(variable.dtype)
        except Exception:
            kept = False
        if not kept:
            _create(group, plan, name, variable)
        elif stored.shape != shape:
            stored.resize(shape)


def _write_coordinates(path: Path, plan: Plan, mode: Any) -> None:
    import xarray as xr

    attrs = {"iclearn_sweep": plan.name, "sweep_hash": plan.hash, "base": plan.base.to_json()}
    xr.Dataset(coords=coordinates(plan), attrs=attrs).to_zarr(path, mode=mode, consolidated=False, zarr_format=3)


def _same(stored: Any, expected: Any) -> bool:
    found, wanted = np.asarray(stored[...]), np.asarray(expected.values)
    if wanted.dtype.kind in "biuf":
        return found.shape == wanted.shape and np.array_equal(found, wanted)
    return [str(v) for v in found.ravel()] == [str(v) for v in wanted.ravel()]


def _create(group: Any, plan: Plan, name: str, variable: Variable) -> None:
    attributes: dict[str, Any] = {"long_name": variable.meaning}
    if name == "status":
        attributes["flag_values"] = [NOT_RUN, *range(len(STATUS))]
        attributes["flag_meanings"] = "not_run " + " ".join(status.label for status in STATUS)
    group.create_array(
        name, shape=(*plan.shape, *variable.sizes), chunks=(*plan.box_shape, *variable.sizes), dtype=variable.dtype,
        fill_value=variable.fill, dimension_names=(*(axis.name for axis in plan.axes), *variable.dims),
        attributes=attributes, overwrite=True,
    )  # fmt: skip
