"""Generated source as modules: written into the user's cache under a name made of its hash, compiled there once.

Numba keeps compiled code beside the file it came from and knows for which processor and version it was made, so a
second process loads it in a few milliseconds.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from ...core.atomic import write_text
from ...core.jax_settings import compile_cache_dir

_loaded: dict[str, ModuleType] = {}
_lock = threading.Lock()


def load_module(source: str) -> ModuleType:
    """The module of a generated source, compiled.

    Args:
        source: Python with Numba's decorators; ``CACHE`` in it says whether compiled code is kept.

    Returns:
        The module; the same one for the same source.
    """
    name = f"iclearn_{hashlib.sha256(source.encode()).hexdigest()[:24]}"
    with _lock:
        if name not in _loaded:
            with _neighbors_vectorized():
                _loaded[name] = _import(name, source)
        return _loaded[name]


@contextmanager
def _neighbors_vectorized() -> Iterator[None]:
    """Numba's own switch for vectorizing neighboring lines, which is off by default, on while the block lasts."""
    config: Any = importlib.import_module("numba.core.config")
    before = config.SLP_VECTORIZE
    config.SLP_VECTORIZE = 1
    try:
        yield
    finally:
        config.SLP_VECTORIZE = before


def _import(name: str, source: str) -> ModuleType:
    folder = compile_cache_dir()
    if folder is not None:
        try:
            return _from_file(name, source, folder / "numba")
        except OSError:  # a read-only home is no reason to fail
            pass
    module = ModuleType(name)
    exec(compile(f"CACHE = False\n{source}", name, "exec"), vars(module))
    return module


def _from_file(name: str, source: str, folder: Path) -> ModuleType:
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(folder)
    path, text = folder / f"{name}.py", f"CACHE = True\n{source}"
    if not path.exists() or path.read_text() != text:  # its time of change is part of Numba's key
        write_text(path, text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # Numba looks it up by name when it reads its cache
    spec.loader.exec_module(module)
    return module
