"""Linear self-attention with an initial guess (xie2025) as one would first write it in PyTorch: tokens, autograd, Adam.

It is the slow side of `benchmarks.side_by_side` and shares no code with iclearn. Torch is needed here and nowhere else.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn


class GuessNet(nn.Module):
    """The query token [x_q; g], g = w·x_q, gets Σ_h (p_h · z)(zᵀ Q_h z_q)/C from the context tokens z = [x; y]."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.p, self.q, self.guess = (
            nn.Parameter(torch.tensor(weights[n], dtype=torch.float32)) for n in ("p", "q", "guess")
        )

    def forward(self, context: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        first = query @ self.guess
        asked = torch.cat([query, first[:, None]], -1)
        answer = first
        for p, q in zip(self.p, self.q, strict=True):
            scores = torch.einsum("bca,ae,be->bc", context, q, asked)
            answer = answer + (scores * (context @ p)).mean(-1)
        return answer


def train(model: GuessNet, steps: int, *, dim: int, context: int, batch: int, mean: np.ndarray, lr: float) -> None:
    """Adam on fresh prompts: x standard normal, w normal around its mean, y = w·x."""
    device = model.p.device
    optimizer = torch.optim.Adam(model.parameters(), lr)
    center = torch.tensor(mean, dtype=torch.float32, device=device)
    for _ in range(steps):
        x = torch.randn((batch, context + 1, dim), device=device)
        w = center + torch.randn((batch, dim), device=device)
        y = torch.einsum("bcd,bd->bc", x, w)
        tokens = torch.cat([x, y[..., None]], -1)[:, :-1]
        optimizer.zero_grad()
        ((model(tokens, x[:, -1]) - y[:, -1]) ** 2).mean().backward()
        optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
