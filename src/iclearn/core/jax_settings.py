"""What iclearn asks of JAX: double precision, and compiled programs kept between runs.

Imported by every module that uses JAX, before the first array is made.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

# Plateaus are flat and initializations as small as 1e-6: double precision is the default, and a float32
# run is an explicit choice in the Recipe.
jax.config.update("jax_enable_x64", True)

# A GPU multiplies float32 matrices with ten bits of mantissa unless it is told not to: one product with the identity
# would round initial weights by 5e-4. A user's own choice stands.
if getattr(jax.config, "jax_default_matmul_precision", None) is None:
    jax.config.update("jax_default_matmul_precision", "highest")

# Our matrix products are tiny: trying out kernels for them costs a GPU program most of its time to compile, and gains
# nothing. A user's own choice stands. (Read when the backend starts, with the first array.)
if "xla_gpu_autotune_level" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0".strip()

CACHE_SWITCH = "ICLEARN_COMPILE_CACHE"


def compile_cache_dir() -> Path | None:
    """Where compiled programs are kept: `$ICLEARN_COMPILE_CACHE`, or the user's cache folder.

    None when the switch says ``off``, or when the user has configured JAX's own cache already.
    """
    choice = os.environ.get(CACHE_SWITCH, "")
    if choice.lower() in {"off", "0", "no", "false"}:
        return None
    if choice:
        return Path(choice)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "iclearn" / "compiled"


def _use_compile_cache() -> None:
    folder = compile_cache_dir()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # a read-only home is no reason to fail
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # The cache serves whole programs only: XLA's own side caches would add machine paths to its keys.
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


_use_compile_cache()


@contextmanager
def small_work() -> Iterator[Any]:
    """Where programs of many tiny steps run: the CPU, also where an accelerator is the default.

    One run of an exact engine is a chain of products of a few hundred numbers; a GPU takes longer to start each than a
    CPU to finish it.
    """
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        device = jax.devices()[0]
    with jax.default_device(device):
        yield device


@dataclass(eq=False)
class CompileTime:
    """Seconds spent compiling, how many programs were compiled, and how many came from the cache on disk."""

    seconds: float = 0.0
    programs: int = 0
    cache_hits: int = 0


class _Meters(threading.local):
    """The meters of one thread: runs side by side do not count each other's programs."""

    def __init__(self) -> None:
        self.open: list[CompileTime] = []


_meters = _Meters()


def _on_duration(event: str, duration_secs: float, **_: object) -> None:
    if event.startswith("/jax/core/compile/"):
        for meter in _meters.open:
            meter.seconds += duration_secs
            meter.programs += event.endswith("backend_compile_duration")


def _on_event(event: str, **_: object) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        for meter in _meters.open:
            meter.cache_hits += 1


jax.monitoring.register_event_duration_secs_listener(_on_duration)
jax.monitoring.register_event_listener(_on_event)


@contextmanager
def compile_meter() -> Iterator[CompileTime]:
    """Measure compilation inside the block.

    >>> with compile_meter() as spent:
    ...     _ = jax.jit(lambda x: x + 1)(1.0)
    >>> spent.programs >= 1
    True
    """
    meter = CompileTime()
    _meters.open.append(meter)
    try:
        yield meter
    finally:
        _meters.open.remove(meter)
