"""Ctrl-C: the work at hand is finished and saved, then the process ends; a second one ends it at once.

Python's own way, an exception at whatever line is running, ends in a crash when it comes while XLA compiles, and loses
what was computed since the last save. The command line therefore installs a handler that only takes a note. Work that
will be saved says so (`finishing`) and looks at the note where it can stop (`check`); while there is none, the process
ends at once: everything on disk is written whole or not at all, so nothing can be harmed. Without the handler, as in a
notebook, Ctrl-C is Python's KeyboardInterrupt.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CODE = 130  # the exit code of an interrupted command
LOOK = 0.5  # seconds between two looks at whether a parent process is still there


class Interrupted(KeyboardInterrupt):
    """The user asked to stop, and what was computed is saved; the message says how far it is."""


class _State:
    """What the process knows about interrupts."""

    requested = False
    resumes = False
    busy = 0
    name = ""
    lock = threading.Lock()


def install(name: str, *, resumes: bool = False) -> None:
    """Take Ctrl-C in this process from now on; to be called once, in its main thread.

    Args:
        name: of the command, for what is said ("": nothing is said, as in a worker process).
        resumes: whether the command stores what it computes and goes on from there.
    """
    _State.name, _State.resumes = name, resumes
    signal.signal(signal.SIGINT, _interrupted)
    signal.signal(signal.SIGTERM, _asked_to_end)


def _interrupted(*_: Any) -> None:
    if _State.requested or not _State.busy:
        leave(f"interrupted{'; the same command goes on from what is stored' if _State.resumes else ''}")
    _State.requested = True
    _say("stopping after the work at hand, which is saved; a second Ctrl-C stops at once")


def _asked_to_end(*_: Any) -> None:
    """A parent process passes the wish on; unlike a second Ctrl-C it does not hurry."""
    if not _State.busy:
        leave("")
    _State.requested = True


def end_with(parent: int) -> None:
    """Ask this process to end, as its parent would, when that process is gone; to be called once.

    Args:
        parent: the number of the parent process.
    """

    def watch() -> None:
        while True:
            time.sleep(LOOK)
            if os.getppid() != parent:
                _asked_to_end()  # which waits for what is being computed and will be saved

    threading.Thread(target=watch, daemon=True).start()


def leave(message: str) -> None:
    """End this process now, without Python's own way out, in which a compilation under way would crash.

    Args:
        message: the last words ("": none).
    """
    if message:
        _say(message)
    for child in multiprocessing.active_children():
        with contextlib.suppress(OSError, ValueError):
            child.terminate()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            if stream.isatty():
                stream.write("\x1b[?25h")  # a progress bar may have hidden the cursor
            stream.flush()
    os._exit(CODE)


def _say(message: str) -> None:
    if _State.name:
        with contextlib.suppress(OSError):
            os.write(2, f"{_State.name}: {message}\n".encode())


def requested() -> bool:
    """Whether the user asked to stop."""
    return _State.requested


@contextmanager
def finishing(really: bool = True) -> Iterator[None]:
    """Let Ctrl-C wait while the block computes something that it will save; the block calls `check` where it can stop.

    Args:
        really: False for a block that saves nothing.
    """
    with _State.lock:
        _State.busy += really
    try:
        yield
    finally:
        with _State.lock:
            _State.busy -= really


def check(message: str = "interrupted") -> None:
    """Stop here if the user asked for it.

    Args:
        message: how far the work is, and that it is saved.
    """
    if _State.requested:
        raise Interrupted(message)
