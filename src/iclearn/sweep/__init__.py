"""Sweeps: a grid of recipes to one labelled dataset, on one device or many machines, safe against kills.

The package is called like a function: ``iclearn.sweep(base, axes={…}, seeds=…)`` is `iclearn.sweep.api.sweep`.
"""

import sys
from types import ModuleType
from typing import Any

from .api import carry_out, make_plan, sweep
from .axes import Axis, read_axes
from .execute import run_chunk
from .plan import Plan, Reduce
from .spec_file import plan_from_file
from .status import Progress, status
from .store import SweepFolder

__all__ = [
    "Axis",
    "Plan",
    "Progress",
    "Reduce",
    "SweepFolder",
    "carry_out",
    "make_plan",
    "plan_from_file",
    "read_axes",
    "run_chunk",
    "status",
    "sweep",
]


class _Sweep(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return sweep(*args, **kwargs)


sys.modules[__name__].__class__ = _Sweep
