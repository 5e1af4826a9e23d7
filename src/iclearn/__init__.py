"""iclearn: the theory of in-context learning in attention.

    import iclearn as icl

    recipe = icl.Recipe(task=icl.LinearRegression(dim=4), model=icl.Attention("separate", num_heads=5),
                        init=icl.Init(1e-2), optimizer=icl.Optimizer(lr=0.02), steps=10_001)
    trace = icl.simulate(recipe)
    trace.loss.plot()

Names are imported when they are first used, so `import iclearn` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .core.errors import IclearnError
    from .core.prompt import Arrays, Dataset, Prompt
    from .core.recipe import Init, Optimizer, Recipe, Record
    from .core.status import Status
    from .core.trace import Trace
    from .engines.simulate import simulate
    from .models.lsa import LSA
    from .models.spec import Attention
    from .store.npz import dataset_from, read_npz, weights_from
    from .store.runs import Store, recipe_of
    from .sweeps.api import sweep
    from .tasks.covariance import Covariance
    from .tasks.given import GivenData
    from .tasks.regression import LinearRegression

_HOME = {
    "IclearnError": "core.errors",
    "Arrays": "core.prompt",
    "Dataset": "core.prompt",
    "Prompt": "core.prompt",
    "Init": "core.recipe",
    "Optimizer": "core.recipe",
    "Recipe": "core.recipe",
    "Record": "core.recipe",
    "Status": "core.status",
    "Trace": "core.trace",
    "simulate": "engines.simulate",
    "LSA": "models.lsa",
    "Attention": "models.spec",
    "Store": "store.runs",
    "recipe_of": "store.runs",
    "dataset_from": "store.npz",
    "read_npz": "store.npz",
    "weights_from": "store.npz",
    "sweep": "sweeps.api",
    "Covariance": "tasks.covariance",
    "GivenData": "tasks.given",
    "LinearRegression": "tasks.regression",
}

__all__ = [
    "LSA",
    "Arrays",
    "Attention",
    "Covariance",
    "Dataset",
    "GivenData",
    "IclearnError",
    "Init",
    "LinearRegression",
    "Optimizer",
    "Prompt",
    "Recipe",
    "Record",
    "Status",
    "Store",
    "Trace",
    "__version__",
    "dataset_from",
    "read_npz",
    "recipe_of",
    "simulate",
    "sweep",
    "weights_from",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
        return globals().get(name, found)  # `sweep` is a package that can be called, and is here once imported
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
