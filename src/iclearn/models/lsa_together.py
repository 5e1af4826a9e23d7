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

from ..core.errors import IclearnError
from ..core.model import AbstractModelSpec, check_weight_names
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
    """

    p: Float[Array, "member head entry"]
    q: Float[Array, "member head entry entry"]
    guess: Float[Array, "member dim"]
    trainable: tuple[bool, ...] = eqx.field(static=True)

    axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "p": ("member", "head", "entry"),
        "q": ("member", "head", "entry", "query_entry"),
        "guess": ("member", "input"),
    }

    @property
    def feature_map(self) -> GuessGramQuery:
        return GuessGramQuery(self.p.shape[-1] - 1, 1, "context")

    def table(self) -> Float[Array, "member pair dim"]:
        moves = jnp.asarray(self.trainable)[:, None]
        guess = jnp.where(moves, self.guess, jax.lax.stop_gradient(self.guess))
        return self.feature_map.fold(guess, head_tensor(self.p, self.q, guess))

    def coefficients(self) -> Float[Array, "feature output"]:
        return self.table().reshape(len(self.trainable), -1).T

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        features = self.feature_map
        table = self.table()
        flat = jnp.moveaxis(table, 0, -1).reshape(table.shape[1], -1)  # pair, (dim member)
        moved = (features.context_part(prompt) @ flat).reshape(-1, len(self.trainable))
        return prompt.query @ moved


@dataclass(frozen=True)
class LSATogether(AbstractModelSpec, kind="lsa_together"):
    """Several `LSA` models trained on the same prompts in one run, each from the weights it would have alone."""

    members: tuple[LSA, ...] = (LSA(),)

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if not self.members:
            raise IclearnError("lsa_together needs at least one member")
        if any(member.guess == "given" for member in self.members):
            raise IclearnError("lsa_together takes members with guess none or trainable; run a given guess alone")

    def describe(self) -> str:
        return f"{len(self.members)} lsa together: {', '.join(m.describe().removeprefix('lsa ') for m in self.members)}"

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> LSAGroup:
        most = max(member.num_heads for member in self.members)
        parts = [member.initial(task, init, seed, dtype) for member in self.members]
        pad = [((0, most - part.p.shape[0]), (0, 0)) for part in parts]
        return LSAGroup(
            jnp.stack([jnp.pad(part.p, width) for part, width in zip(parts, pad, strict=True)]),
            jnp.stack([jnp.pad(part.q, (*width, (0, 0))) for part, width in zip(parts, pad, strict=True)]),
            jnp.stack([part.guess_weights() for part in parts]),
            self._trainable,
        )

    @property
    def _trainable(self) -> tuple[bool, ...]:
        return tuple(member.guess == "trainable" for member in self.members)

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> LSAGroup:
        check_weight_names(LSAGroup.axes, weights, "lsa_together")
        p, q, guess = (jnp.asarray(weights[name]) for name in ("p", "q", "guess"))
        return LSAGroup(p, q, guess, self._trainable)

    def member(self, index: int, dim: int, weights: Mapping[str, Any]) -> AbstractLSA:
        """One member alone, from the weights of the group."""
        spec = self.members[index]
        alone = {name: np.asarray(weights[name])[index] for name in LSAGroup.axes}
        heads = slice(0, spec.num_heads)
        return spec.rebuild(dim, {"p": alone["p"][heads], "q": alone["q"][heads], "guess": alone["guess"]})
