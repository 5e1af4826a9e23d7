"""Processes of this machine: whether one that left its number in a file is still at work; and starting new ones."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import ModuleType


def usable_cores() -> int:
    """The cores this process may use, which may be fewer than the machine has.

    >>> usable_cores() >= 1
    True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _kernel_facts(pid: int) -> list[str]:
    """The state of a process, its parent and so on, from Linux; nothing elsewhere, or when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def process_start(pid: int) -> str:
    """When a process began, as the kernel counts it (Linux; elsewhere ""): numbers of processes are used again.

    Args:
        pid: its number.

    Returns:
        The time as text.
    """
    return "".join(_kernel_facts(pid)[19:20])


def process_lives(pid: int, start: str = "") -> bool:
    """Whether a process of this machine is at work.

    Args:
        pid: its number.
        start: when it began, as `process_start` says; a process that took over its number does not count.

    >>> process_lives(os.getpid())
    True
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    if _kernel_facts(pid)[:1] == ["Z"]:  # killed, and its parent has not looked yet
        return False
    return not start or process_start(pid) == start


@lru_cache
def machine_token() -> str:
    """Eight digits that stand for this machine since it was started, and for this container on it.

    Processes with the same token see each other's numbers.
    """
    parts = [socket.gethostname()]
    for read in (lambda: Path("/proc/sys/kernel/random/boot_id").read_text(), lambda: os.readlink("/proc/self/ns/pid")):
        try:
            parts.append(read())
        except OSError:
            continue
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:8]


@contextmanager
def no_main_module() -> Iterator[None]:
    """Processes started in the block do not run the script that this one was started with, which need not expect it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
