"""Every Γ on the way of gradient flow from zero, and every ridge solution, from one eigendecomposition.

With the mean moments M = mean φφᵀ, b = mean yφ of the features φ = x_q ⊗ h, gradient flow on the mean squared error,
dΓ/dt = −∂/∂Γ mean (y − ⟨Γ, H⟩)² = 2(b − MΓ), from Γ = 0 has Γ(t) = M⁻¹(1 − e^{−2Mt}) b, and the ridge solution is
(M + λ/d)⁻¹ b: two filters of the eigenvalues of M.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.checks import require

_BLOCK_NUMBERS = 1 << 25  # numbers of features at once


class GammaPaths(NamedTuple):
    """The moments of n prompts, decomposed.

    Args:
        values: (feature) eigenvalues of M.
        vectors: (feature, feature) eigenvectors, in columns.
        cross: (feature) b.
        power: mean y².
        shape: of Γ, (dim, entry).

    >>> paths = decompose([[1.0], [1.0]], [[1.0], [2.0]], [1.0, 2.0])
    >>> paths.flow([0.0, 1e9]).ravel().round(6).tolist(), paths.ridge([0.0, 2.5]).ravel().round(6).tolist()
    ([0.0, 1.0], [1.0, 0.5])
    """

    values: np.ndarray
    vectors: np.ndarray
    cross: np.ndarray
    power: float
    shape: tuple[int, int]

    def flow(self, times: Any) -> np.ndarray:
        """Γ(t) of gradient flow from zero; t = ∞ is the solution of least norm.

        Args:
            times: (time) t ≥ 0, in units in which dΓ/dt is minus the gradient of the mean squared error.

        Returns:
            (time, dim, entry) Γ(t).
        """
        times = np.asarray(times, float)[:, None]
        require(bool((times >= 0).all()), "times of a flow must be at least 0")
        kept = self._kept()
        with np.errstate(invalid="ignore"):
            grown = np.where(np.isinf(times), 1.0, -np.expm1(-2 * self.values * times))
        return self._matrices(np.where(kept, grown / np.where(kept, self.values, 1.0), 0.0))

    def ridge(self, ridges: Any) -> np.ndarray:
        """argmin mean (y − ⟨Γ, H⟩)² + (λ/d) ‖Γ‖², as `ridge_solutions.solve_gamma`.

        Args:
            ridges: (ridge) λ ≥ 0; 0: least norm.

        Returns:
            (ridge, dim, entry) Γ.
        """
        shift = np.asarray(ridges, float)[:, None] / self.shape[0]
        require(bool((shift >= 0).all()), "a ridge must be at least 0")
        kept = self._kept()
        return self._matrices(np.where(kept, 1 / np.where(kept, self.values + shift, 1.0), 0.0))

    def loss(self, gamma: Any) -> np.ndarray:
        """The training loss mean (y − ⟨Γ, H⟩)².

        Args:
            gamma: (…, dim, entry) Γ.

        Returns:
            (…) the loss.
        """
        flat = np.asarray(gamma, float).reshape(*np.shape(gamma)[:-2], -1)
        turned = flat @ self.vectors
        return self.power - 2 * flat @ self.cross + (self.values * turned**2).sum(-1)

    def _kept(self) -> np.ndarray:
        """Which eigenvalues are not zero to rounding."""
        return self.values > self.values[-1] * len(self.values) * np.finfo(float).eps * 10

    def _matrices(self, filters: np.ndarray) -> np.ndarray:
        return ((filters * (self.cross @ self.vectors)) @ self.vectors.T).reshape(-1, *self.shape)


def decompose(queries: Any, contexts: Any, targets: Any) -> GammaPaths:
    """The moments of prompts and their eigendecomposition: O(n d⁴) + O(d⁶), once for all times and ridges.

    Args:
        queries: (prompt, dim) x_q.
        contexts: (prompt, entry) h.
        targets: (prompt) y.

    Returns:
        The paths.
    """
    queries, contexts, targets = (np.asarray(a, float) for a in (queries, contexts, targets))
    (count, dim), entries = queries.shape, contexts.shape[1]
    fits = contexts.shape[0] == count and targets.shape == (count,)
    require(fits, f"{count} queries need as many contexts and targets, not {contexts.shape} and {targets.shape}")
    second, block = np.zeros((dim * entries, dim * entries)), max(1, _BLOCK_NUMBERS // (dim * entries))
    for start in range(0, count, block):
        part = slice(start, start + block)
        features = (queries[part, :, None] * contexts[part, None, :]).reshape(-1, dim * entries)
        second += features.T @ features
    values, vectors = np.linalg.eigh(second / count)
    cross = ((queries * targets[:, None]).T @ contexts).ravel() / count
    return GammaPaths(values, vectors, cross, float(np.mean(targets**2)), (dim, entries))
