"""Everything section 2 predicts for one size, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .bayes import bayes_loss
from .gd import gd_step
from .heads import best_loss
from .law import Law
from .optimum import minimal_heads, optimum


def summary(
    dim: int,
    context_len: int,
    prior_norm: float,
    noise: float = 0.0,
    heads: int | Iterable[int] | None = None,
) -> dict[str, Any]:
    """Exact losses at Λ = Σ = I, ‖w*‖ = `prior_norm`: optimum for every number of heads, GD, gap, Bayes.

    Args:
        heads: the numbers of heads to list (None: 1 … d+1; more add nothing).

    >>> table = summary(dim=10, context_len=10, prior_norm=1)
    >>> [round(row["loss"], 6) for row in table["heads"][:2]], table["minimal_heads"]
    ([5.482178, 5.35212], 10)
    """
    law = Law.isotropic(dim, context_len, prior_norm, noise)
    listed = range(1, dim + 2) if heads is None else [heads] if isinstance(heads, int) else heads
    best, bayes = optimum(law), bayes_loss(law)
    from_mean, from_zero = gd_step(law, law.mean), gd_step(law)
    rows = [best_loss(law, h) for h in listed]
    return {
        "dim": dim,
        "context_len": context_len,
        "prior_norm": float(prior_norm),
        "noise": law.noise,
        "gd_from_mean": from_mean._asdict(),
        "gd_from_zero": from_zero._asdict(),
        "yq_lsa": {"loss": best.step_loss},
        "optimum": best.loss,
        "gap": best.gap,
        "minimal_heads": minimal_heads(law),
        "heads": [
            {
                "num_heads": row.num_heads,
                "loss": row.loss,
                "kappa": row.kappa,
                "how": "closed form" if row.kappa is None else "search over one angle (observed, not proved)",
            }
            for row in rows
        ],
        "bayes": {"loss": bayes.loss, "standard_error": bayes.standard_error},
    }
