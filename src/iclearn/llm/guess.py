"""Guess models: a linear head on frozen features of a pair.

Trained as section 5.3 of xie2025 says: Adam with learning rate 1e-3, squared error, 10 epochs, batches of 8. That the
model is linear in frozen features is our reading; the paper does not name its architecture.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.errors import IclearnError
from .extra import need
from .stsb import HIGHEST, LOWEST
from .tensors import read_tensors, write_tensors

LEARNING_RATE, EPOCHS, BATCH = 1e-3, 10, 8


@dataclass(frozen=True)
class Head:
    """A trained linear head: the score is weight·(x − center)/spread + bias, cut to the scale."""

    weight: np.ndarray
    bias: np.ndarray
    center: np.ndarray
    spread: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        if features.shape[-1] != len(self.weight):
            raise IclearnError(f"this guess model reads {len(self.weight)} features, not {features.shape[-1]}")
        score = (features - self.center) / self.spread @ self.weight + self.bias
        return np.clip(score, LOWEST, HIGHEST).astype(np.float64)

    def save(self, path: str | Path) -> Path:
        return write_tensors(Path(path), dict(vars(self)))

    @classmethod
    def load(cls, path: str | Path) -> Head:
        return cls(**read_tensors(Path(path), ("weight", "bias", "center", "spread")))


def train_head(
    features: np.ndarray,
    scores: np.ndarray,
    *,
    seed: int = 0,
    learning_rate: float = LEARNING_RATE,
    epochs: int = EPOCHS,
    batch_size: int = BATCH,
) -> Head:
    """Fit a head by Adam on the squared error. It starts at the mean score; `seed` orders the batches."""
    if len(features) != len(scores) or not len(scores):
        raise IclearnError(f"a guess model needs as many features as scores, not {len(features)} and {len(scores)}")
    torch = need("torch")
    center = features.mean(0).astype(np.float32)
    spread = np.maximum(features.std(0), 1e-6).astype(np.float32)
    x = torch.from_numpy(((features - center) / spread).astype(np.float32))
    y = torch.from_numpy(scores.astype(np.float32))
    head = torch.nn.Linear(x.shape[1], 1)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.fill_(float(scores.mean()))
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=order).split(batch_size):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(head(x[rows])[:, 0], y[rows]).backward()
            optimizer.step()
    return Head(head.weight.detach().numpy()[0].copy(), head.bias.detach().numpy().copy(), center, spread)
