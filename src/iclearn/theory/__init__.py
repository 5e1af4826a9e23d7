"""Closed forms and ODEs, one package a paper, each function citing its equation; shares no engine code.

`predict` gives the theory of a run; `icl.theory.zhang2025`, `icl.theory.xie2025`, `icl.theory.li2024`,
`icl.theory.depth` (ahn2023, oswald2023 and others), `icl.theory.diversity` (lu2025, letey2026) and
`icl.theory.functions` (Garg et al. 2022 and after) hold the formulas themselves.
"""

from . import depth, diversity, functions, li2024, xie2025, zhang2025
from .base import AbstractTheory, Levels, levels_of, predict, theory_of

__all__ = [
    "AbstractTheory", "Levels", "depth", "diversity", "functions", "levels_of", "li2024", "predict", "theory_of",
    "xie2025", "zhang2025",
]  # fmt: skip
