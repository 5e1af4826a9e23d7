"""Function classes in context: prompts whose labels are a function drawn anew for every one (Garg et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from ..core.checks import check_int, require
from ..core.errors import IclearnError
from ..core.forms import as_array
from ..core.prompt import Batch
from ..core.rng import random_rotation, stream
from ..core.task import AbstractTask
from .curriculum import Curriculum
from .function_laws import AbstractFunctions, LinearFunctions, Parameters, SparseFunctions
from .function_points import FunctionSource, Points
from .prompt_shifts import OF_INPUTS, OF_PRIOR, OF_QUERIES, Shift

TEST, POOL = "test", "pool"
Target = Literal["shown", "clean"]


@dataclass(frozen=True)
class FunctionClass(AbstractTask, kind="function_class"):
    """Prompts of N = context_len + 1 points, labeled by a function of their own; every position is asked.

    Inputs are N(0, I) unless the law of functions says otherwise. Shifts change the law of test sets, or of all
    prompts: training and test law are one recipe.

    Args:
        dim: d, the dimension of the inputs.
        context_len: pairs before the last point.
        functions: the law of functions (`LinearFunctions`, `SparseFunctions`, `SignFunctions`, `QuadraticFunctions`,
            `ReluFunctions`, `TreeFunctions`, `SinusoidFunctions`, `BooleanFunctions`).
        noise: σ², the variance of the noise on labels.
        renormalize: labels are scaled to variance dim afterwards, 64 prompts together, as in G's noisy regression.
        target: ``shown``: the loss is measured against labels with noise (the public codes); ``clean``: without.
        num_tasks: size of a pool of functions that are drawn once; a batch takes distinct ones (None: every prompt has
            a function of its own).
        shift: of all prompts (None: none); one of a test set takes its place there.
        curriculum: how prompts grow in training (None: full size from the first step on).
        num_prompts: size of a fixed training set (None: fresh prompts at every step).
        test_prompts: size of the test sets: ``test``, with new functions; ``pool``, with those of the pool; and one
            for every shift, by its label, all from the same draws. 0 for none.
        test_shifts: of further test sets.
        prefixes: the loss is averaged over all N positions; else the last alone.

    >>> task = FunctionClass(dim=2, context_len=3, num_prompts=5, test_prompts=6, test_shifts=(Shift("scale_x", 2.0),))
    >>> task.tests, task.source(0, "float64", "scale_x=2").sequences().x.shape
    (('test', 'scale_x=2'), (6, 4, 2))
    """

    dim: int = 5
    context_len: int = 10
    functions: AbstractFunctions = field(default_factory=LinearFunctions)
    noise: float = 0.0
    renormalize: bool = False
    target: Target = "shown"
    num_tasks: int | None = None
    shift: Shift | None = None
    curriculum: Curriculum | None = None
    num_prompts: int | None = None
    test_prompts: int = 0
    test_shifts: tuple[Shift, ...] = ()
    prefixes: bool = True

    _stage: ClassVar[tuple[Any, Any] | None] = None  # dimensions and points of a step, on copies made by `at_step`

    def __post_init__(self) -> None:
        if isinstance(self.test_shifts, list):
            object.__setattr__(self, "test_shifts", tuple(self.test_shifts))
        check_int("dim", self.dim, 1)
        check_int("context_len", self.context_len, 1)
        for name in ("num_tasks", "num_prompts"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        check_int("test_prompts", self.test_prompts, 0)
        noise = self.noise
        require(0 <= noise < np.inf, f"the noise variance must be finite and not negative, not {noise}")
        exact = not (self.functions.signs and (noise or self.renormalize))
        require(exact, f"labels of {self.functions.kind} are ±1: they take no noise and are not renormalized")
        self.functions.check_dim(self.dim)
        for shift in self.shifts():
            self._check_shift(shift)
        labels = [shift.label for shift in self.test_shifts]
        require(len(set(labels)) == len(labels), f"test shifts must differ: {', '.join(labels)}")
        self._check_curriculum()

    def _check_shift(self, shift: Shift) -> None:
        law, name = self.functions, shift.name
        kind = f"{law.kind} cannot take the shift {name}"
        require(law.normal_inputs or name not in OF_INPUTS | OF_QUERIES, f"{kind}: its inputs are not N(0, I)")
        require(law.normal_weights or name not in OF_PRIOR, f"{kind}: it has no weights N(0, I)")
        real = not law.signs or name not in ("scale_y", "noise", "noise_tails", "noisyLR")
        require(real, f"{kind}: its labels are ±1")
        require(name != "noise_tails" or self.noise, "noise_tails changes the law of the noise, and there is none")
        require(name != "orthogonal_line" or self.dim > 1, "orthogonal_line needs inputs of at least two dimensions")
        require(name != "half_subspace" or self.dim > 1, "half_subspace needs inputs of at least two dimensions")
        require(name != "length" or self._points(shift) > 1, f"{shift.label} leaves no pairs before the query")

    def _check_curriculum(self) -> None:
        plan = self.curriculum
        if plan is None:
            return
        require(self.num_prompts is None, "a curriculum needs fresh prompts: leave num_prompts at None")
        require(self.prefixes, "a curriculum of points needs prefixes")
        require(self.functions.normal_inputs, f"{self.functions.kind} has no curriculum: its inputs are not N(0, I)")
        ends = (plan.dims_end, plan.points_end)
        wanted = (self.dim, self.context_len + 1)
        require(ends == wanted, f"the curriculum ends at (dims, points) {ends}, and the task has {wanted}")
        if isinstance(self.functions, SparseFunctions):
            enough = plan.dims_start >= self.functions.sparsity
            require(enough, f"{plan.dims_start} dimensions cannot hold {self.functions.sparsity} entries")

    @property
    def out_dim(self) -> int:  # type: ignore[override]
        return 1

    @property
    def normalizer(self) -> float:
        """What squared errors are divided by, so that answering 0 scores 1 without noise and shifts."""
        return self.functions.normalizer(self.dim)

    def shifts(self) -> tuple[Shift, ...]:
        """All shifts: that of all prompts and those of test sets."""
        return (*(() if self.shift is None else (self.shift,)), *self.test_shifts)

    @property
    def tests(self) -> tuple[str, ...]:
        if not self.test_prompts:
            return ()
        pool = () if self.num_tasks is None else (POOL,)
        return (TEST, *pool, *(shift.label for shift in self.test_shifts))

    def shift_of(self, which: str = "train") -> Shift | None:
        """The shift of a set.

        Args:
            which: ``train`` or the name of a test set.

        Returns:
            The shift, or None.
        """
        if which in ("train", TEST, POOL):
            return self.shift
        found = {shift.label: shift for shift in self.test_shifts}
        require(which in found, f"the sets of this task are train, {', '.join(self.tests)}; there is no {which}")
        return found[which]

    def _points(self, shift: Shift | None) -> int:
        longer = shift.size if shift is not None and shift.name == "length" else 1.0
        return round((self.context_len + 1) * longer)

    def context_lengths(self, which: str = "train") -> range:
        last = self._points(self.shift_of(which)) - 1
        return range(0 if which == "train" and self.prefixes else last, last + 1)

    @property
    def gives_sequences(self) -> bool:
        return self.shift is None or self.shift.name not in OF_QUERIES

    def numbers_per_prompt(self) -> int:
        longest = max(self._points(shift) for shift in (None, *self.shifts()))
        return longest * (self.dim + 1)

    def fresh_parameters(self) -> dict[str, Any]:
        return {} if self.functions.signs else {"noise": self.noise}

    def at_step(self, step: Array) -> FunctionClass:
        return self if self.curriculum is None else self.unchecked(_stage=self.curriculum.at(step))

    def with_prompts(self, count: int) -> FunctionClass:
        few = self.num_prompts if self.num_prompts is None else min(self.num_prompts, count)
        return self.replace(num_prompts=few, test_prompts=min(self.test_prompts, count))

    def describe(self) -> str:
        sizes = f"{self.functions.describe()} D={self.dim} N={self.context_len}"
        return sizes if self.shift is None else f"{sizes} {self.shift.label}"

    def pool(self, seed: int | Array, numbers: Int[Array, " task"] | None = None) -> Parameters:
        """Functions of the pool; each depends on its number alone.

        Args:
            seed: the root seed; may be traced.
            numbers: (task) which (None: all).

        Returns:
            Name → (task, …) array of double precision.
        """
        if numbers is None:
            if self.num_tasks is None:
                raise IclearnError("this task has infinitely many functions: say which with numbers")
            numbers = jnp.arange(self.num_tasks)
        key = stream(seed, "tasks")
        return jax.vmap(lambda n: self.functions.draw(jax.random.fold_in(key, n), self.dim, "float64"))(numbers)

    def transform(self, seed: int | Array, which: str = "train") -> Float[Array, "dim dim"] | None:
        """The matrix T of inputs x = g·T, symmetric, with the random rotation of a set.

        Args:
            seed: the root seed; may be traced.
            which: ``train`` or the name of a test set.

        Returns:
            (dim, dim) T, or None where it is the identity.
        """
        shift = self.shift_of(which)
        deviations = None if shift is None else shift.deviations(self.dim)
        if deviations is None:
            return None
        turn = random_rotation(stream(seed, "shift"), self.dim)
        return (turn * as_array(deviations)) @ turn.T

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> FunctionSource:
        count = self.num_prompts if which == "train" else self.test_prompts
        if count is None:
            raise IclearnError("this task has fresh prompts at every step: there is no fixed set to draw")
        shift = self.shift_of(which)
        std: Any = self.noise**0.5
        if shift is not None and shift.name in ("noise", "noisyLR"):
            std = shift.size
        dims, points = (None, None) if self._stage is None or which != "train" else self._stage
        return FunctionSource(
            key=stream(seed, "data.train" if which == "train" else "data.test"),  # paired: one draw, every shift
            num_prompts=count,
            prompt_size=self.numbers_per_prompt(),
            dtype=jnp.dtype(dtype).name,
            functions=self.functions,
            shift="" if shift is None else shift.name,
            amount=as_array(1.0 if shift is None else shift.size, jnp.float64),
            noise_std=as_array(std, jnp.float64),
            transform=self.transform(seed, which),
            pool_key=stream(seed, "tasks"),
            num_tasks=self.num_tasks if which in ("train", POOL) else None,
            points=self._points(shift),
            dim=self.dim,
            renormalize=self.renormalize or (shift is not None and shift.name == "noisyLR"),
            noisy=not (isinstance(std, int | float) and std == 0),  # traced noise may be any
            clean=self.target == "clean",
            dims=dims,
            loss_points=points,
        )

    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch:
        drawn = eqx.tree_at(lambda s: s.key, self.unchecked(num_prompts=batch_size).source(seed, dtype), key)
        return drawn.everything(self.context_lengths() if self.prefixes else 0)

    def evaluation(
        self, shift: Shift | None = None, *, num_prompts: int = 1280, seed: int | Array = 0, dtype: Any = "float64",
        factor: Any = None,
    ) -> Points:  # fmt: skip
        """Prompts to evaluate models on, all from the same draws whatever the shift and the model.

        Args:
            shift: that of the prompts (None: that of the task).
            num_prompts: how many.
            seed: the root seed.
            dtype: precision.
            factor: (dim, dim) what rows of inputs are multiplied by before anything is added to them or asked of
                them, for laws with inputs N(0, factorᵀ·factor) (None: as the task says).

        Returns:
            The prompts, with new functions.

        >>> FunctionClass(dim=3, context_len=4).evaluation(Shift("length", 2.0), num_prompts=2).x.shape
        (2, 10, 3)
        """
        law = self.replace(
            shift=self.shift if shift is None else shift, test_prompts=num_prompts, test_shifts=(), curriculum=None
        )
        drawn = law.source(seed, dtype, TEST)
        if factor is not None:
            require(self.functions.normal_inputs, f"{self.functions.kind} has no inputs N(0, I) to multiply")
            bent = as_array(factor) if drawn.transform is None else drawn.transform @ as_array(factor)
            drawn = eqx.tree_at(lambda s: s.transform, drawn, bent, is_leaf=lambda leaf: leaf is None)
        return drawn.sequences()
