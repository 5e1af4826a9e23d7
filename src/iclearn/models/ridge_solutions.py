"""Coefficients of least squared error, with ridge or of least norm: by the features' moments or by the prompts' kernel.

T = argmin mean (y − φᵀT)² + r ‖T‖² is (M + rI)⁻¹ b with M = mean φφᵀ and b = mean yφ (primal), and φᵀ(K + rnI)⁻¹y with
the n × n kernel K = φφᵀ of the prompts (dual); r = 0 means the limit r → 0, the solution of least norm. The ridge λ of
lu2025 is r = λ/d.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..core import jax_settings as jax_settings
from ..core.checks import literals_checked, require

Method = Literal["auto", "primal", "dual", "pinv"]
_BLOCK_NUMBERS = 1 << 22  # products of entries at once: 32 megabytes
_DEVICE_ROWS = 4096  # prompts of a block on a device, the last one padded: one program for any number of prompts
_DEVICE_KERNEL = 512  # to a multiple of which kernels are padded there


@literals_checked
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
    return "pinv" if method == "pinv" else "auto"


@literals_checked
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
    import scipy.linalg  # a tenth of a second that only solving needs

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


@literals_checked
def solve_gamma(
    queries: Any, contexts: Any, targets: Any, ridge: float = 0.0, method: Method = "auto"
) -> Float[Any, "input entry"]:
    """Γ* of reduced linear attention on n prompts: argmin mean (y − x_qᵀ Γ h)² + (λ/d) ‖Γ‖² (lu2025).

    The moments are summed as products of products (`GammaSums`), and the kernel of the prompts is
    K_μν = (x_μ·x_ν)(h_μ·h_ν): neither needs the features x_q ⊗ h.

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
        kernel, right = (queries @ queries.T) * (contexts @ contexts.T), targets
        more = -count % _DEVICE_KERNEL if xp is jnp else 0
        if more:  # prompts without features, each a kernel of its own: their weights are zero
            kernel, right = jnp.pad(kernel, (0, more)), jnp.pad(right, (0, more))
            kernel += jnp.diag(jnp.where(jnp.arange(count + more) < count, 0.0, kernel[0, 0]))
        weights = solve_symmetric(kernel, right, ridge * count / dim, _allowed(method))[:count]
        return (queries * weights[:, None]).T @ contexts
    sums = GammaSums(dim, entries)
    sums.add(queries, contexts, targets)
    return sums.solve(ridge, method)


class GammaSums:
    """Sums over prompts from which Γ* follows for any ridge, while more prompts are added.

    Mean φφᵀ of φ = x_q ⊗ h is symmetric in the two inputs and in the two entries of the context: a product of matrices
    of d(d + 1)/2 products of inputs and as many of entries has all its numbers, a quarter of those of the full matrix.

    Args:
        dim: d.
        entries: of the context's features h.

    >>> sums = GammaSums(1, 1)
    >>> for x in ([[1.0]], [[2.0]]):
    ...     sums.add(x, [[1.0]], [3.0 * x[0][0]])
    >>> sums.count, sums.solve().round(6).tolist()
    (2, [[3.0]])
    """

    def __init__(self, dim: int, entries: int) -> None:
        self.dim, self.entries, self.count = dim, entries, 0
        self.second: Any = 0.0
        self.cross: Any = 0.0

    def add(self, queries: Any, contexts: Any, targets: Any) -> None:
        """More prompts; JAX arrays are summed where they lie, in blocks of one shape.

        Args:
            queries: (prompt, dim) x_q.
            contexts: (prompt, entry) h.
            targets: (prompt) y.
        """
        device = isinstance(queries, jax.Array)
        xp = jnp if device else np
        parts = [xp.asarray(a, float) for a in (queries, contexts, targets)]
        count = len(parts[0])
        rows = _DEVICE_ROWS if device else max(256, _BLOCK_NUMBERS // max(1, self.dim * self.entries))
        for start in range(0, count, rows):
            block = [part[start : start + rows] for part in parts]
            if device:
                short = rows - len(block[0])
                block = [jnp.pad(part, ((0, short), *[(0, 0)] * (part.ndim - 1))) for part in block]
            second, cross = (_device_sums if device else _sums)(*block)
            self.second, self.cross = self.second + second, self.cross + cross
        self.count += count

    @literals_checked
    def solve(self, ridge: float = 0.0, method: Method = "auto") -> Float[Any, "input entry"]:
        """Γ* of the prompts so far.

        Args:
            ridge: λ; 0: the limit λ → 0.
            method: as in `solve_symmetric`.

        Returns:
            (dim, entry) Γ*.
        """
        require(self.count > 0, "there are no prompts yet: add some")
        unfold = _device_unfolded if isinstance(self.second, jax.Array) else _unfolded
        matrix = unfold(self.second / self.count, self.dim, self.entries)
        solved = solve_symmetric(matrix, self.cross.ravel() / self.count, ridge / self.dim, _allowed(method))
        return solved.reshape(self.dim, self.entries)


def _products(rows: Any) -> Any:
    """(row, pair) x_i x_j for i ≤ j."""
    first, second = np.triu_indices(rows.shape[1])
    return rows[:, first] * rows[:, second]


def _sums(queries: Any, contexts: Any, targets: Any) -> tuple[Any, Any]:
    return _products(queries).T @ _products(contexts), (queries * targets[:, None]).T @ contexts


def _pair_index(size: int) -> np.ndarray:
    """(size, size) where the product of i and j stands among those of `_products`."""
    index = np.zeros((size, size), int)
    index[np.triu_indices(size)] = np.arange(size * (size + 1) // 2)
    return np.maximum(index, index.T)


def _unfolded(second: Any, dim: int, entries: int) -> Any:
    """(dim·entries, dim·entries) the symmetric matrix of all products, input by input."""
    inputs, own = _pair_index(dim), _pair_index(entries)
    full = np.empty((dim, entries, dim, entries))
    for i in range(dim):
        full[i] = second[inputs[i]][:, own].transpose(1, 0, 2)
    return full.reshape(dim * entries, dim * entries)


_device_sums = jax.jit(_sums)


@functools.partial(jax.jit, static_argnums=(1, 2))
def _device_unfolded(second: Any, dim: int, entries: int) -> Any:
    full = second[_pair_index(dim)][:, :, _pair_index(entries)]
    return full.transpose(0, 2, 1, 3).reshape(dim * entries, dim * entries)
