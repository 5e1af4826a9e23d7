"""Sweeps: a grid of recipes to one labeled dataset, on one device or many machines, safe against kills."""

from .api import carry_out, make_plan, plan_from_file, sweep
from .axes import Axis, read_axes
from .folder import SweepFolder
from .plan import Plan, Reduce
from .progress import Progress, status
from .runners import run_chunk

__all__ = [
    "Axis", "Plan", "Progress", "Reduce", "SweepFolder", "carry_out", "make_plan", "plan_from_file", "read_axes",
    "run_chunk", "status", "sweep",
]  # fmt: skip
