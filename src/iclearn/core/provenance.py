"""Where numbers come from: versions, machine, and the version of the numerics that made them."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import time
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Raised whenever the same recipe may give other numbers than before (a formula, a random stream, the order of a sum).
NUMERICS = 1
_NUMERIC_PACKAGES = ("core", "tasks", "models", "engines", "theory")

_PACKAGES = (
    "iclearn", "jax", "jaxlib", "equinox", "optax", "diffrax", "numpy", "scipy", "xarray", "zarr", "matplotlib",
)  # fmt: skip


def now() -> str:
    """The time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, of these packages (default: everything that makes or draws numbers), and of the numerics."""
    from .. import __version__

    found = {"iclearn": __version__, "python": platform.python_version(), "numerics": numerics()}
    for name in packages or _PACKAGES:
        if name not in found:
            try:
                found[name] = version(name)
            except PackageNotFoundError:
                found[name] = "not installed"
    return found


@lru_cache
def processor() -> str:
    """The processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def hardware() -> dict[str, Any]:
    """The machine, as the reproducibility card states it."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "system": platform.system(),
    }


def source_commit() -> str:
    """The commit of the source tree, where the package runs from one."""
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).resolve().parent, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "installed package"
    return asked.stdout.strip()


@lru_cache
def numerics() -> str:
    """The version of the numerics and a hash of the code behind it: which code makes numbers in this process.

    Results that other code made are recognized by it and said to be so; results without one are version 0.
    """
    root = Path(__file__).resolve().parents[1]
    files = sorted(file for package in _NUMERIC_PACKAGES for file in (root / package).rglob("*.py"))
    sha = hashlib.sha256()
    for file in files:
        sha.update(f"{file.relative_to(root)}".encode() + file.read_bytes())
    return f"{NUMERICS}-{sha.hexdigest()[:10]}"


def numerics_of(provenance: dict[str, Any]) -> str:
    """The numerics that made a stored result."""
    return str(provenance.get("numerics", "0"))
