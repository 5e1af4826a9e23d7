"""The Recipe: a frozen, hashable, JSON-able description of one experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .checks import check_choice, check_int
from .errors import IclearnError
from .hashing import digest_arrays
from .model import AbstractModelSpec
from .spec import Spec
from .task import AbstractTask

EngineName = Literal["auto", "population", "moments", "samples"]
Rule = Literal["gd", "sgd", "momentum", "adam", "adamw", "flow"]
Scheme = Literal["per_head", "entries", "stacked", "given"]


@dataclass(frozen=True)
class Optimizer(Spec, kind="optimizer"):
    """How weights move. ``gd`` is full-batch gradient descent, ``flow`` its continuous limit (diffrax), the others
    are optax's. `batch_size` prompts a step (None: the whole training set)."""

    rule: Rule = "gd"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_choice("optimizer rule", self.rule, Rule)
        if not self.lr > 0:
            raise IclearnError(f"the learning rate must be positive, not {self.lr}")
        if not 0 <= self.momentum < 1:
            raise IclearnError(f"momentum must be in [0, 1), not {self.momentum}")
        if self.batch_size is not None:
            check_int("the batch size", self.batch_size, 1)
        if self.batch_size is not None and self.rule in ("gd", "flow"):
            raise IclearnError(f"{self.rule} uses every prompt at each step; with a batch size choose sgd or adam")


@dataclass(frozen=True)
class Init(Spec, kind="init"):
    """Initial weights: Gaussian of a scale under a scheme, or given by the user (then only their digest is here).

    Schemes (formulas in `iclearn.models.initialize`): ``entries`` and ``per_head`` are those of zhang2025's public code
    when its figures and its README were made, ``stacked`` is its newest.

    `zero_blocks`: the blocks that infinitely many prompts would leave at zero start there (the public code's choice).
    """

    shorthand: ClassVar[str] = "scale"

    scale: float = 0.01
    scheme: Scheme = "per_head"
    zero_blocks: bool = True
    digest: str = ""

    def __post_init__(self) -> None:
        check_choice("init scheme", self.scheme, Scheme)
        if not self.scale >= 0:
            raise IclearnError(f"the init scale must not be negative, not {self.scale}")

    @staticmethod
    def given(weights: Mapping[str, Any]) -> Init:
        """The init of a run that starts from these arrays: their digest makes it another recipe than other arrays."""
        return Init(scheme="given", digest=digest_arrays(sorted(weights.items())))


@dataclass(frozen=True)
class Record(Spec, kind="record"):
    """What to keep: the loss at every step always; weights at up to `weights` steps, dense where the loss moves."""

    weights: int = 200
    candidates: int = 2000

    def __post_init__(self) -> None:
        if self.weights < 0 or self.candidates < max(2, self.weights):
            raise IclearnError(
                f"record {self.weights} weights of {self.candidates} candidates: need 0 <= weights <= candidates, "
                "candidates >= 2"
            )


@dataclass(frozen=True)
class Recipe(Spec, kind="recipe"):
    """One experiment, whole: everything that changes the numbers is here, and nothing else.

    Args:
        task: the distribution of prompts.
        model: what is trained.
        init: how its weights begin.
        optimizer: how they move.
        steps: updates.
        engine: how the loss is obtained (``auto``: exactly, where that is possible).
        seed: the root of every random number.
        record: what is kept.
        dtype: precision of the training.

    >>> import iclearn as icl
    >>> icl.Recipe(task=icl.LinearRegression(dim=2), model=icl.Attention("separate", num_heads=3), steps=100)
    Recipe(task=LinearRegression(dim=2), model=Attention(family='separate', num_heads=3), steps=100)
    """

    former_names: ClassVar[dict[str, str]] = {"optimiser": "optimizer"}

    task: AbstractTask
    model: AbstractModelSpec
    init: Init = field(default_factory=Init)
    optimizer: Optimizer = field(default_factory=Optimizer)
    steps: int = 6001
    engine: EngineName = "auto"
    seed: int = 10
    record: Record = field(default_factory=Record)
    dtype: Literal["float64", "float32"] = "float64"

    def traceable_fields(self) -> frozenset[str]:
        """Fields, by dotted path, that change numbers and neither shapes nor the program."""
        own = ("seed", "init.scale", "optimizer.lr", "optimizer.momentum", "optimizer.weight_decay")
        return frozenset({*own, *(f"task.{name}" for name in self.task.traceable_fields())})

    def describe(self) -> str:
        return f"{self.model.describe()} on {self.task.describe()}, {self.steps} steps"

    def __post_init__(self) -> None:
        for name, cls in (("task", AbstractTask), ("model", AbstractModelSpec)):
            if not isinstance(getattr(self, name), cls):
                raise IclearnError(f"a recipe's {name} must be a {name}, not {type(getattr(self, name)).__name__}")
        check_choice("engine", self.engine, EngineName)
        check_choice("dtype", self.dtype, Literal["float64", "float32"])
        check_int("steps", self.steps, 1)
        check_int("the seed", self.seed, 0)
        if self.seed >= 2**63:
            raise IclearnError(f"the seed must be below 2^63, not {self.seed}")
