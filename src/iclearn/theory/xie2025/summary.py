"""The theory's numbers for one set of sizes, as plain values that go into JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .bayes import bayes_loss
from .gd import gd_step
from .heads import best_loss
from .law import Law
from .optimum import minimal_heads, optimum


def summary(
    dim: int, context_len: int, prior_norm: float, noise: float = 0.0, heads: int | Iterable[int] | None = None
) -> dict[str, Any]:
    """Exact losses at Λ = Σ = I: the optimum for every number of heads, gradient steps, the gap, Bayes.

    Args:
        dim: d.
        context_len: C.
        prior_norm: m = ‖w*‖.
        noise: σ², the variance of the noise on context labels.
        heads: the numbers of heads to list (None: 1 … d+1; more add nothing).

    Returns:
        Names and values that can be written as JSON: what ``iclearn theory xie2025`` prints.

    >>> table = summary(dim=10, context_len=10, prior_norm=1)
    >>> [round(row["loss"], 6) for row in table["heads"][:2]], table["minimal_heads"]
    ([5.482178, 5.35212], 10)
    """
    law = Law.isotropic(dim, context_len, prior_norm, noise)
    listed = range(1, dim + 2) if heads is None else [heads] if isinstance(heads, int) else heads
    best, how = optimum(law), {True: "closed form", False: "search over one angle (observed, not proved)"}
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
        "minimal_heads": minimal_heads(law),
        "heads": [row._asdict() | {"how": how[row.kappa is None]} for row in (best_loss(law, h) for h in listed)],
        "bayes": bayes_loss(law)._asdict(),
    }
