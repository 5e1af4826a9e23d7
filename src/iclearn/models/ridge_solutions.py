"""Coefficients of least squared error, with ridge or of least norm: by the features' moments or by the prompts' kernel.

T = argmin mean (y − φᵀT)² + r ‖T‖² is (M + rI)⁻¹ b with M = mean φφᵀ and b = mean yφ (primal), and φᵀ(K + rnI)⁻¹y with
the n × n kernel K = φφᵀ of the prompts (dual); r = 0 means the limit r → 0, the solution of least norm. The ridge λ of
lu2025 is r = λ/d.
"""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Float

from ..core.checks import check_choice, require

Method = Literal["auto", "primal", "dual", "pinv"]
_BLOCK_NUMBERS = 1 << 25  # numbers of features at once: a quarter of a gigabyte


def solve_features(features: Any, targets: Any, ridge: float = 0.0, method: Method = "auto") -> Any:
    """Ridge or least-norm coefficients of features, in double precision.

    Args:
        features: (prompt, feature) φ; a JAX array is solved where it lies.
        targets: (prompt) y.
        ridge: r on MEAN moments; 0: the limit r → 0.
        method: ``primal``, ``dual`` or ``pinv`` (pseudo-inverse, by the eigenvalues of the smaller of M and K that are
            not zero to rounding); ``auto``: the smaller of the first two, and the third for singular ones.

    Returns:
        (feature) the coefficients.

    >>> solve_features([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0]).round(6).tolist()
    [1.0, 0.5]
    >>> solve_features([[1.0, 1.0]], [2.0]).round(6).tolist()  # of least norm
    [1.0, 1.0]
    """
    xp = jnp if isinstance(features, jax.Array) else np
    features, targets = xp.asarray(features, float), xp.asarray(targets, float)
    count, size = features.shape
    dual = method == "dual" or (method != "primal" and count < size)
    if dual:
        solved = solve_symmetric(features @ features.T, targets, ridge * count, _allowed(method))
        return features.T @ solved
    return solve_symmetric(features.T @ features / count, features.T @ targets / count, ridge, _allowed(method))


def _allowed(method: Method) -> Literal["auto", "pinv"]:
    check_choice("method", method, Method)
    return "pinv" if method == "pinv" else "auto"


def solve_symmetric(
    matrix: Any, right: Any, ridge: float = 0.0, method: Literal["auto", "pinv"] = "auto"
) -> Float[Any, " row"]:
    """(A + rI)⁻¹ b for symmetric A ≥ 0, and A⁺b where that is singular: by Cholesky, or by eigenvalues.

    Args:
        matrix: (row, row) A.
        right: (row) b.
        ridge: r ≥ 0.
        method: ``auto`` tries Cholesky and keeps its answer if it solves the equations; ``pinv`` takes eigenvalues.

    Returns:
        (row) the solution, the one of least norm where there are several.
    """
    require(ridge >= 0, f"the ridge must be at least 0, not {ridge}")
    xp, linalg = (jnp, jax.scipy.linalg) if isinstance(matrix, jax.Array) else (np, scipy.linalg)
    shifted = matrix + ridge * xp.eye(len(matrix)) if ridge else matrix
    if method == "auto":
        try:
            found = linalg.cho_solve(linalg.cho_factor(shifted, lower=True), right)
        except np.linalg.LinAlgError:
            found = None
        if found is not None:
            miss = xp.abs(shifted @ found - right).max()
            if bool(miss <= 1e-9 * xp.abs(right).max()):  # false for NaN
                return found
    values, vectors = xp.linalg.eigh(shifted)
    keep = values > values[-1] * len(values) * np.finfo(float).eps * 10
    return vectors @ xp.where(keep, (vectors.T @ right) / xp.where(keep, values, 1.0), 0.0)


def solve_gamma(
    queries: Any, contexts: Any, targets: Any, ridge: float = 0.0, method: Method = "auto"
) -> Float[Any, "input entry"]:
    """Γ* of reduced linear attention on n prompts: argmin mean (y − x_qᵀ Γ h)² + (λ/d) ‖Γ‖² (lu2025).

    The features x_q ⊗ h are formed block by block where the moments are solved for, and the kernel of the prompts is
    K_μν = (x_μ·x_ν)(h_μ·h_ν), which needs no features at all.

    Args:
        queries: (prompt, dim) x_q.
        contexts: (prompt, entry) h, the context's features (`label_gram.LabelGram.context_part`).
        targets: (prompt) y.
        ridge: λ; 0: the limit λ → 0, which is the solution of least norm where n < d(d + 1).
        method: as in `solve_features`.

    Returns:
        (dim, entry) Γ*.

    >>> solve_gamma([[1.0], [2.0]], [[1.0], [1.0]], [3.0, 6.0]).round(6).tolist()
    [[3.0]]
    """
    xp = jnp if isinstance(queries, jax.Array) else np
    queries, contexts, targets = (xp.asarray(a, float) for a in (queries, contexts, targets))
    (count, dim), entries = queries.shape, contexts.shape[1]
    fits = contexts.shape[0] == count and targets.shape == (count,)
    require(fits, f"{count} queries need as many contexts and targets, not {contexts.shape} and {targets.shape}")
    if method == "dual" or (method != "primal" and count < dim * entries):
        kernel = (queries @ queries.T) * (contexts @ contexts.T)
        weights = solve_symmetric(kernel, targets, ridge * count / dim, _allowed(method))
        return (queries * weights[:, None]).T @ contexts
    second, block = 0.0, max(1, _BLOCK_NUMBERS // (dim * entries))
    for start in range(0, count, block):
        part = slice(start, start + block)
        features = (queries[part, :, None] * contexts[part, None, :]).reshape(-1, dim * entries)
        second = second + features.T @ features
    cross = ((queries * targets[:, None]).T @ contexts).ravel()
    solved = solve_symmetric(second / count, cross / count, ridge / dim, _allowed(method))
    return solved.reshape(dim, entries)
