"""Where numbers come from: versions, machine, and the version of the numerics that made them."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import time
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# To be raised whenever a recipe may give other numbers than before (a formula, a random stream, the order of a sum).
NUMERICS = 4
_NUMERIC_PACKAGES = ("core", "tasks", "models", "engines", "theory")

_PACKAGES = ("jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "xarray", "zarr", "matplotlib")


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def versions(*packages: str) -> dict[str, str]:
    """Versions of what makes or draws numbers.

    Args:
        packages: names of packages (default: all that iclearn computes and draws with).

    Returns:
        Name → version of iclearn, of Python, of the numerics (`numerics`) and of each package.
    """
    from .. import __version__

    found = {"iclearn": __version__, "python": platform.python_version(), "numerics": numerics()}
    return found | {name: _version(name) for name in packages or _PACKAGES}


def _version(package: str) -> str:
    loaded = getattr(sys.modules.get(package), "__version__", None)  # reading it from the package's files takes 5 ms
    if isinstance(loaded, str):
        return loaded
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@lru_cache
def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def hardware() -> dict[str, Any]:
    """The machine, as the reproducibility card states it: processor, cores, machine and system."""
    machine = {"machine": platform.machine(), "system": platform.system()}
    return {"processor": processor(), "cores": os.cpu_count(), **machine}


def source_commit() -> str:
    """The commit of the source tree, or ``installed package`` where the package does not run from one."""
    command, here = ["git", "describe", "--always", "--dirty", "--abbrev=12"], Path(__file__).resolve().parent
    try:
        return subprocess.check_output(command, cwd=here, stderr=subprocess.DEVNULL, text=True, timeout=10).strip()
    except (OSError, subprocess.SubprocessError):
        return "installed package"


@lru_cache
def numerics() -> str:
    """Which code makes numbers in this process; it is kept with every result, so that older results are recognized.

    Returns:
        The version of the numerics, and ten digits of a hash of the source of all packages that compute numbers.
    """
    root = Path(__file__).resolve().parents[1]
    sha = hashlib.sha256()
    for file in sorted(file for package in _NUMERIC_PACKAGES for file in (root / package).rglob("*.py")):
        sha.update(f"{file.relative_to(root)}".encode() + file.read_bytes())
    return f"{NUMERICS}-{sha.hexdigest()[:10]}"


def numerics_of(provenance: dict[str, Any]) -> str:
    """The numerics that made a stored result.

    Args:
        provenance: the provenance stored with it.

    Returns:
        What `numerics` gave then; ``"0"`` for results that were stored without it.
    """
    return str(provenance.get("numerics", "0"))
