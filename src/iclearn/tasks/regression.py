"""In-context linear regression: Gaussian inputs, a Gaussian task vector per prompt, a query to answer."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import check_int, require
from ..core.drawn_normals import prepare_draws
from ..core.errors import IclearnError
from ..core.forms import as_array, numpy_of
from ..core.label_law import LabelLaw
from ..core.prompt import Batch, FeatureBatch, WhitePrompts
from ..core.rng import standard_normals, stream
from ..core.task import AbstractTask
from .covariance import Covariance
from .regression_source import RegressionSource

IN_WEIGHT, IN_CONTEXT = "in_weight", "in_context"


@dataclass(frozen=True)
class LinearRegression(AbstractTask, kind="linear_regression"):
    """Prompts of `context_len` pairs (x, y = w·x + noise) and a query; the target is w·x_q without noise.

    Args:
        dim: D, the dimension of the inputs.
        context_len: N, the context pairs of a prompt.
        out_dim: outputs, each with a task vector of its own.
        covariance: of the inputs x ~ N(0, Λ).
        prior_mean: mean of the task vector w, the same for every output (None: zero).
        prior_covariance: covariance of w (None: identity).
        noise: variance of the noise on the context labels.
        in_context: fraction c of prompts with their own w. The others share one fixed w with ‖w‖ = √dim; with
            c = 0 all context labels are N(0, 1) noise and only the query follows the fixed w.
        num_prompts: size of the fixed training set (None: infinitely many; engines integrate or draw fresh ones).
        test_prompts: size of the ``in_weight`` (c = 0) and ``in_context`` (c = 1) test sets; 0 for none.
        prefixes: the loss is averaged over all prefixes of 2 to context_len + 1 tokens.
        center: subtract from x its mean over prompts, position by position.
        whiten: make the empirical mean and covariance of w over the set exactly those of the prior (c = 1 only).
        fresh_normals: how prompts are drawn that are new at every step: ``paired`` (`core.rng.paired_normals`), or
            ``jax`` as `jax.random.normal` draws them and as all were drawn before; fixed sets are drawn by the latter.

    >>> task = LinearRegression(dim=2, context_len=3, num_prompts=5)
    >>> task.source(0, "float64").everything().prompt.x.shape  # (prompts, context, dim)
    (5, 3, 2)
    """

    former_names: ClassVar[dict[str, str]] = {"centre": "center"}
    later_fields: ClassVar[tuple[str, ...]] = ("fresh_normals",)

    dim: int = 4
    context_len: int = 31
    out_dim: int = 1
    covariance: Covariance = field(default_factory=Covariance)
    prior_mean: tuple[float, ...] | None = None
    prior_covariance: Covariance | None = None
    noise: float = 0.0
    in_context: float = 1.0
    num_prompts: int | None = 5000
    test_prompts: int = 0
    prefixes: bool = False
    center: bool = False
    whiten: bool = False
    fresh_normals: Literal["paired", "jax"] = "paired"

    def __post_init__(self) -> None:
        for name in ("dim", "context_len", "out_dim"):
            check_int(name, getattr(self, name), 1)
        if self.num_prompts is not None:
            check_int("num_prompts (None for infinitely many)", self.num_prompts, 1)
        check_int("test_prompts", self.test_prompts, 0)
        fraction, noise = self.in_context, self.noise
        require(0 <= fraction <= 1, f"the fraction of in-context prompts must be between 0 and 1, not {fraction}")
        require(0 <= noise < np.inf, f"the noise variance must be finite and not negative, not {noise}")
        if self.prior_mean is not None:
            mean = tuple(float(v) for v in self.prior_mean)
            object.__setattr__(self, "prior_mean", mean)
            require(np.isfinite(mean).all(), f"the prior mean must be finite, not {list(mean)}")
            require(len(mean) == self.dim, f"the prior mean has {len(mean)} entries for dim {self.dim}")
        if fraction < 1:
            mixed = "a prior over task vectors needs in_context = 1: the mix has its own fixed task vector"
            require(self.prior_mean is None and self.prior_covariance is None, mixed)
            shared = "task vectors can be whitened only where every prompt has its own (in_context = 1)"
            require(not self.whiten, shared)
        follows = not self.prefixes or fraction > 0
        require(follows, "prefixes need labels that follow the task; with in_context = 0 they are noise")
        enough = not self.whiten or self.num_prompts is None or self.num_prompts > self.dim
        require(enough, f"whitening needs more than {self.dim} prompts, not {self.num_prompts}")
        enough = not self._whitens(IN_CONTEXT) or self.test_prompts == 0 or self.test_prompts > self.dim
        require(enough, f"whitening needs more than {self.dim} test prompts, not {self.test_prompts}")
        for covariance in (self.covariance, self.prior_covariance):
            if covariance is not None:
                covariance.values(self.dim)  # refuses spectra that do not fit

    def fresh_parameters(self) -> dict[str, Any]:
        mean = {} if self.prior_mean is None else {"prior_mean": self.prior_mean}
        return {"noise": self.noise, **mean}

    def traceable_fields(self) -> frozenset[str]:
        own = {f"covariance.{name}" for name in self.covariance.traceable_fields()}
        return frozenset({"noise", "prior_mean", *own})

    def symmetry_breaking_fields(self) -> frozenset[str]:
        return frozenset({"prior_mean"})

    @property
    def isotropic(self) -> bool:
        return self.prior_mean is None and self.prior_covariance is None and self.in_context == 1

    @property
    def diagonal_inputs(self) -> bool:
        return self.covariance.diagonal

    def with_prompts(self, count: int) -> LinearRegression:
        count = max(count, self.dim + 2)  # whitening needs more prompts than dimensions
        few = self.num_prompts is None or self.num_prompts <= count
        return self if few else self.replace(num_prompts=count, test_prompts=min(self.test_prompts, count))

    def describe(self) -> str:
        prompts = self.num_prompts if self.num_prompts is not None else "∞"
        return f"D={self.dim} N={self.context_len} P={prompts}"

    def describe_data(self) -> str:
        prompts = f"{self.num_prompts} prompts drawn once per seed"
        if self.num_prompts is None:
            prompts = "infinitely many prompts (integrated in closed form or drawn fresh)"
        sizes = f"D={self.dim}, N={self.context_len}, {self.covariance.shape} spectrum"
        return f"synthetic, {prompts}, {sizes}, threefry streams of the root seed"

    def describe_splits(self) -> str:
        each = f", {self.test_prompts} prompts each" if self.tests else ""
        return super().describe_splits().replace(", streams", f"{each}, streams")

    @property
    def tests(self) -> tuple[str, ...]:
        return (IN_WEIGHT, IN_CONTEXT) if self.test_prompts else ()

    def covariance_matrix(self, seed: int | Array) -> Float[Array, "dim dim"]:
        factor = self.covariance.factor(self.dim, stream(seed, "covariance"))
        factor = numpy_of(factor).asarray(factor)
        with np.errstate(all="ignore"):  # as JAX: what overflows is infinite
            return as_array(factor @ factor.T)

    def _fixed_task(self, seed: int | Array) -> Float[Array, "dim output"]:
        (w,) = standard_normals(stream(seed, "in_weight_task"), ((self.dim, self.out_dim),))
        xp = numpy_of(w)
        return as_array(xp.asarray(w) * (self.dim**0.5 / xp.linalg.norm(w)))

    def _prior(self, seed: int | Array) -> tuple[Float[Array, "dim output"], Float[Array, "dim dim"]]:
        """Mean and a factor of the covariance of the task vector."""
        mean: Any = np.zeros(self.dim) if self.prior_mean is None else self.prior_mean
        xp = numpy_of(mean)  # it is traced in one run of many
        columns = as_array(xp.tile(xp.asarray(mean)[:, None], (1, self.out_dim)))
        if self.prior_covariance is None:
            return columns, as_array(np.eye(self.dim))
        return columns, self.prior_covariance.factor(self.dim, stream(seed, "prior_covariance"))

    def _fraction(self, which: str) -> float:
        return {"train": self.in_context, IN_WEIGHT: 0.0, IN_CONTEXT: 1.0}[which]

    def _whitens(self, which: str) -> bool:
        """The public code whitens every set that is in-context through and through, also the test set of a mix."""
        return self._fraction(which) == 1 and (self.whiten or (self.in_context < 1 and self.center))

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> RegressionSource:
        count = self.num_prompts if which == "train" else self.test_prompts
        if count is None:
            raise IclearnError("this task has infinitely many prompts: there is no fixed set to draw")
        mean, factor = self._prior(seed)
        raw = RegressionSource(
            key=stream(seed, f"data.{which}"),
            num_prompts=count,
            prompt_size=self.numbers_per_prompt(),
            dtype=jnp.dtype(dtype).name,
            inputs=self.covariance.factor(self.dim, stream(seed, "covariance")),
            prior_mean=mean,
            prior_factor=factor,
            fixed_task=self._fixed_task(seed),
            noise_std=as_array(self.noise**0.5, jnp.float64),
            x_mean=as_array(np.zeros((self.context_len + 1, self.dim))),
            w_mean=as_array(np.zeros((self.dim, self.out_dim))),
            w_whitener=as_array(np.tile(np.eye(self.dim), (self.out_dim, 1, 1))),
            num_random=as_array(int(count * self._fraction(which))),
            noise_labels=self._fraction(which) == 0,
            white=self.covariance.shape == "white" and self.covariance.trace is None,
            noiseless=isinstance(self.noise, int | float) and self.noise == 0,  # it may be traced
        )
        whiten = self._whitens(which)
        return raw.corrected(center=self.center, whiten=whiten) if self.center or whiten else raw

    def like_source(self, seed: int | Array, dtype: Any, which: str = "train") -> RegressionSource | None:
        if not self.center and not self._whitens(which):
            return None
        if isinstance(seed, int) and type(self) is LinearRegression:
            prepare_draws()  # for the sums, while the program of the covariance is compiled
        return self.unchecked(center=False, whiten=False).source(seed, dtype, which)

    def white_prompts(self) -> WhitePrompts | None:
        white = self.covariance.shape == "white" and self.covariance.trace is None
        plain = self.noise == 0 and self.in_context == 1 and self.prior_covariance is None and self.out_dim == 1
        if (
            type(self) is not LinearRegression
            or not (white and plain)
            or self.prefixes
            or self.fresh_normals != "paired"
        ):
            return None
        return WhitePrompts(self.context_len, np.asarray(self.prior_mean or np.zeros(self.dim)))

    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch | FeatureBatch:
        drawn = self.unchecked(num_prompts=batch_size, center=False, whiten=False).source(seed, dtype)
        drawn = eqx.tree_at(lambda s: s.key, drawn, key)
        if self.fresh_normals == "paired":
            drawn = dataclasses.replace(drawn, paired=True)
        return drawn.everything(self.context_len if self.prefixes else 0)

    def label_laws(self, seed: int | Array, which: str = "train") -> tuple[LabelLaw, ...]:
        fraction = self._fraction(which)
        mean, factor = self._prior(seed)
        zero, one, share, noise = (as_array(v, jnp.float64) for v in (0, 1, fraction, self.noise))
        fixed = self._fixed_task(seed)
        nothing = as_array(np.zeros((self.dim, self.dim)))
        if fraction == 0:
            return (LabelLaw(one, fixed, nothing, one, zero),)
        own = LabelLaw(share, mean, factor @ factor.T, noise, one)
        return (own,) if fraction == 1 else (own, LabelLaw(1 - share, fixed, nothing, noise, one))
