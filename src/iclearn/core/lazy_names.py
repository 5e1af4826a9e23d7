"""Imports at the time that suits: names when they are first used, and what will be needed beside other work."""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """What a package assigns to ``__getattr__`` and ``__dir__``.

    Args:
        package: its name.
        homes: module, relative to the package → names that are found there.

    Returns:
        The two functions.

    >>> get, names = lazy_names("iclearn.core", {".status": ("Status",)})
    >>> get("Status").FINISHED.label, names()
    ('finished', ['Status'])
    """
    modules = {name: module for module, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name], package), name)

    return get, lambda: sorted(modules)


def import_beside(module: str) -> None:
    """Import a module that will be needed in a thread, while XLA compiles or trains and leaves Python free.

    Args:
        module: its name.
    """
    if module not in sys.modules:
        threading.Thread(target=importlib.import_module, args=(module,), daemon=True).start()
