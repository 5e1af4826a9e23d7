"""The state of a run in progress on disk, from which the same recipe goes on."""

from __future__ import annotations

import time
import warnings
import zipfile
import zlib
from pathlib import Path

import numpy as np

from ..core.atomic import clear_leftovers, new_file
from ..core.errors import IclearnWarning
from ..core.hashing import digest_arrays
from ..core.provenance import numerics

_SEAL = "seal"


class DiskCheckpoint:
    """The state of a run in progress, in one file replaced whole; written at most every `seconds`.

    The file holds a checksum, and the version of the numerics that made it: one that is damaged, or that other code
    wrote, is not gone on from. `engines.simulate.Checkpointer` says what the methods are for.

    Args:
        path: the file.
        seconds: how often it is written at most.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds = path, seconds
        self._last = time.monotonic()
        self._warned = False

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.seconds

    def load(self) -> dict[str, np.ndarray] | None:
        if not self.path.is_file():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError):
            return None  # a damaged checkpoint costs time, not the run
        seal = arrays.pop(_SEAL, None)
        return arrays if seal is not None and str(seal) == _seal(arrays) else None

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        self._last = time.monotonic()
        try:
            with new_file(self.path) as temporary:
                np.savez(temporary, **arrays, **{_SEAL: np.asarray(_seal(arrays))})  # type: ignore[arg-type]
        except OSError as error:  # a full disk now need not be one at the end
            if not self._warned:
                reason = f"no checkpoint could be written to {self.path.parent}: {error.strerror or error}"
                warnings.warn(f"{reason}; the run goes on without", IclearnWarning, stacklevel=2)
            self._warned = True

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)
        clear_leftovers(self.path)


def _seal(arrays: dict[str, np.ndarray]) -> str:
    return f"{numerics()} {digest_arrays(sorted(arrays.items()))}"
