"""Datasets on disk that hold a checksum of their own numbers, so that damage is seen and never believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import DamagedError
from .hashing import digest_arrays
from .memory import memory_bytes

if TYPE_CHECKING:
    import xarray as xr

    from .columns import Columns

SEAL = "content_sha256"


def content_digest(data: xr.Dataset | Columns) -> str:
    """SHA-256 of everything in a dataset: names, dimensions, numbers and attributes of all variables, which of them are
    coordinates, and its own attributes.

    Args:
        data: the dataset; an attribute that holds an earlier seal does not count.

    Returns:
        64 hexadecimal digits, the same before the dataset is written and after it is read.
    """
    arrays = [(f"{name}{data.variables[name].dims}", _plain(data.variables[name].values)) for name in _names(data)]
    attributes = {str(name): value for name, value in data.attrs.items() if name != SEAL}
    roles = {name: [name in data.coords, dict(data.variables[name].attrs)] for name in _names(data)}
    text = json.dumps([attributes, roles], sort_keys=True, default=lambda value: np.asarray(value).tolist())
    return digest_arrays([*arrays, ("attributes", np.array([text], object))], one_nan=True)


def _names(data: xr.Dataset | Columns) -> list[str]:
    return sorted(map(str, data.variables))


def _plain(values: Any) -> np.ndarray:
    """Numbers as they are, words as Python's: files keep words, and not how many bytes each was given."""
    array = np.asarray(values)
    return array if array.dtype.kind in "biufc" else np.array([str(v) for v in array.astype(object).ravel()], object)


def sealed(data: xr.Dataset) -> xr.Dataset:
    """The dataset with its checksum among its attributes.

    >>> import xarray as xr
    >>> len(sealed(xr.Dataset({"a": ("x", np.arange(3))})).attrs[SEAL])
    64
    """
    return data.assign_attrs({SEAL: content_digest(data)})


def is_marked(path: Path, mark: str) -> bool:
    """Whether a folder is a Zarr group that holds an attribute; a damaged or foreign folder has none.

    Args:
        path: the folder.
        mark: name of the attribute.
    """
    try:
        attributes = json.loads((path / "zarr.json").read_text())["attributes"]
        return isinstance(attributes, dict) and mark in attributes
    except (OSError, ValueError, KeyError, TypeError):
        return False


def read_sealed(path: Path, what: str) -> xr.Dataset:
    """A dataset from a Zarr folder, in memory, its checksum verified where it has one (earlier formats have none).

    Args:
        path: the folder.
        what: what it should be, for messages.

    Returns:
        The dataset. Whatever is wrong with the folder raises `DamagedError`.
    """
    import xarray as xr

    try:
        lazy = xr.open_zarr(path, consolidated=False, chunks=None)
    except PermissionError:
        raise
    except Exception as error:
        raise DamagedError(f"{path} is not a {what}: {_in_one_line(error)}") from None
    if lazy.nbytes > memory_bytes():
        raise DamagedError(f"{path} declares {lazy.nbytes / 1e9:.3g} GB of numbers, more than the memory here")
    try:
        data = lazy.load()
        seal = data.attrs.get(SEAL)
        sound = seal is None or seal == content_digest(data)
    except PermissionError:
        raise
    except Exception as error:
        raise DamagedError(f"{path} is a damaged {what}: {_in_one_line(error)}") from None
    if not sound:
        raise DamagedError(f"{path} is a damaged {what}: its numbers do not have the checksum stored with them")
    return data


def _in_one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
