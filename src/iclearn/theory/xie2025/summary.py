"""The theory's numbers for one set of sizes, as plain values that go into JSON."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ...core.errors import IclearnError, IclearnWarning
from ...core.memory import available_bytes, in_words
from .bayes import LEAST_SAMPLES, MOST_EIGENVALUES, SAMPLED, bayes_loss
from .gd import gd_step
from .heads import best_loss
from .law import Law
from .optimum import minimal_heads, optimum

MANY = 40  # numbers of heads that are listed without being asked for


def summary(
    dim: int, context_len: int, prior_norm: float, noise: float = 0.0, heads: int | Iterable[int] | None = None
) -> dict[str, Any]:
    """Exact losses at Λ = Σ = I: the optimum for every number of heads, gradient steps, the gap, Bayes.

    Args:
        dim: d.
        context_len: C.
        prior_norm: m = ‖w*‖.
        noise: σ², the variance of the noise on context labels.
        heads: the numbers of heads to list (None: 1 … d+1, of which a few are chosen where there are many; more than
            d+1 add nothing).

    Returns:
        Names and values that can be written as JSON: what ``iclearn theory xie2025`` prints.

    >>> table = summary(dim=10, context_len=10, prior_norm=1)
    >>> [round(row["loss"], 6) for row in table["heads"][:2]], table["minimal_heads"]
    ([5.482178, 5.35212], 10)
    """
    _refuse_or_warn(dim, context_len, noise)
    law = Law.isotropic(dim, context_len, prior_norm, noise)
    listed = _listed(dim) if heads is None else [heads] if isinstance(heads, int) else heads
    enough = minimal_heads(law)
    best, how = optimum(law), {True: "closed form", False: "search over one angle (observed, not proved)"}
    rows = [best_loss(law, number, enough=enough) for number in listed]
    return {
        "dim": dim,
        "context_len": context_len,
        "prior_norm": float(prior_norm),
        "noise": law.noise,
        "gd_from_mean": gd_step(law, law.mean)._asdict(),
        "gd_from_zero": gd_step(law)._asdict(),
        "yq_lsa": {"loss": best.step_loss},
        "optimum": best.loss,
        "gap": best.gap,
        "minimal_heads": enough,
        "heads": [row._asdict() | {"how": how[row.kappa is None]} for row in rows],
        "bayes": bayes_loss(law)._asdict(),
    }


def _listed(dim: int) -> list[int]:
    """1 … d+1, or about forty of them, evenly in the logarithm, with d and d+1."""
    if dim < MANY:
        return list(range(1, dim + 2))
    return sorted({round(number) for number in np.geomspace(1, dim - 1, MANY)} | {dim, dim + 1})


def _refuse_or_warn(dim: int, context_len: int, noise: float) -> None:
    """The matrices (dim, dim) must fit, and what takes longer than some seconds says so."""
    needed = 10 * 8 * dim**2
    if needed > available_bytes():
        raise IclearnError(f"dim {dim} needs matrices of {in_words(needed)} in all: choose a smaller --dim")
    rank = min(dim, context_len)
    seconds, why = 1e-6 * dim**2, ""
    if noise > 0 and rank > MOST_EIGENVALUES:
        seconds += 1e-10 * max(LEAST_SAMPLES * dim * context_len * rank, SAMPLED)
        why = ", most of them for the Bayes loss, a mean over sampled contexts"
    if seconds > 5:
        words = f"dim {dim}, context {context_len}: about {seconds:.0f} s of work{why}"
        warnings.warn(words, IclearnWarning, stacklevel=3)
