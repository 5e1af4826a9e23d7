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


@dataclass(frozen=True)
class Settings:
    """What iclearn has set in JAX.

    Args:
        x64: double precision is on: plateaus are flat and initial weights as small as 1e-6; a float32 run is an
            explicit choice in the Recipe.
        matmul_precision: ``highest``: a GPU multiplies float32 matrices with ten bits of mantissa unless it is told
            not to, and would round initial weights by 5e-4.
        compile_cache: folder in which compiled programs are kept between runs (None: nowhere).
        gpu_autotuning: False: our matrix products are tiny, and trying out kernels for them costs a GPU program most of
            its time to compile. Read when the backend starts, with the first array.
    """

    x64: bool
    matmul_precision: str | None
    compile_cache: str | None
    gpu_autotuning: bool


def configure(
    *,
    x64: bool | None = None,
    matmul_precision: str | None = None,
    compile_cache: bool | str | Path | None = None,
) -> Settings:
    """Say what importing iclearn's numerical modules sets in JAX, and change it.

    Called without arguments it only reports. A choice that the user made before importing iclearn stands, but for
    double precision, which is always switched on.

    Args:
        x64: switch double precision.
        matmul_precision: JAX's default precision of matrix products.
        compile_cache: False: keep no compiled programs; True: in the usual place; or a folder.

    Returns:
        The settings now in force.

    >>> configure().x64
    True
    """
    if x64 is not None:
        jax.config.update("jax_enable_x64", x64)
    if matmul_precision is not None:
        jax.config.update("jax_default_matmul_precision", matmul_precision)
    if compile_cache is False:
        jax.config.update("jax_compilation_cache_dir", None)
    elif compile_cache is not None:
        _use_compile_cache(compile_cache_dir() if compile_cache is True else Path(compile_cache))
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    precision = getattr(jax.config, "jax_default_matmul_precision", None)
    tuned = "xla_gpu_autotune_level=0" not in os.environ.get("XLA_FLAGS", "")
    return Settings(bool(jax.config.jax_enable_x64), precision, folder, tuned)  # type: ignore[attr-defined]


def _use_compile_cache(folder: Path | None) -> None:
    if folder is None:
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


def _set_up() -> None:
    """What importing this module does, once."""
    jax.config.update("jax_enable_x64", True)
    if getattr(jax.config, "jax_default_matmul_precision", None) is None:
        jax.config.update("jax_default_matmul_precision", "highest")
    if "xla_gpu_autotune_level" not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0".strip()
    if not getattr(jax.config, "jax_compilation_cache_dir", None):
        _use_compile_cache(compile_cache_dir())


_set_up()


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
