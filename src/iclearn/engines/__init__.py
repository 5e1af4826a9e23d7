"""How the training loss is obtained, and the one loop that follows its gradient."""

from ..core.forms import Moments
from .base import AbstractEngine
from .build import Setup, prepare
from .quadratic import QuadraticEngine, stream_moments
from .samples import FreshEngine, SamplesEngine
from .simulate import simulate, simulate_many

__all__ = [
    "AbstractEngine", "FreshEngine", "Moments", "QuadraticEngine", "SamplesEngine", "Setup", "prepare", "simulate",
    "simulate_many", "stream_moments",
]  # fmt: skip
