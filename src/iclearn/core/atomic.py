"""Files and folders that are written whole or not at all: under a temporary name beside the target, then renamed."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def _temporary(path: Path, ending: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.partial{ending}")


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """A temporary file that becomes `path` when the block ends without an error, and is removed otherwise.

    Args:
        path: the file to write; its folder is made if need be, and a file that is there already is replaced.

    Yields:
        A path beside it with the same ending, to write to.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "a.txt"
    >>> with new_file(target) as temporary:
    ...     _ = temporary.write_text("whole")
    >>> target.read_text()
    'whole'
    """
    path = Path(path)
    temporary = _temporary(path, path.suffix)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """As `new_file`, for a folder, which the block makes itself; one that is there already is replaced.

    Args:
        path: the folder to write.

    Yields:
        A path beside it under which the block makes the folder.
    """
    path = Path(path)
    temporary = _temporary(path, "")
    retired = temporary.with_suffix(".old")
    try:
        yield temporary
        if path.exists():
            os.rename(path, retired)
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(retired, ignore_errors=True)


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file whole (`new_file`).

    Args:
        path: the file.
        text: what it shall hold.

    Returns:
        The path written.
    """
    with new_file(path) as temporary:
        temporary.write_text(text)
    return Path(path)
