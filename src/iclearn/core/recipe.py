"""The Recipe: a frozen, hashable, JSON-able description of one experiment."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from .errors import IclearnError
from .spec import Spec

EngineName = Literal["auto", "population", "moments", "samples"]
Rule = Literal["gd", "sgd", "momentum", "adam", "adamw", "flow"]
Scheme = Literal["per_head", "entries", "stacked", "given"]


def one_of(name: str, value: object, choices: object) -> None:
    """Refuse a value outside a Literal, naming the choices."""
    allowed = get_args(choices)
    if value not in allowed:
        raise IclearnError(f"{name} must be one of {', '.join(map(str, allowed))}, not {value!r}")


def whole(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise IclearnError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise IclearnError(f"{name} must be at least {least}, not {value}")


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
        one_of("optimizer rule", self.rule, Rule)
        if not self.lr > 0:
            raise IclearnError(f"the learning rate must be positive, not {self.lr}")
        if not 0 <= self.momentum < 1:
            raise IclearnError(f"momentum must be in [0, 1), not {self.momentum}")
        if self.batch_size is not None:
            whole("the batch size", self.batch_size, 1)
        if self.batch_size is not None and self.rule in ("gd", "flow"):
            raise IclearnError(f"{self.rule} uses every prompt at each step; with a batch size choose sgd or adam")


@dataclass(frozen=True)
class Init(Spec, kind="init"):
    """Initial weights: Gaussian of a scale under a scheme, or given by the user (then only their digest is here).

    Schemes (formulas in `iclearn.models.initialize`): ``entries`` and ``per_head`` are those of zhang2025's public code
    when its figures and its README were made, ``stacked`` is its newest.

    `zero_blocks`: the blocks that infinitely many prompts would leave at zero start there (the public code's choice).
    """

    scale: float = 0.01
    scheme: Scheme = "per_head"
    zero_blocks: bool = True
    digest: str = ""

    def __post_init__(self) -> None:
        one_of("init scheme", self.scheme, Scheme)
        if not self.scale >= 0:
            raise IclearnError(f"the init scale must not be negative, not {self.scale}")

    @staticmethod
    def given(weights: Mapping[str, Any]) -> Init:
        """The init of a run that starts from these arrays: their digest makes it another recipe than other arrays."""
        from .prompt import weights_digest

        return Init(scheme="given", digest=weights_digest(weights))


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

    `task` and `model` are specs from `iclearn.tasks` and `iclearn.models`.
    """

    task: Spec
    model: Spec
    init: Init = field(default_factory=Init)
    optimizer: Optimizer = field(default_factory=Optimizer)
    steps: int = 6001
    engine: EngineName = "auto"
    seed: int = 10
    record: Record = field(default_factory=Record)
    dtype: Literal["float64", "float32"] = "float64"

    def __post_init__(self) -> None:
        one_of("engine", self.engine, EngineName)
        one_of("dtype", self.dtype, Literal["float64", "float32"])
        whole("steps", self.steps, 1)
        whole("the seed", self.seed, 0)
        if self.seed >= 2**63:
            raise IclearnError(f"the seed must be below 2^63, not {self.seed}")
