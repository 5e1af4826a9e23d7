"""Files and folders that are written whole or not at all: under a temporary name beside the target, then renamed.

Temporary names hold the number of the process that writes, so that what a killed process left behind can be told from
what another one is writing at this moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .processes import machine_token, process_lives

OLD_SECONDS = 86_400.0  # after which a temporary name of another machine, or of an earlier version, counts as left
_LEFT = re.compile(r"\.(?P<token>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{8}\.(partial|old)(\.|$)")


def _temporary(path: Path, ending: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.with_name(f".{path.name}.{_mark()}.partial{ending}")


def _mark() -> str:
    return f"{machine_token()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


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
    except OSError as error:
        raise _named(error, path) from None
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: str | Path, *, replace: bool = True) -> Iterator[Path]:
    """As `new_file`, for a folder, which the block makes itself; one that is there already is replaced.

    Several processes may write the same folder at once: the last to end is the one whose folder stays. A process that
    is killed between the two renames leaves the former folder under a temporary name; `recover` puts it back.

    Args:
        path: the folder to write. The caller has made sure that what is there may be replaced.
        replace: if not, the first to end is the one whose folder stays, and the others get a `FileExistsError`.

    Yields:
        A path beside it under which the block makes the folder.
    """
    path = Path(path)
    temporary = _temporary(path, "")
    retired: list[Path] = []
    try:
        yield temporary
        while True:
            try:
                os.rename(temporary, path)  # where nothing is there, or an empty folder
                break
            except OSError:
                if not path.exists():
                    raise
                if not replace:
                    raise FileExistsError(errno.EEXIST, "another process made it first", str(path)) from None
            former = path.with_name(f".{path.name}.{_mark()}.old")
            with contextlib.suppress(FileNotFoundError):  # another process took it away first
                os.rename(path, former)
                retired.append(former)
    except OSError as error:
        raise _named(error, path) from None
    finally:
        _remove(temporary)
        if retired and not path.exists():
            os.rename(retired.pop(), path)
        for former in retired:
            shutil.rmtree(former, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove a folder into which threads may still be writing, as zarr's do after one of them met a full disk."""
    for _ in range(20):
        if not folder.exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.1)


def _named(error: OSError, path: Path) -> OSError:
    """The error of writing `path`, saying where: the folder is gone, the disk is full, and so on."""
    if isinstance(error, FileNotFoundError) and not path.parent.is_dir():
        return FileNotFoundError(error.errno, "the folder was removed while it was written to", str(path.parent))
    if error.errno is None or (error.filename is not None and ".partial" not in str(error.filename)):
        return error
    return OSError(error.errno, error.strerror, str(path))


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


def recover(path: str | Path, *, whoever: bool = False) -> bool:
    """Put back a folder that a process was killed while replacing.

    Args:
        path: the folder that is missing.
        whoever: also where it cannot be known that the process is gone, after some waiting.

    Returns:
        Whether it was found and put back.
    """
    path = Path(path)
    for former in sorted(path.parent.glob(f".{path.name}.*.old")) if not path.exists() else ():
        if whoever or _abandoned(former):
            with contextlib.suppress(OSError):
                os.rename(former, path)
                return True
    return False


def being_replaced(path: str | Path) -> bool:
    """Whether a process is just now replacing the folder `path` (`new_folder`).

    Args:
        path: the folder that is missing for a moment.
    """
    path = Path(path)
    return any(not _abandoned(former) for former in path.parent.glob(f".{path.name}.*.old")) or path.exists()


def clear_leftovers(path: str | Path) -> None:
    """Remove what killed processes left beside `path` while they wrote it; what is being written now stays.

    Args:
        path: the file or folder whose temporary names are meant.
    """
    path = Path(path)
    for left in [*path.parent.glob(f".{path.name}.*.partial*"), *path.parent.glob(f".{path.name}.*.old")]:
        if _abandoned(left):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


def _abandoned(temporary: Path) -> bool:
    """Whether nobody is writing this any more: its process is gone or, where that cannot be known, it is a day old."""
    found = _LEFT.search(temporary.name)
    if found is not None and found["token"] == machine_token():
        return not process_lives(int(found["pid"]))
    try:
        return time.time() - temporary.stat().st_mtime > OLD_SECONDS
    except OSError:
        return False


def set_aside(path: str | Path) -> Path:
    """Move what is at `path` to a name beside it that says that it is damaged; nothing is deleted.

    Args:
        path: a file or folder.

    Returns:
        Its new path, ``NAME.damaged`` or ``NAME.damaged-2`` and so on.
    """
    path = Path(path)
    for number in range(1, 10_000):
        target = path.with_name(f"{path.name}.damaged" + (f"-{number}" if number > 1 else ""))
        if not target.exists():
            os.rename(path, target)
            return target
    raise FileExistsError(f"{path.parent} holds too many damaged copies of {path.name}: remove some")
