"""Several linear self-attentions trained on the same prompts in one run (xie2025's comparisons)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import require
from ..core.model import AbstractModelSpec, GramHeads, checked_weights
from ..core.prompt import Prompt
from ..core.recipe import Init
from ..core.task import AbstractTask
from .base import AbstractFeatureModel
from .lsa import LSA, AbstractLSA, GuessGramQuery, head_tensor


class LSAGroup(AbstractFeatureModel):
    """Several LSAs that read the same prompts, one output each; missing heads are zero and stay zero.

    The loss is the mean of the members' losses. Their gradients do not mix, and Adam does not see the factor 1/M
    (but for its ε), so each member trains as it would alone, while the prompts of a step are drawn once for all.
    A head with p = Q = 0 has no gradient, so padding to the same number of heads changes nothing.

    Args:
        p: (member, head, entry) p_h of each member.
        q: (member, head, entry, entry) Q_h of each member.
        guess: (member, dim) w_q of each member.
        trainable: of which members the guess is trained.

    For an example see `LSATogether`.
    """

    p: Float[Array, "member head entry"]
    q: Float[Array, "member head entry entry"]
    guess: Float[Array, "member dim"]
    trainable: tuple[bool, ...] = eqx.field(static=True)

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "p": ("member", "head", "entry"), "q": ("member", "head", "entry", "query_entry"), "guess": ("member", "input")
    }  # fmt: skip

    @property
    def feature_map(self) -> GuessGramQuery:
        return GuessGramQuery(self.p.shape[-1] - 1, 1, "context")

    def table(self) -> Float[Array, "member pair dim"]:
        """(member, pair, dim) W of each member, with ŷ = uᵀ W x_q."""
        moves = jnp.asarray(self.trainable)[:, None]
        guess = jnp.where(moves, self.guess, jax.lax.stop_gradient(self.guess))
        return self.feature_map.fold(guess, head_tensor(self.p, self.q, guess))

    def gram_heads(self) -> GramHeads:
        return GramHeads(self.p, self.q, self.guess, self.trainable)

    def coefficients(self) -> Float[Array, "feature output"]:
        return self.table().reshape(len(self.trainable), -1).T

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        table = self.table()
        flat = jnp.moveaxis(table, 0, -1).reshape(table.shape[1], -1)  # pair, (dim member)
        return prompt.query @ (self.feature_map.context_part(prompt) @ flat).reshape(-1, len(self.trainable))


@dataclass(frozen=True)
class LSATogether(AbstractModelSpec, kind="lsa_together"):
    """Several `LSA` models trained on the same prompts in one run, each from the weights it would have alone.

    Args:
        members: the models, with guess ``none`` or ``trainable``.

    >>> LSATogether((LSA(), LSA(3), LSA(guess="trainable"))).describe()
    '3 lsa together: H=1, H=3, H=1 guess trainable'
    """

    members: tuple[LSA, ...] = (LSA(),)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        require(self.members, "lsa_together needs at least one member")
        free = all(member.guess != "given" for member in self.members)
        require(free, "lsa_together takes members with guess none or trainable; run a given guess alone")

    def describe(self) -> str:
        return f"{len(self.members)} lsa together: {', '.join(m.describe().removeprefix('lsa ') for m in self.members)}"

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> LSAGroup:
        most = max(member.num_heads for member in self.members)
        parts = [member.initial(task, init, seed, dtype) for member in self.members]

        def padded(heads: Array) -> Array:
            return jnp.pad(heads, ((0, most - heads.shape[0]), *((0, 0),) * (heads.ndim - 1)))

        p, q = jnp.stack([padded(part.p) for part in parts]), jnp.stack([padded(part.q) for part in parts])
        return self.rebuild(task.dim, {"p": p, "q": q, "guess": jnp.stack([part.guess_weights() for part in parts])})

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> LSAGroup:
        arrays = checked_weights(LSAGroup.axes, weights, "lsa_together")
        return LSAGroup(**arrays, trainable=tuple(member.guess == "trainable" for member in self.members))

    def member(self, index: int, dim: int, weights: Mapping[str, Any]) -> AbstractLSA:
        """One member alone, from the weights of the group.

        Args:
            index: which member.
            dim: dimension of the inputs.
            weights: name → array of the group.

        Returns:
            The member.
        """
        spec = self.members[index]
        alone = {name: np.asarray(weights[name])[index] for name in LSAGroup.axes}
        heads = slice(0, spec.num_heads)
        return spec.rebuild(dim, {"p": alone["p"][heads], "q": alone["q"][heads], "guess": alone["guess"]})
