"""Softmax regression documents and a softmax layer (li2024, layer A) as one would first write them in PyTorch.

It is the slow side of `benchmarks.side_by_side` and shares no code with iclearn. Torch is needed here and nowhere else.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn


class LabelNet(nn.Module):
    """x̂ = V Σ_i softmax_i(qᵀK e_i) e_i with the words e_i = (a_i, log b_i − mean); the answer is softmax(A_q x̂)."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.query, self.key, self.value = (
            nn.Parameter(torch.tensor(weights[n], dtype=torch.float32)) for n in ("query", "key", "value")
        )

    def forward(self, context: torch.Tensor, target: torch.Tensor, asked: torch.Tensor) -> torch.Tensor:
        logs = torch.log(target)
        words = torch.cat([context, (logs - logs.mean(-1, keepdim=True))[..., None]], -1)
        weights = torch.softmax(words @ (self.query @ self.key), -1)
        estimate = torch.einsum("bw,bwe,de->bd", weights, words, self.value)
        return torch.softmax(torch.einsum("bqd,bd->bq", asked, estimate), -1)


def train(model: LabelNet, steps: int, *, words: int, dim: int, scale: float, batch: int, lr: float) -> None:
    """Adam on fresh documents: words standard normal, the context centered, b = softmax(Ax), ‖x‖ = scale."""
    device = model.query.device
    optimizer = torch.optim.Adam(model.parameters(), lr)
    for _ in range(steps):
        context, asked = (torch.randn((batch, words, dim), device=device) for _ in range(2))
        context = context - context.mean(1, keepdim=True)
        x = torch.randn((batch, dim, 1), device=device)
        x = scale * x / x.norm(dim=1, keepdim=True)
        shown, wanted = (torch.softmax((a @ x)[..., 0], -1) for a in (context, asked))
        optimizer.zero_grad()
        (words / 2 * ((model(context, shown, asked) - wanted) ** 2).sum(-1)).mean().backward()
        optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
