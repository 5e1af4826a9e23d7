"""Whether runs are trained by compiled code, and by how many threads."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Literal

import jax

from ...core.errors import IclearnError
from ...core.processes import usable_cores
from ...core.rng import counter_streams

SWITCH = "ICLEARN_COMPILED"
THREADS = "ICLEARN_THREADS"
Choice = Literal["auto", "off", "require"]


@lru_cache
def numba_version() -> str | None:
    """The version of Numba, or None where it is not installed; Numba itself is not imported.

    Returns:
        The version.
    """
    if find_spec("numba") is None:
        return None
    try:
        return version("numba")
    except PackageNotFoundError:
        return None


def choice() -> Choice:
    """What `$ICLEARN_COMPILED` says: ``auto`` (the default: compiled code where Numba is installed and there is a
    compiled form), ``off``, or ``require`` (a run that has no compiled form is refused).

    Returns:
        The choice.
    """
    given = os.environ.get(SWITCH, "").lower() or "auto"
    named: dict[str, Choice] = {"auto": "auto", "off": "off", "0": "off", "no": "off", "false": "off"}
    named |= {"require": "require", "on": "require", "1": "require"}
    if given not in named:
        raise IclearnError(f"{SWITCH} is {given!r}: it must be auto, off or require")
    return named[given]


def available() -> bool:
    """Whether compiled code may be used: Numba is installed and not switched off.

    Returns:
        True where it may; Numba that is required and not there is refused.
    """
    chosen = choice()
    if chosen == "require" and numba_version() is None:
        raise IclearnError(f"{SWITCH} is require, but Numba is not installed: pip install 'iclearn[fast]'")
    return chosen != "off" and numba_version() is not None


def draws_here() -> bool:
    """Whether compiled code may draw what JAX would: it may be used, on one CPU, with the streams of counters.

    Returns:
        True where it may.
    """
    return available() and counter_streams() and jax.default_backend() == "cpu" and jax.device_count() == 1


def path_name(compiler: Literal["llvmlite", "numba"] = "llvmlite") -> str:
    """The name of this way to train, for the provenance.

    Args:
        compiler: what made the code: llvmlite, which comes with Numba, or Numba itself.
    """
    return f"compiled ({compiler} {version(compiler)})"


def thread_count() -> int:
    """Threads over runs: `$ICLEARN_THREADS`, or the cores this process may use.

    Returns:
        The number, at least 1. Results do not depend on it.
    """
    given = os.environ.get(THREADS, "")
    if given:
        if not given.isdigit() or int(given) < 1:
            raise IclearnError(f"{THREADS} is {given!r}: it must be a number of threads, at least 1")
        return int(given)
    return usable_cores()
