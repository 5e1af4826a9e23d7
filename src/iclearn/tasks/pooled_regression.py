"""Linear regression over a finite pool of tasks: raventos2023, lu2025, letey2026."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import check_choice, check_int, require
from ..core.errors import IclearnError, MissingClosedForm
from ..core.forms import as_array
from ..core.label_law import LabelLaw
from ..core.prompt import Batch
from ..core.rng import stream
from ..core.task import AbstractTask
from .covariance import Covariance
from .pool_source import PooledSource, TaskLaw, pool_rows
from .task_covariance import TaskCovariance

POOL, NEW = "pool", "new"
MOST_LAWS = 256  # tasks of a pool over which the population loss is summed, one by one
_rows = eqx.filter_jit(pool_rows)


@dataclass(frozen=True)
class PooledRegression(AbstractTask, kind="pooled_regression"):
    """Prompts whose task is one of `num_tasks` that are drawn once; the label of the query has noise too.

    The pool is the first `num_tasks` tasks of the stream ``tasks``: a larger pool contains a smaller one. In units of
    raventos2023 (the default) x ~ N(0, I) and w ~ N(0, I); in those of lu2025 x ~ N(0, I/dim), which is
    ``covariance=Covariance.white()``.

    Args:
        dim: d, the dimension of the inputs.
        context_len: ℓ, the context pairs of a prompt.
        num_tasks: k, the size of the pool (None: every prompt has a task of its own).
        noise: ρ, the variance of the noise on labels.
        target_noise: whether the label that the loss is measured against has this noise, in training and test sets.
        covariance: of the inputs.
        task_covariance: of the tasks.
        on_sphere: tasks have ‖w‖² = tr C exactly (isotropic C only).
        balanced: tasks are taken in turn from a random one on, so that their numbers of prompts differ by at most one
            and the number of prompts stays what it is; else each prompt takes one by chance.
        num_prompts: n, the size of the training set (None: infinitely many).
        test_prompts: size of the test sets ``pool`` (its tasks, new inputs) and ``new`` (new tasks); 0 for none.
        test_covariance: of the tasks of ``new`` (None: as in training).
        test_context_len: context pairs of the prompts of test sets (None: as in training).
        prefixes: the loss is averaged over all prefixes of 0 to context_len pairs.
        empty_prefix: whether the prefix of 0 pairs is one of them.

    >>> task = PooledRegression(dim=2, context_len=3, num_tasks=4, num_prompts=5, test_prompts=6)
    >>> task.pool(0).shape, task.source(0, "float64", "new").everything().prompt.x.shape
    ((4, 2), (6, 3, 2))
    >>> bool((task.replace(num_tasks=9).pool(0)[:4] == task.pool(0)).all())
    True
    """

    dim: int = 8
    context_len: int = 15
    num_tasks: int | None = None
    noise: float = 0.25
    target_noise: bool = True
    covariance: Covariance = field(default_factory=lambda: Covariance.white(trace=None))
    task_covariance: TaskCovariance = field(default_factory=TaskCovariance)
    on_sphere: bool = False
    balanced: bool = False
    num_prompts: int | None = None
    test_prompts: int = 0
    test_covariance: TaskCovariance | None = None
    test_context_len: int | None = None
    prefixes: bool = False
    empty_prefix: bool = True

    def __post_init__(self) -> None:
        for name in ("dim", "context_len"):
            check_int(name, getattr(self, name), 1)
        for name in ("num_tasks", "num_prompts", "test_context_len"):
            if getattr(self, name) is not None:
                check_int(name, getattr(self, name), 1)
        check_int("test_prompts", self.test_prompts, 0)
        noise = self.noise
        require(0 <= noise < np.inf, f"the noise variance must be finite and not negative, not {noise}")
        self.covariance.values(self.dim)  # refuses spectra that do not fit
        laws = [self.task_covariance, *([] if self.test_covariance is None else [self.test_covariance])]
        alike = [law.equal(self.dim) for law in laws]
        require(all(alike) or not self.on_sphere, "tasks on the sphere need isotropic covariances of tasks")
        require(self.num_tasks or not self.balanced, "balanced tasks need a pool: give num_tasks")

    @classmethod
    def at(
        cls, dim: int, *, alpha: float, kappa: float | None = None, tau: float | None = None, **fields: Any
    ) -> PooledRegression:
        """The task at ratios of sizes, each rounded to the nearest whole number; `ratios` says what they became.

        Args:
            dim: d.
            alpha: α = ℓ/d.
            kappa: κ = k/d (None: infinite).
            tau: τ = n/d² (None: infinite).
            fields: the others.

        Returns:
            The task.

        >>> task = PooledRegression.at(100, alpha=1.15, kappa=0.57)
        >>> task.context_len, task.num_tasks  # truncation would give 114 and 56
        (115, 57)
        """
        ratios = {"context_len": (alpha, dim), "num_tasks": (kappa, dim), "num_prompts": (tau, dim**2)}
        sizes = {name: None if ratio is None else round(ratio * unit) for name, (ratio, unit) in ratios.items()}
        return cls(dim=dim, **sizes, **fields)  # type: ignore[arg-type]

    def ratios(self) -> dict[str, float | None]:
        """``alpha``, ``kappa`` and ``tau`` of the sizes as they are; None for infinite ones."""
        tasks, prompts = self.num_tasks, self.num_prompts
        tau = None if prompts is None else prompts / self.dim**2
        return {"alpha": self.context_len / self.dim, "kappa": None if tasks is None else tasks / self.dim, "tau": tau}

    @property
    def out_dim(self) -> int:  # type: ignore[override]
        return 1

    @property
    def tests(self) -> tuple[str, ...]:
        if not self.test_prompts:
            return ()
        return (NEW,) if self.num_tasks is None else (POOL, NEW)

    @property
    def gives_sequences(self) -> bool:
        return True

    def context_lengths(self, which: str = "train") -> range:
        if which != "train":
            length = self.test_context_len or self.context_len
            return range(length, length + 1)
        first = (0 if self.empty_prefix else 1) if self.prefixes else self.context_len
        return range(first, self.context_len + 1)

    def fresh_parameters(self) -> dict[str, Any]:
        return {"noise": self.noise, **({} if self.num_tasks is None else {"num_tasks": self.num_tasks})}

    def traceable_fields(self) -> frozenset[str]:
        return frozenset({"noise"})

    @property
    def diagonal_inputs(self) -> bool:
        return self.covariance.diagonal

    def covariance_matrix(self, seed: int | Array) -> Float[Array, "dim dim"]:
        factor = self.covariance.factor(self.dim, stream(seed, "covariance"))
        return factor @ factor.T

    def with_prompts(self, count: int) -> PooledRegression:
        few = self.num_prompts is None or self.num_prompts <= count
        return self if few else self.replace(num_prompts=count, test_prompts=min(self.test_prompts, count))

    def describe(self) -> str:
        sizes = [self.num_tasks, self.num_prompts]
        tasks, prompts = ("∞" if size is None else size for size in sizes)
        return f"D={self.dim} N={self.context_len} K={tasks} P={prompts}"

    def law(self, which: str = "train") -> TaskLaw:
        """How the tasks of a set are drawn.

        Args:
            which: ``train``, ``pool`` or ``new``.

        Returns:
            The law.
        """
        check_choice("the set", which, Literal["train", "pool", "new"])
        own = which == NEW and self.test_covariance is not None
        covariance = self.test_covariance if own and self.test_covariance else self.task_covariance
        return TaskLaw(as_array(np.sqrt(covariance.values(self.dim))), self.on_sphere)

    def pool(self, seed: int | Array, first: int = 0, count: int | None = None) -> Float[Array, "task dim"]:
        """Tasks of the pool; each is a function of its number alone, so any part can be drawn by itself.

        Args:
            seed: the root seed; may be traced.
            first: number of the first.
            count: how many (None: all from there on).

        Returns:
            (task, dim) the tasks, in double precision.
        """
        if count is None:
            if self.num_tasks is None:
                raise IclearnError("this task has infinitely many tasks: say how many with count")
            count = self.num_tasks - first
        return _rows(self.law(), stream(seed, "tasks"), first + jnp.arange(count))

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> PooledSource:
        count = self.num_prompts if which == "train" else self.test_prompts
        if count is None:
            raise IclearnError("this task has infinitely many prompts: there is no fixed set to draw")
        return PooledSource.of(
            self, seed, dtype, which,
            num_prompts=count,
            inputs=self.covariance.factor(self.dim, stream(seed, "covariance")),
            noise_std=as_array(self.noise**0.5, jnp.float64),
            law=self.law(which),
            pool_key=stream(seed, "tasks"),
            num_tasks=None if which == NEW or self.num_tasks is None else jnp.asarray(self.num_tasks, int),
            tokens=self.context_lengths(which)[-1] + 1,
            balanced=self.balanced,
            target_noise=self.target_noise,
        )  # fmt: skip

    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch:
        drawn = eqx.tree_at(lambda s: s.key, self.unchecked(num_prompts=batch_size).source(seed, dtype), key)
        return drawn.everything(self.context_lengths() if self.prefixes else 0)

    def label_laws(self, seed: int | Array, which: str = "train") -> tuple[LabelLaw, ...]:
        other = "use engine samples"
        if self.target_noise:
            raise MissingClosedForm(f"target_noise adds the noise to the population loss: set it to False, or {other}")
        if self.prefixes:
            raise MissingClosedForm(f"the population loss of a pool is not known over prefixes: {other}")
        one, noise = as_array(1.0, jnp.float64), as_array(self.noise, jnp.float64)
        if which == NEW or self.num_tasks is None:
            if self.on_sphere:
                raise MissingClosedForm(f"new tasks on the sphere have no closed-form population loss: {other}")
            roots, mean = self.law(which).roots, as_array(np.zeros((self.dim, 1)))
            return (LabelLaw(one, mean, jnp.diag(roots**2), noise, one),)
        if self.num_tasks > MOST_LAWS:
            raise MissingClosedForm(f"a pool of more than {MOST_LAWS} tasks has no closed-form loss here: {other}")
        tasks, nothing = self.pool(seed), as_array(np.zeros((self.dim, self.dim)))
        return tuple(LabelLaw(one / self.num_tasks, w[:, None], nothing, noise, one) for w in tasks)
