"""Names that stand for things: kinds of specs, papers, theories, predictors and probes.

Each registry has three sources, looked at in this order: what was registered in this process, the table of what comes
with iclearn, and the entry points of installed packages. A third-party package joins with a line such as

    [project.entry-points."iclearn.specs"]
    my_task = "my_package.my_module:MyTask"

Nothing is imported before it is asked for.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from .errors import IclearnError


class Registry:
    """Names and where to find what they stand for.

    Args:
        what: the word for one entry, used in messages.
        group: entry-point group that other packages use.
        builtin: name → ``module:attribute``.

    >>> SPECS.get("init")(scale=0.1)
    Init(scale=0.1)
    """

    def __init__(self, what: str, group: str, builtin: Mapping[str, str]) -> None:
        self.what, self.group = what, group
        self._builtin = dict(builtin)
        self._registered: dict[str, Any] = {}

    def register(self, name: str, target: Any) -> None:
        """Let a name stand for something in this process, also where it stood for something else before.

        Args:
            name: the name.
            target: the object, or ``module:attribute``.
        """
        self._registered[name] = target

    def registered(self, name: str) -> Any | None:
        """What was registered in this process under a name, or None."""
        return self._registered.get(name)

    def found_elsewhere(self, name: str) -> Any | None:
        """What other processes find under a name, which is not what was registered in this one; None for nothing."""
        target = self._builtin.get(name) or self._installed().get(name)
        return None if target is None else pkgutil.resolve_name(target)

    def _installed(self) -> dict[str, str]:
        return {point.name: point.value for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """Every name: those of iclearn first, then those of this process and of installed packages."""
        return list(dict.fromkeys([*self._builtin, *self._registered, *self._installed()]))

    def get(self, name: str, where: str = "") -> Any:
        """What a name stands for; an unknown name is refused with the names there are.

        Args:
            name: the name.
            where: the place in a file, for the message.

        Returns:
            The object, imported if need be.
        """
        target = self._registered.get(name) or self._builtin.get(name) or self._installed().get(name)
        if target is None:
            told = f"{where}: " if where else ""
            raise IclearnError(f"{told}unknown {self.what} {name!r}; known are {', '.join(self.names())}")
        if isinstance(target, str):
            try:
                target = pkgutil.resolve_name(target)
            except (ImportError, AttributeError) as error:
                raise IclearnError(f"{self.what} {name!r} cannot be loaded from {target}: {error}") from error
            self._registered[name] = target
        return target


_SPECS = {
    "recipe": "iclearn.core.recipe:Recipe",
    "init": "iclearn.core.recipe:Init",
    "optimizer": "iclearn.core.recipe:Optimizer",
    "record": "iclearn.core.recipe:Record",
    "covariance": "iclearn.tasks.covariance:Covariance",
    "linear_regression": "iclearn.tasks.regression:LinearRegression",
    "varied_regression": "iclearn.tasks.varied_regression:VariedRegression",
    "pooled_regression": "iclearn.tasks.pooled_regression:PooledRegression",
    "task_covariance": "iclearn.tasks.task_covariance:TaskCovariance",
    "softmax_regression": "iclearn.tasks.softmax_regression:SoftmaxRegression",
    "function_class": "iclearn.tasks.function_class:FunctionClass",
    **{
        f"{name}_functions": f"iclearn.tasks.function_laws:{name.capitalize()}Functions"
        for name in ("linear", "sparse", "sign", "quadratic", "relu", "tree", "sinusoid")
    },
    "boolean_functions": "iclearn.tasks.boolean_functions:BooleanFunctions",
    "shift": "iclearn.tasks.prompt_shifts:Shift",
    "curriculum": "iclearn.tasks.curriculum:Curriculum",
    "given_data": "iclearn.tasks.given:GivenData",
    "attention": "iclearn.models.attention:Attention",
    "matrix_attention": "iclearn.models.label_gram:MatrixAttention",
    "lsa": "iclearn.models.lsa:LSA",
    "lsa_together": "iclearn.models.lsa_together:LSATogether",
    "linear_transformer": "iclearn.models.transformer:LinearTransformer",
    "causal_transformer": "iclearn.models.causal_transformer:CausalTransformer",
    "deep_attention": "iclearn.models.deep_attention:DeepAttention",
    "softmax_layer": "iclearn.models.softmax_layers:SoftmaxLayer",
    "reduce": "iclearn.sweeps.plan:Reduce",
    "optimiser": "iclearn.core.recipe:Optimizer",  # as format 1 of stored runs spells it
}
SPECS = Registry("kind", "iclearn.specs", _SPECS)
# The kinds that `task:` and `model:` mean where a table does not say its kind.
USUAL_KINDS = {"task": "linear_regression", "model": "attention"}

_PAPERS = (
    "zhang2025", "xie2025", "li2024", "xie2025-llm", "oswald2023", "ahn2023", "fu2024", "vladymyrov2024", "looped",
    "depth-rates", "raventos2023", "lu2025", "letey2026", "linear-transience",
    "garg2022",
)  # fmt: skip
PAPERS = Registry("paper", "iclearn.papers", {n: f"iclearn.papers.{n.replace('-', '_')}:PAPER" for n in _PAPERS})

_THEORIES = ("zhang2025", "xie2025")
THEORIES = Registry(
    "theory", "iclearn.theories",
    {
        **{n: f"iclearn.theory.{n}.of_recipe:THEORY" for n in _THEORIES},
        "ahn2023": "iclearn.theory.depth.of_recipe:THEORY",
        "lu2025": "iclearn.theory.diversity.of_recipe:LU",
        "letey2026": "iclearn.theory.diversity.of_recipe:LETEY",
    },
)  # fmt: skip

# Layouts of golden files, by the beginning of a file's name; the longest that fits (`papers.verifying`).
_LAYOUTS = {
    "merged": "zhang2025", "separate": "zhang2025", "mlp": "zhang2025", "ahn": "ahn2023", "oswald": "oswald2023",
    "predictors": "raventos2023",
    "predictors_d": "garg2022", "trees": "garg2022", "mlp_descent": "garg2022", "toy_clamp": "garg2022",
    "theory": "lu2025", "gamma": "lu2025", "finite": "lu2025", "published": "lu2025",
}  # fmt: skip
LAYOUTS = Registry(
    "layout of golden files", "iclearn.layouts",
    {
        **{name: f"iclearn.papers.{paper}.golden:recompute" for name, paper in _LAYOUTS.items()},
        **dict.fromkeys(("gpt2", "small"), "iclearn.papers.raventos2023.golden_transformer:recompute"),
        **{
            name: f"iclearn.papers.garg2022.law_golden:recompute_{name}"
            for name in ("tasks", "ood", "boolean", "bootstrap", "sinusoid")
        },
    },
)  # fmt: skip

PROBES = Registry("probe", "iclearn.probes", {})

_PREDICTORS = (
    "LeastSquares", "Ridge", "Bayes", "GradientDescent", "PCR", "EmpiricalPCR", "SoftmaxDescent", "StepFilter",
    "NewtonFilter", "RidgeFilter", "DiscreteMMSE", "SmoothedMMSE", "Oracle",
    "Averaging", "OnlineDescent", "ConjugateGradients", "NearestNeighbors", "MixedNoise", "Lasso", "Huber",
    "LeastAbsolute", "NetworkDescent", "ArcCosine", "GreedyTree", "BoostedTrees", "Logistic",
)  # fmt: skip
PREDICTORS = Registry("predictor", "iclearn.predictors", {n: f"iclearn.models.predictors:{n}" for n in _PREDICTORS})
