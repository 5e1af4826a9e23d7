"""What the figures of fu2024 share: its task and the two algorithms."""

from __future__ import annotations

import numpy as np

DIM, POINTS = 20, 41
CONTEXT = POINTS - 1
RATE = 0.01  # of gradient descent on sums
NEWTON = tuple(range(15))
DESCENT = (1, 2, 4, 8, 16, 32, 50, 64, 100, 128, 150, 200, 256)
CONDITION = 10.0  # of the factor of the skewed inputs, so 100 of their covariance


def skewed() -> np.ndarray:
    """Eigenvalues of the covariance of the public code's skewed inputs: half κ², half 1, their mean scaled to 1."""
    squares = np.repeat([CONDITION**2, 1.0], DIM // 2)
    return squares * DIM / squares.sum()


def sequences(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (sequence, token, dim) and labels (sequence, token) of linear regression without noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, POINTS, DIM))
    return x, np.einsum("std,sd->st", x, rng.normal(size=(count, DIM)))
