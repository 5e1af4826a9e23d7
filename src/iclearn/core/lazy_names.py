"""Packages whose names are imported when they are first used: a run of one model need not wait for all others."""

from __future__ import annotations

import importlib
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
