"""Boosted trees on the context, by XGBoost on the host (the optional extra ``boost``)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from ...core.checks import check_int
from ...core.errors import IclearnError
from ...core.model import AbstractModel
from ...core.prompt import Prompt


class BoostedTrees(AbstractModel):
    """XGBoost's regressor with its defaults (100 rounds, depth 6, rate .3, λ 1), fitted to the context; 0 without one.

    Its first guess was .5 up to version 1 and is the mean label in newer ones, so numbers depend on the version; say it
    with `base_score`. One fit a prompt, on the host: a thousand prompts of forty prefixes take tens of minutes.

    Args:
        rounds: trees.
        depth: of each.
        signs: whether it sees sign(x) instead of x.
        base_score: the first guess (None: that of the installed version).
    """

    rounds: int = eqx.field(static=True, default=100)
    depth: int = eqx.field(static=True, default=6)
    signs: bool = eqx.field(static=True, default=False)
    base_score: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        check_int("the number of boosting rounds", self.rounds, 1)
        check_int("the depth of a tree", self.depth, 1)
        library()

    def predict(self, prompt: Prompt) -> Float[Array, " output"]:
        shape = jax.ShapeDtypeStruct((prompt.y.shape[1],), prompt.query.dtype)
        arrays = (prompt.x, prompt.y, prompt.query, prompt.mask)
        return jax.pure_callback(self._fit, shape, *arrays, vmap_method="sequential")

    def _fit(self, x: Any, y: Any, query: Any, mask: Any) -> np.ndarray:
        x, y, query, mask = (np.asarray(part) for part in (x, y, query, mask))
        if not mask.any():
            return np.zeros(y.shape[1], query.dtype)
        if self.signs:
            x, query = np.sign(x), np.sign(query)
        xgboost = library()
        given: dict[str, Any] = {"max_depth": self.depth, "nthread": 1}
        if self.base_score is not None:
            given["base_score"] = self.base_score
        asked = xgboost.DMatrix(query[None])
        found = [
            xgboost.train(given, xgboost.DMatrix(x[mask], labels), self.rounds).predict(asked)[0]
            for labels in y[mask].T
        ]
        return np.asarray(found, query.dtype)


def library() -> Any:
    """XGBoost; where it is not installed, a sentence that says what to install."""
    try:
        return import_module("xgboost")
    except ImportError:
        raise IclearnError("boosted trees need XGBoost: pip install 'iclearn[boost]'") from None
