"""Named arrays before they are an `xarray.Dataset`: a run can be stored without importing xarray and pandas for it."""

from __future__ import annotations

import base64
import errno
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

_NO_VALUE = base64.standard_b64encode(struct.pack("<d", float("nan"))).decode()  # how xarray writes down a NaN


class Column(NamedTuple):
    """One array.

    Args:
        dims: names of its axes.
        values: the array.
        attrs: what is said of it.
    """

    dims: tuple[str, ...]
    values: np.ndarray
    attrs: dict[str, Any]


class Columns:
    """What an `xarray.Dataset` holds, as far as storing it needs.

    Args:
        variables: name → (axes, array) or (axes, array, attributes), as `xarray.Dataset` takes them.
        coords: likewise, of the coordinates.
        attrs: of the whole.

    >>> columns = Columns({"loss": ("step", [3.0, 2.0])}, {"step": ("step", [0, 1])}, {"run": 7})
    >>> columns.dataset().equals(columns.with_attrs({}).dataset()), columns.variables["loss"].dims
    (True, ('step',))
    """

    def __init__(self, variables: Mapping[str, Any], coords: Mapping[str, Any], attrs: Mapping[str, Any]) -> None:
        self.coords = {name: _column(*given) for name, given in coords.items()}
        self.variables = {**{name: _column(*given) for name, given in variables.items()}, **self.coords}
        self.attrs = dict(attrs)

    def dataset(self) -> xr.Dataset:
        """All of it as a dataset."""
        import xarray as xr

        data = {name: tuple(column) for name, column in self.variables.items() if name not in self.coords}
        return xr.Dataset(data, {name: tuple(column) for name, column in self.coords.items()}, self.attrs)

    def with_attrs(self, attrs: Mapping[str, Any]) -> Columns:
        """The same arrays with further attributes of the whole.

        Args:
            attrs: name → value.
        """
        return Columns(
            {name: column for name, column in self.variables.items() if name not in self.coords},
            self.coords,
            {**self.attrs, **attrs},
        )

    @property
    def plain(self) -> bool:
        """Whether all arrays are of numbers, which `write` knows how to write."""
        return all(column.values.dtype.kind in "iuf" for column in self.variables.values())

    def write(self, path: Path) -> None:
        """Write a Zarr folder: the one that ``dataset().to_zarr(path, consolidated=False)`` writes, byte by byte.

        Args:
            path: the folder.
        """
        import zarr
        from zarr.storage import MemoryStore

        files: dict[str, Any] = {}  # written below: half the time of a store of files, which changes threads for each
        group = zarr.open_group(MemoryStore(files), mode="w", zarr_format=3)
        beside = [name for name in self.coords if name not in self.coords[name].dims]  # those that index no axis
        for name, (dims, values, attrs) in self.variables.items():
            own = [other for other in beside if set(self.coords[other].dims) <= set(dims)]
            coordinates = {"coordinates": " ".join(own)} if own and name not in self.coords else {}
            missing = {"_FillValue": _NO_VALUE} if values.dtype.kind == "f" else {}
            array = group.create_array(
                name, shape=values.shape, dtype=values.dtype, fill_value=np.nan if missing else None,
                dimension_names=dims or None, attributes={**attrs, **coordinates, **missing},
            )  # fmt: skip
            array[...] = values
        group.update_attributes(self.attrs)
        for name in sorted(files, key=lambda name: name == "zarr.json"):  # last: a folder without it is no stored run
            file = path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(files[name].to_bytes())
        if not all((path / name / "zarr.json").exists() for name in self.variables):
            raise FileNotFoundError(errno.ENOENT, "the folder was removed while it was written to", str(path))


def _column(dims: str | tuple[str, ...], values: Any, attrs: Mapping[str, Any] | None = None) -> Column:
    return Column((dims,) if isinstance(dims, str) else tuple(dims), np.asarray(values), dict(attrs or {}))
