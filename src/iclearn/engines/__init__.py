"""How the training loss is obtained, and the one loop that follows its gradient."""

from ..core.forms import Moments
from .base import AbstractEngine
from .build import Setup, prepare
from .quadratic import QuadraticEngine, stream_moments
from .samples import FreshEngine, SamplesEngine
from .simulate import simulate, simulate_many
from .training_loss import TrainingLoss

__all__ = [
    "AbstractEngine", "FreshEngine", "Moments", "QuadraticEngine", "SamplesEngine", "Setup", "TrainingLoss", "prepare",
    "simulate", "simulate_many", "stream_moments",
]  # fmt: skip
