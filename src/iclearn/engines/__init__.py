"""How the training loss is obtained, and the one loop that follows its gradient."""

from .base import AbstractEngine
from .build import Setup, prepare
from .moments import Moments, MomentsEngine, stream_moments
from .population import PopulationEngine
from .samples import FreshEngine, SamplesEngine
from .simulate import simulate

__all__ = [
    "AbstractEngine",
    "FreshEngine",
    "Moments",
    "MomentsEngine",
    "PopulationEngine",
    "SamplesEngine",
    "Setup",
    "prepare",
    "simulate",
    "stream_moments",
]
