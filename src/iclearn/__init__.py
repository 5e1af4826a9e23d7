"""iclearn: the theory of in-context learning in attention.

    import iclearn as icl

    recipe = icl.Recipe(task=icl.LinearRegression(dim=4), model=icl.Attention("separate", num_heads=5),
                        init=icl.Init(1e-2), optimizer=icl.Optimizer(lr=0.02), steps=20_001)
    trace = icl.simulate(recipe)        # exact training, in seconds
    theory = icl.predict(trace)         # the theory of this very run, under the same names
    icl.find_plateaus(trace)            # where the loss waited, and where it fell
    trace.plot(theory=True)             # all of it in one picture

Subpackages one dot away: `icl.theory`, `icl.probes`, `icl.predictors`, `icl.papers`, `icl.tasks`, `icl.models`.
Names are imported when they are first used, so `import iclearn` is quick; `icl.configure()` says what importing the
numerical modules does to JAX.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import models, papers, probes, tasks, theory
    from .core.dataset import Arrays, Dataset
    from .core.errors import IclearnError
    from .core.jax_settings import configure
    from .core.model import AbstractModel, AbstractModelSpec
    from .core.prompt import Prompt
    from .core.recipe import Init, Optimizer, Recipe, Record
    from .core.status import Status
    from .core.task import AbstractTask
    from .core.trace import Trace
    from .engines.simulate import simulate, simulate_many
    from .engines.training_loss import TrainingLoss
    from .evaluation.matrix import evaluate
    from .evaluation.stored_matrix import Matrix
    from .models import predictors
    from .models.attention import Attention
    from .models.causal_transformer import CausalTransformer
    from .models.deep_attention import DeepAttention
    from .models.label_gram import MatrixAttention
    from .models.lsa import LSA
    from .models.softmax_layers import SoftmaxLayer
    from .models.transformer import LinearTransformer
    from .papers.base import Claim, Figure, Paper, Verdict
    from .probes.plateaus import find_plateaus
    from .report.reproduction import Report, reproduce
    from .store.npz import dataset_from, read_npz, weights_from
    from .store.runs import Store
    from .sweeps.api import sweep
    from .tasks.covariance import Covariance
    from .tasks.given import GivenData
    from .tasks.regression import LinearRegression
    from .tasks.softmax_regression import SoftmaxRegression
    from .theory.base import predict

_HOME = {
    "core.dataset": ("Arrays", "Dataset"),
    "core.errors": ("IclearnError",),
    "core.jax_settings": ("configure",),
    "core.model": ("AbstractModel", "AbstractModelSpec"),
    "core.prompt": ("Prompt",),
    "core.recipe": ("Init", "Optimizer", "Recipe", "Record"),
    "core.status": ("Status",),
    "core.task": ("AbstractTask",),
    "core.trace": ("Trace",),
    "engines.simulate": ("simulate", "simulate_many"),
    "engines.training_loss": ("TrainingLoss",),
    "evaluation.matrix": ("evaluate",),
    "evaluation.stored_matrix": ("Matrix",),
    "models.attention": ("Attention",),
    "models.causal_transformer": ("CausalTransformer",),
    "models.deep_attention": ("DeepAttention",),
    "models.label_gram": ("MatrixAttention",),
    "models.lsa": ("LSA",),
    "models.softmax_layers": ("SoftmaxLayer",),
    "models.transformer": ("LinearTransformer",),
    "papers.base": ("Claim", "Figure", "Paper", "Verdict"),
    "probes.plateaus": ("find_plateaus",),
    "report.reproduction": ("Report", "reproduce"),
    "store.npz": ("dataset_from", "read_npz", "weights_from"),
    "store.runs": ("Store",),
    "sweeps.api": ("sweep",),
    "tasks.covariance": ("Covariance",),
    "tasks.given": ("GivenData",),
    "tasks.regression": ("LinearRegression",),
    "tasks.softmax_regression": ("SoftmaxRegression",),
    "theory.base": ("predict",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}
_PACKAGES = {
    "models": "models", "papers": "papers", "predictors": "models.predictors", "probes": "probes", "tasks": "tasks",
    "theory": "theory",
}  # fmt: skip

__all__ = [
    "LSA", "AbstractModel", "AbstractModelSpec", "AbstractTask", "Arrays", "Attention", "CausalTransformer", "Claim",
    "Covariance", "Dataset", "DeepAttention", "Figure", "GivenData", "IclearnError", "Init", "LinearRegression",
    "LinearTransformer", "Matrix", "MatrixAttention", "Optimizer", "Paper", "Prompt", "Recipe", "Record", "Report",
    "SoftmaxLayer", "SoftmaxRegression", "Status", "Store", "Trace", "TrainingLoss", "Verdict", "__version__",
    "configure", "dataset_from", "evaluate", "find_plateaus", "models", "papers", "predict", "predictors", "probes",
    "read_npz", "reproduce", "simulate", "simulate_many", "sweep", "tasks", "theory", "weights_from",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(importlib.import_module(f"{__name__}.{_MODULE[name]}"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"{__name__}.{_PACKAGES[name]}")
    import difflib

    close = difflib.get_close_matches(name, __all__, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted(__all__)
