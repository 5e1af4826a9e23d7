"""Closed forms and ODEs, one package a paper, each function citing its equation; shares no engine code.

`predict` gives the theory of a run; `icl.theory.zhang2025`, `icl.theory.xie2025`, `icl.theory.li2024`,
`icl.theory.depth` (ahn2023, oswald2023 and others), `icl.theory.diversity` (lu2025, letey2026) and
`icl.theory.functions` (Garg et al. 2022 and after) hold the formulas themselves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .base import AbstractTheory, Levels, levels_of, predict, theory_of

if TYPE_CHECKING:
    from . import depth, diversity, functions, li2024, xie2025, zhang2025

_PACKAGES = ("depth", "diversity", "functions", "li2024", "xie2025", "zhang2025")  # imported when first used

__all__ = [
    "AbstractTheory", "Levels", "depth", "diversity", "functions", "levels_of", "li2024", "predict", "theory_of",
    "xie2025", "zhang2025",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
