"""Linear self-attention with an initial guess in the query's label slot (xie2025).

ŷ = g + Σ_h p_hᵀ G Q_h [x_q; g], G = (1/C) Σ_i [x_i; y_i][x_i; y_i]ᵀ over the context only, g = w_q·x_q. Heads act only
through T = Σ_h p_h ⊗ Q_h, so a prediction is linear in the features [x_q; sym(G) ⊗ x_q].
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..core.checks import check_int, require
from ..core.forms import AbstractForm
from ..core.model import AbstractModelSpec, GramHeads, checked_weights
from ..core.prompt import Prompt
from ..core.recipe import Init
from ..core.rng import standard_normals, stream
from ..core.task import AbstractTask
from ..tasks.gram_moments import gram_form
from .base import AbstractFeatureModel
from .features import AbstractFeatureMap, GramQuery, fold_pairs

Guess = Literal["none", "given", "trainable"]


@dataclass(frozen=True)
class GuessGramQuery(AbstractFeatureMap):
    """φ = u ⊗ x_q with u = [1; entries a ≤ b of G row by row], G over the context, divided by its length.

    For the arguments see `AbstractFeatureMap`.

    >>> from iclearn.core.prompt import full_prompt
    >>> GuessGramQuery(1, 1, "context")(full_prompt(jnp.ones((5, 1)), jnp.ones((5, 1)), jnp.array([3.0])))
    Array([3., 3., 3., 3.], dtype=float64)
    """

    pairs = GramQuery.pairs

    @property
    def size(self) -> int:
        return (1 + len(self.pairs[0])) * self.dim

    def context_part(self, prompt: Prompt) -> Float[Array, " pair"]:
        """u = [1; entries a ≤ b of G] of one prompt.

        Args:
            prompt: the prompt, without a batch axis.

        Returns:
            (pair) u.
        """
        tokens = jnp.concatenate([prompt.x, prompt.y], -1) * prompt.mask[:, None]
        # a sum of products and no matrix product: for a batch of small prompts it is three times faster
        gram = jnp.sum(tokens[:, :, None] * tokens[:, None, :], 0) / jnp.maximum(prompt.num_context(), 1)
        return jnp.concatenate([jnp.ones(1, gram.dtype), gram[self.pairs]])

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        return jnp.outer(self.context_part(prompt), prompt.query).ravel()

    def population_form(self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> AbstractForm:
        return gram_form(task, seed, dtype, which)

    def fold(
        self, guess: Float[Array, "*member dim"], tensor: Float[Array, "*member entry entry dim"]
    ) -> Float[Array, "*member pair dim"]:
        """Coefficients W of uᵀ W x_q for a guess and a tensor T that acts on G_ab x_j.

        Args:
            guess: (…, dim) w_q.
            tensor: (…, entry, entry, dim) T.

        Returns:
            (…, pair, dim) W: the guess in its first row, then T_ab + T_ba (T_aa on the diagonal).
        """
        return jnp.concatenate([guess[..., None, :], fold_pairs(tensor)], -2)


def head_tensor(
    p: Float[Array, "*member head entry"],
    q: Float[Array, "*member head entry entry"],
    guess: Float[Array, "*member dim"],
) -> Float[Array, "*member entry entry dim"]:
    """Σ_h p_h ⊗ Q_h [I; w_qᵀ]: the map of (G, x_q) that the heads add to the guess.

    Args:
        p: (…, head, entry) p_h.
        q: (…, head, entry, entry) Q_h.
        guess: (…, dim) w_q.

    Returns:
        (…, entry, entry, dim) the tensor T with Σ_ab,j T_abj G_ab x_j.
    """
    lifted = q[..., :-1] + q[..., -1:] * guess[..., None, None, :]
    return jnp.einsum("...ha,...hbj->...abj", p, lifted)


class AbstractLSA(AbstractFeatureModel):
    """One linear self-attention layer; subclasses say where the guess comes from."""

    p: eqx.AbstractVar[Float[Array, "head entry"]]
    q: eqx.AbstractVar[Float[Array, "head entry entry"]]

    @abstractmethod
    def guess_weights(self) -> Float[Array, " dim"]:
        """(dim) w_q of the guess g = w_q·x_q."""

    @property
    def feature_map(self) -> GuessGramQuery:
        return GuessGramQuery(self.p.shape[-1] - 1, 1, "context")

    def table(self) -> Float[Array, "pair dim"]:
        """(pair, dim) W with ŷ = uᵀ W x_q."""
        guess = self.guess_weights()
        return self.feature_map.fold(guess, head_tensor(self.p, self.q, guess))

    def coefficients(self) -> Float[Array, "feature output"]:
        return self.table().reshape(-1, 1)

    def gram_heads(self) -> GramHeads:
        return GramHeads(self.p[None], self.q[None], self.guess_weights()[None], ("guess" in self.axes,))

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        # Through u and W, not head by head: W does not depend on the prompt and is computed once for a batch.
        return (self.feature_map.context_part(prompt) @ self.table() @ prompt.query)[None]


class FixedGuessLSA(AbstractLSA):
    """Linear self-attention whose guess is given and never trained; it is static, so that no optimizer can move it.

    Args:
        p: (head, entry) p_h.
        q: (head, entry, entry) Q_h.
        guess: w_q, of length dim (zeros for none).

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((5, 1)), jnp.ones((5, 1)), jnp.array([3.0]))
    >>> FixedGuessLSA(jnp.zeros((1, 2)), jnp.zeros((1, 2, 2)), (2.0,)).predict(prompt)
    Array([6.], dtype=float64)
    """

    p: Float[Array, "head entry"]
    q: Float[Array, "head entry entry"]
    guess: tuple[float, ...] = eqx.field(static=True)

    axes: ClassVar[dict[str, tuple[str, ...]]] = {"p": ("head", "entry"), "q": ("head", "entry", "query_entry")}

    def guess_weights(self) -> Float[Array, " dim"]:
        return jnp.asarray(self.guess, self.p.dtype)


class GuessingLSA(AbstractLSA):
    """Linear self-attention whose guess is trained with the heads; with one head this is yq-LSA.

    Args:
        p: (head, entry) p_h.
        q: (head, entry, entry) Q_h.
        guess: (dim) w_q.

    For an example see `FixedGuessLSA`.
    """

    p: Float[Array, "head entry"]
    q: Float[Array, "head entry entry"]
    guess: Float[Array, " dim"]

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "p": ("head", "entry"), "q": ("head", "entry", "query_entry"), "guess": ("input",)
    }  # fmt: skip

    def guess_weights(self) -> Float[Array, " dim"]:
        return self.guess


@dataclass(frozen=True)
class LSA(AbstractModelSpec, kind="lsa"):
    """One layer of linear self-attention with an initial guess, as in xie2025.

    Args:
        num_heads: H.
        guess: ``none`` (0), ``given`` (w_q = `given`, fixed) or ``trainable`` (yq-LSA; starts N(0, scale²) too).
        given: w_q of a given guess.

    All weights start N(0, scale²) with `Init.scale`; the paper's size is 0.1.

    >>> LSA(num_heads=2, guess="trainable").describe()
    'lsa H=2 guess trainable'
    """

    num_heads: int = 1
    guess: Guess = "none"
    given: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_int("num_heads", self.num_heads, 1)
        if self.given is not None:
            object.__setattr__(self, "given", tuple(float(v) for v in self.given))
        fit = (self.guess == "given") == (self.given is not None)
        require(fit, f"guess {self.guess!r} with given={self.given}: a given guess, and no other, has given=")

    def describe(self) -> str:
        return f"lsa H={self.num_heads}" + ("" if self.guess == "none" else f" guess {self.guess}")

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractLSA:
        require(task.out_dim == 1, f"the lsa model has one output; this task has {task.out_dim}")
        if self.given is not None:
            given = len(self.given)
            require(given == task.dim, f"the given guess has {given} entries for dim {task.dim}")
        drawn = "the lsa model draws all weights N(0, scale²), which is init scheme per_head"
        require(init.scheme == "per_head", f"{drawn}, not {init.scheme}")
        entry = task.dim + 1
        shapes = ((self.num_heads, entry), (self.num_heads, entry, entry), (task.dim,))
        drawn = dict(zip(("p", "q", "guess"), standard_normals(stream(seed, "init"), shapes), strict=True))
        return self.rebuild(task.dim, {name: (init.scale * w).astype(dtype) for name, w in drawn.items()})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractLSA:
        if self.guess == "trainable":
            return GuessingLSA(**checked_weights(GuessingLSA.axes, weights, "this lsa model"))
        arrays = checked_weights(FixedGuessLSA.axes, weights, "this lsa model")
        return FixedGuessLSA(**arrays, guess=self.given or (0.0,) * dim)
