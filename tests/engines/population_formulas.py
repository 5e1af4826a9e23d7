"""The population loss of spec section 4 in numpy, matrix by matrix, sharing no code with the engine."""

from __future__ import annotations

import numpy as np


def sandwich(cov: np.ndarray, middle: np.ndarray, num: int) -> np.ndarray:
    """E[Λ̂ A Λ̂] for symmetric A."""
    return cov @ middle @ cov + (cov @ middle @ cov + np.trace(middle @ cov) * cov) / num


class PopulationLoss:
    """L(W) of ŷ = β̂ᵀ W x_q, β̂ = (1/N) Σ y_n x_n, under w ~ N(μ, S) and label noise σ²."""

    def __init__(self, cov, num, mean=None, prior=None, noise=0.0):
        dim = len(cov)
        mean = np.zeros(dim) if mean is None else np.asarray(mean)
        prior = np.eye(dim) if prior is None else np.asarray(prior)
        self.cov, self.task = cov, prior + np.outer(mean, mean)
        self.second = sandwich(cov, self.task, num) + noise * cov / num

    def __call__(self, w: np.ndarray) -> float:
        energy = np.trace(self.task @ self.cov)
        cross = self.cov @ self.task @ self.cov
        return float(energy - 2 * np.trace(w.T @ cross) + np.trace(w.T @ self.second @ w @ self.cov))

    def gradient(self, w: np.ndarray) -> np.ndarray:
        return 2 * (self.second @ w @ self.cov - self.cov @ self.task @ self.cov)

    def best(self) -> np.ndarray:
        return np.linalg.solve(self.second, self.cov @ self.task)


def effective(value: np.ndarray, kq: np.ndarray) -> np.ndarray:
    """W = Σ_h v_h U_h from the arrays of a reduced merged model (one output), where kq holds U_hᵀ."""
    return np.einsum("h,hji->ij", value[:, 0, 0], kq)
