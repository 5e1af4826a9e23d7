"""The theory's numbers for one set of sizes, as plain values that go into JSON."""

from __future__ import annotations

from typing import Any

from ...core.checks import check_int
from .noise import ridge_loss
from .one_layer import one_layer
from .optima import gdpp_minima, krylov, tied_descent, tied_gdpp
from .wishart import recursion_moments

DEEPEST = 3  # layers of GD++ whose minima are searched: beyond, no one samples the spectra that rule the loss


def summary(dim: int, context_len: int, layers: int, noise: float = 0.0, restarts: int = 40) -> dict[str, Any]:
    """Exact losses at Σ = Σ_w = I (or Σ_w = Σ⁻¹, in whitened inputs): gradient descent and GD++ with L layers.

    Args:
        dim: d.
        context_len: N.
        layers: L.
        noise: σ² on the context's labels, for the one-layer optimum, the minima of GD++ and the ridge bound.
        restarts: starts of the search for minima of GD++.

    Returns:
        Names and values that can be written as JSON: what ``iclearn theory ahn2023`` prints.

    >>> table = summary(5, 20, 2)
    >>> round(table["gd"][1]["loss"], 7), [round(row["loss"], 8) for row in table["gdpp_minima"]]
    (0.3612397, [0.05750115, 0.08654791, 0.10234492])
    """
    check_int("layers", layers, 1)
    first = one_layer([1.0] * dim, context_len, noise=noise)
    found: dict[str, Any] = {
        "dim": dim, "context_len": context_len, "layers": layers, "noise": float(noise),
        "moments": [float(m) for m in recursion_moments(dim, context_len, 9)],
        "one_layer": {"loss": first.loss, "step": float(first.preconditioner[0])},
    }  # fmt: skip
    if noise:
        found["ridge"] = ridge_loss(dim, context_len, noise)
    else:
        rows = range(1, layers + 1)
        found["gd"] = [{"layers": k, **_row(krylov(dim, context_len, k))} for k in rows]
        found["gd_tied"] = [{"layers": k, **_row(tied_descent(dim, context_len, k))} for k in rows]
        if layers > 1:
            found["gdpp_tied"] = [
                {"layers": k, **_row(tied_gdpp(dim, context_len, k))} for k in range(2, min(layers, 4) + 1)
            ]
    if 1 < layers <= DEEPEST:
        minima = gdpp_minima(dim, context_len, layers, restarts=restarts, noise=noise)
        found["gdpp_minima"] = [_row(best) for best in minima]
        degree = (3**layers - 1) // 2
        if not noise and degree <= 14:
            found["krylov_bound"] = {"degree": degree, "loss": krylov(dim, context_len, degree).loss}
    return found


def _row(best: Any) -> dict[str, Any]:
    row = {"loss": best.loss, "steps": [float(v) for v in best.steps]}
    return row | ({"curvature": [float(v) for v in best.curvature]} if best.curvature else {})
