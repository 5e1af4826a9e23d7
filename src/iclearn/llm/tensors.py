"""Tensors on disk as safetensors: written whole or not at all, checked when read."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..core.errors import IclearnError
from .extra import need


def write_tensors(path: Path, tensors: Mapping[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        need("safetensors.numpy").save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, str(temporary))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_tensors(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named tensors of a file; anything else is refused."""
    try:
        found = need("safetensors.numpy").load_file(str(path))
    except FileNotFoundError:
        raise IclearnError(f"{path} does not exist") from None
    except IclearnError:
        raise
    except Exception as error:  # the package's own error type
        raise IclearnError(f"{path} is no safetensors file ({error}): remove it and run again") from None
    if set(found) != set(names):
        raise IclearnError(f"{path} holds {', '.join(sorted(found)) or 'nothing'}, not {', '.join(names)}")
    return found
