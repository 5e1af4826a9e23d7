"""What iclearn asks of JAX: double precision, and compiled programs kept between runs.

Imported by every module that uses JAX, before the first array is made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from .counters import counting

CACHE_SWITCH = "ICLEARN_COMPILE_CACHE"
_TUNING = "xla_gpu_autotune_level"
_OWN_CHOICE = "ICLEARN_SET_XLA_FLAGS"  # that it was not the user's, for processes started from this one too


def compile_cache_dir() -> Path | None:
    """Where compiled programs are kept: `$ICLEARN_COMPILE_CACHE`, or a folder in the user's cache folder.

    Returns:
        The folder, or None where the variable says ``off`` (or ``0``, ``no``, ``false``).
    """
    choice = os.environ.get(CACHE_SWITCH, "")
    if choice.lower() in {"off", "0", "no", "false"}:
        return None
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(choice) if choice else base / "iclearn" / "compiled"


@dataclass(frozen=True)
class Settings:
    """What is set in JAX; `configure` returns it.

    Args:
        x64: whether double precision is on. iclearn switches it on, because plateaus are flat and initial weights may
            be as small as 1e-6; a run in float32 is a choice of its Recipe.
        matmul_precision: JAX's default precision of matrix products. iclearn sets ``highest``, because a GPU otherwise
            multiplies float32 matrices with ten bits of mantissa and rounds initial weights by 5e-4.
        compile_cache: folder in which compiled programs are kept between runs (None: they are not kept).
        gpu_autotuning: whether XLA tries out kernels for matrix products. iclearn switches it off: products here are
            mostly tiny, and trying takes most of the time to compile; models of large products are trained with it
            all the same (`tuning_options`). Read when the backend starts, with the first array.
    """

    x64: bool
    matmul_precision: str | None
    compile_cache: str | None
    gpu_autotuning: bool


def configure(
    *, x64: bool | None = None, matmul_precision: str | None = None, compile_cache: bool | str | Path | None = None
) -> Settings:
    """Report what importing iclearn's numerical modules has set in JAX, and change it.

    Without arguments it changes nothing. A choice that the user made before importing iclearn stands, except for double
    precision, which is always switched on.

    Args:
        x64: whether to compute in double precision.
        matmul_precision: JAX's default precision of matrix products.
        compile_cache: where compiled programs are kept: a folder, True for the usual one, False for nowhere.

    Returns:
        The settings now in force.

    >>> configure().x64
    True
    """
    for name, choice in (("jax_enable_x64", x64), ("jax_default_matmul_precision", matmul_precision)):
        if choice is not None:
            jax.config.update(name, choice)
    if compile_cache is False:
        jax.config.update("jax_compilation_cache_dir", None)
    elif compile_cache is not None:
        _use_compile_cache(compile_cache_dir() if compile_cache is True else Path(compile_cache))
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    precision = getattr(jax.config, "jax_default_matmul_precision", None)
    tuned = f"{_TUNING}=0" not in os.environ.get("XLA_FLAGS", "")
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


def tuning_options() -> dict[str, Any]:
    """What XLA is told about a program of large products: to try kernels out for them.

    Returns:
        Compiler options; none where there is no GPU, or where the user chose for all programs with ``XLA_FLAGS``.
    """
    return {_TUNING: 4} if _OWN_CHOICE in os.environ and jax.default_backend() == "gpu" else {}


def _set_up() -> None:
    """What importing this module sets in JAX."""
    jax.config.update("jax_enable_x64", True)
    if getattr(jax.config, "jax_default_matmul_precision", None) is None:
        jax.config.update("jax_default_matmul_precision", "highest")
    if _TUNING not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --{_TUNING}=0".strip()
        os.environ[_OWN_CHOICE] = "1"
    if not getattr(jax.config, "jax_compilation_cache_dir", None):
        _use_compile_cache(compile_cache_dir())


_set_up()


@contextmanager
def small_work() -> Iterator[Any]:
    """Make the CPU the default device inside the block, also where an accelerator is the default outside.

    For programs of many tiny steps: one run of an exact engine is a chain of products of a few hundred numbers, and a
    GPU takes longer to start each of them than a CPU to finish it.

    Yields:
        The device: the CPU, or JAX's default one where JAX has no CPU.
    """
    try:
        device = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # JAX_PLATFORMS leaves the CPU out
        device = jax.devices()[0]
    if jax.devices() == [device]:  # saying so again would compile every program a second time
        yield device
        return
    with jax.default_device(device):
        yield device


@dataclass(eq=False)
class CompileTime:
    """What `compile_meter` measures.

    Args:
        seconds: time spent compiling.
        programs: how many programs were compiled.
        cache_hits: how many of them came from the cache on disk.
    """

    seconds: float = 0.0
    programs: int = 0
    cache_hits: int = 0


_meters: ContextVar[tuple[CompileTime, ...]] = ContextVar("meters", default=())


def _on_duration(event: str, duration_secs: float, **_: object) -> None:
    if event.startswith("/jax/core/compile/"):
        for meter in _meters.get():
            meter.seconds += duration_secs
            meter.programs += event.endswith("backend_compile_duration")


def _on_event(event: str, **_: object) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        for meter in _meters.get():
            meter.cache_hits += 1


@contextmanager
def count_kept() -> Iterator[None]:
    """Count what the block loads as a program that came from the cache on disk."""
    begin = time.perf_counter()
    yield
    for meter in _meters.get():
        meter.seconds += time.perf_counter() - begin
        meter.programs += 1
        meter.cache_hits += 1


jax.monitoring.register_event_duration_secs_listener(_on_duration)
jax.monitoring.register_event_listener(_on_event)


def compile_meter() -> AbstractContextManager[CompileTime]:
    """Measure what this thread compiles inside the block.

    Returns:
        A context that gives a `CompileTime`, complete when the block ends.

    >>> with compile_meter() as spent:
    ...     _ = jax.jit(lambda x: x + 1)(1.0)
    >>> spent.programs >= 1
    True
    """
    return counting(_meters, CompileTime())
