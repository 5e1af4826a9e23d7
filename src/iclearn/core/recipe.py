"""The Recipe: a frozen, hashable, JSON-able description of one experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .checks import as_numbers, check_int, check_type, require
from .hashing import digest_arrays
from .model import AbstractModelSpec
from .spec import Spec
from .task import AbstractTask

EngineName = Literal["auto", "population", "moments", "samples", "gram"]
Rule = Literal["gd", "sgd", "momentum", "adam", "adamw", "flow"]
Scheme = Literal["per_head", "entries", "stacked", "given"]
Precision = Literal["float64", "float32"]


@dataclass(frozen=True)
class Optimizer(Spec, kind="optimizer"):
    """How weights move: W ← W − lr·∂L/∂W for gradient descent.

    Args:
        rule: ``gd`` full-batch gradient descent, ``flow`` its continuous limit (diffrax), ``sgd``, ``momentum``,
            ``adam`` and ``adamw`` as in optax.
        lr: learning rate.
        momentum: of rule ``momentum``.
        weight_decay: of rule ``adamw``.
        batch_size: prompts of a step (None: the whole training set).
        betas: β₁ and β₂ of ``adam`` and ``adamw``.
        eps: what these add to the root of the second moment.
        clip: largest norm of the gradient of all weights together; a longer one is scaled down to it.
        clip_each: largest norm of the gradient of one matrix, the last two axes of a weight array (arrays with fewer
            axes count as one), e.g. of each layer and head.
        halve_every: steps after which the learning rate is halved, again and again.
        frozen: names of weights that do not move.
        triangle: steps over which the learning rate goes from 0 to `lr`, during their first half, and back to 0. Update
            0, 1, … has the rate of its number: the first one has rate 0. Beyond these steps it stays 0.
        decayed: names of the weights that the weight decay of ``adamw`` is for (none named: all of them).
        cosine: steps over which the learning rate goes from `lr` to 0 along half a cosine, those of the warm-up
            included. Beyond these steps it stays 0.
        warmup: the first of them, over which it goes from 0 to `lr`: the first update has rate 0.

    >>> Optimizer("adam", lr=0.01, batch_size=64)
    Optimizer(rule='adam', lr=0.01, batch_size=64)
    """

    how_to_make: ClassVar[str] = (
        'Optimizer("adam", lr=0.01); how to train with an optimizer of optax is on the page docs/extending.md'
    )
    later_fields: ClassVar[tuple[str, ...]] = (
        "betas", "eps", "clip", "clip_each", "halve_every", "frozen", "triangle", "decayed", "cosine",
        "warmup",
    )  # fmt: skip

    rule: Rule = "gd"
    lr: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 1e-4
    batch_size: int | None = None
    betas: tuple[float, ...] = (0.9, 0.999)
    eps: float = 1e-8
    clip: float | None = None
    clip_each: float | None = None
    halve_every: int | None = None
    frozen: tuple[str, ...] = ()
    triangle: int | None = None
    decayed: tuple[str, ...] = ()
    cosine: int | None = None
    warmup: int = 0

    @property
    def plain(self) -> bool:
        """Whether nothing but the rule and its numbers is asked for, which is what written-out steps know."""
        return not set(self.changed_fields()) & set(self.later_fields)

    def __post_init__(self) -> None:
        for name in ("betas", "frozen", "decayed"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        require(self.lr > 0, f"the learning rate must be positive, not {self.lr}")
        require(0 <= self.momentum < 1, f"momentum must be in [0, 1), not {self.momentum}")
        if self.batch_size is not None:
            check_int("the batch size", self.batch_size, 1)
            whole = f"{self.rule} uses every prompt at each step; with a batch size choose sgd or adam"
            require(self.rule not in ("gd", "flow"), whole)
        if self.plain:
            return
        require(self.rule != "flow", "a gradient flow has no betas, clipping, schedule or frozen weights: choose gd")
        of_adam = (self.betas, self.eps) == ((0.9, 0.999), 1e-8) or self.rule in ("adam", "adamw")
        require(of_adam, f"betas and eps are those of adam and adamw; the rule is {self.rule}")
        right = len(self.betas) == 2 and all(0 <= beta < 1 for beta in self.betas)
        require(right, f"betas are two numbers in [0, 1), not {list(self.betas)}")
        require(self.eps > 0, f"eps must be positive, not {self.eps}")
        for name in ("clip", "clip_each"):
            limit = getattr(self, name)
            require(limit is None or limit > 0, f"{name} must be positive (None: no clipping), not {limit}")
        if self.halve_every is not None:
            check_int("halve_every", self.halve_every, 1)
        if self.triangle is not None:
            check_int("triangle", self.triangle, 2)
        if self.cosine is not None:
            check_int("cosine", self.cosine, 1)
        check_int("warmup", self.warmup, 0)
        inside = self.warmup < (self.cosine or 0) or self.warmup == 0
        require(inside, f"a warm-up of {self.warmup} steps belongs to a longer cosine, not to {self.cosine} steps")
        decays = not self.decayed or self.rule == "adamw"
        require(decays, f"decayed weights are those of adamw; the rule is {self.rule}")


@dataclass(frozen=True)
class Init(Spec, kind="init"):
    """How weights begin: Gaussian of some scale, or given by the user (then only their digest is here).

    Args:
        scale: size of the weights; each model says which standard deviation that is for each of them.
        scheme: as `models.initialize` defines them: ``entries`` and ``per_head`` are those of zhang2025's code when
            its figures and its README were made, ``stacked`` is its newest; or ``given``.
        zero_blocks: whether the blocks of full attention that stay at zero under infinitely many prompts start there
            (the public code's choice).
        digest: of given weights.

    >>> Init(0.1)
    Init(scale=0.1)
    """

    shorthand: ClassVar[str] = "scale"

    scale: float = 0.01
    scheme: Scheme = "per_head"
    zero_blocks: bool = True
    digest: str = ""

    def __post_init__(self) -> None:
        require(self.scale >= 0, f"the init scale must be a number of at least 0, not {self.scale}")

    @staticmethod
    def given(weights: Mapping[str, Any]) -> Init:
        """The init of a run that starts from given weights, which are passed to `simulate` as ``weights=``.

        Args:
            weights: name → weight array.

        Returns:
            An init that holds their digest, so that other weights make another recipe.
        """
        check_type("given weights", weights, Mapping, "a table from names to arrays")
        for name, weight in weights.items():
            as_numbers(f"weight {name}", weight)
        return Init(scheme="given", digest=digest_arrays(sorted(weights.items())))


@dataclass(frozen=True)
class Record(Spec, kind="record"):
    """What is kept of a run besides the loss, which is kept at every step.

    Args:
        weights: at how many steps at most the weights are kept, the last included; more of them where the loss moves.
        candidates: at how many evenly spaced steps they are looked at, of which those are chosen. One less than
            `weights` keeps all of them.

    >>> Record(weights=50)
    Record(weights=50)
    """

    weights: int = 200
    candidates: int = 2000

    def __post_init__(self) -> None:
        given = f"record {self.weights} weights of {self.candidates} candidates"
        possible = self.weights >= 0 and self.candidates >= max(2, self.weights - 1)  # and those at the end
        require(possible, f"{given}: need 0 <= weights <= candidates + 1, candidates >= 2")


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

    A recipe prints what differs from the defaults; `hash` is the same on every machine.

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
    dtype: Precision = "float64"

    def traceable_fields(self) -> frozenset[str]:
        """Fields, by dotted path, that change numbers and neither shapes nor the program.

        Returns:
            Their paths; runs that differ in nothing else can be trained side by side.
        """
        own = ("seed", "init.scale", "optimizer.lr", "optimizer.momentum", "optimizer.weight_decay")
        return frozenset({*own, *(f"task.{name}" for name in self.task.traceable_fields())})

    def describe(self) -> str:
        return f"{self.model.describe()} on {self.task.describe()}, {self.steps} steps"

    def __post_init__(self) -> None:
        for name, cls in (("task", AbstractTask), ("model", AbstractModelSpec)):
            given = getattr(self, name)
            require(isinstance(given, cls), f"a recipe's {name} must be a {name}, not {type(given).__name__}")
        check_int("steps", self.steps, 1)
        check_int("the seed", self.seed, 0)
        require(self.seed < 2**63, f"the seed must be below 2^63, not {self.seed}")
