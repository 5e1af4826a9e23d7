"""Where and with what a harness run was made."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PEAK = {"NVIDIA H200": 66.9e12}  # float32 operations a second: 132 multiprocessors × 128 lanes × 2 × 1.98 GHz
PACKAGES = ("iclearn", "jax", "jaxlib", "equinox", "optax", "numpy", "torch")


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def machine() -> dict[str, Any]:
    """Device, processor, cores and memory."""
    import jax

    return {
        "device": str(jax.devices()[0].device_kind),
        "platform": jax.default_backend(),
        "cpu": cpu_model(),
        "cores": available_cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.machine()}",
    }


def source_digest() -> str:
    """What the numbers belong to: the first digits of the SHA-256 of all source files of iclearn."""
    import iclearn

    root = Path(iclearn.__file__).parent
    sha = hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        sha.update(file.relative_to(root).as_posix().encode() + file.read_bytes())
    return sha.hexdigest()[:12]


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that matter for speed; None where one is not installed."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def available_cores() -> int:
    """Cores this process may use, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
