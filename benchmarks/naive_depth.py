"""Deep attention as one would first write it in PyTorch: tokens, every layer's full attention map, autograd, Adam.

It is the slow side of `benchmarks.depth_steps` and shares no code with iclearn. Torch is needed here and nowhere else.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Prompts:
    """How fresh prompts are drawn: x = F u with u uniform on [−√3, √3]^d or standard normal, w = W v, y = w·x."""

    dim: int
    context_len: int
    batch: int
    inputs: np.ndarray
    prior: np.ndarray
    uniform: bool

    def draw(self, device: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens [x; y] with the query [x_q; 0] last, and the labels of the queries."""
        shape = (self.batch, self.context_len + 1, self.dim)
        edge = math.sqrt(3.0)
        u = (2 * torch.rand(shape, device=device) - 1) * edge if self.uniform else torch.randn(shape, device=device)
        x = u @ torch.tensor(self.inputs.T, dtype=torch.float32, device=device)
        prior = torch.tensor(self.prior.T, dtype=torch.float32, device=device)
        w = torch.randn((self.batch, self.dim), device=device) @ prior
        y = (x * w[:, None]).sum(-1, keepdim=True)
        target = y[:, -1, 0].clone()
        y[:, -1] = 0.0
        return torch.cat([x, y], -1), target


class DeepAttentionNet(nn.Module):
    """oswald2023: W_q, W_k, W_v (layer, entry, heads · key), W_o (layer, heads · key, entry); attention is a sum."""

    def __init__(
        self, weights: Mapping[str, np.ndarray], *, layers: int, heads: int, softmax: bool, first_softmax: bool,
        clip: bool, positions: np.ndarray | None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.w = nn.ParameterDict({n: nn.Parameter(torch.tensor(w, dtype=torch.float32)) for n, w in weights.items()})
        self.layers, self.heads, self.softmax, self.first_softmax = layers, heads, softmax, first_softmax
        self.clip = clip and layers > 3
        code = torch.zeros(0) if positions is None else torch.tensor(positions, dtype=torch.float32)
        self.interleaved = positions is not None
        self.register_buffer("code", code)

    def tokens(self, pairs: torch.Tensor) -> torch.Tensor:
        if not self.interleaved:
            return pairs
        x, y = pairs[:, :, :-1], pairs[:, :-1, -1]
        h = torch.zeros((len(x), 2 * x.shape[1] - 1, x.shape[2]), device=x.device)
        h[:, 0::2] = x
        h[:, 1::2, -1] = y
        return torch.cat([h, self.code.expand(len(x), -1, -1)], -1)  # type: ignore[operator]

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        h = self.tokens(pairs)
        batch, length, _ = h.shape
        for index in range(self.layers):
            at = index % len(self.w["query"])
            q, k, v = (
                (h @ self.w[name][at]).reshape(batch, length, self.heads, -1).transpose(1, 2)
                for name in ("query", "key", "value")
            )
            scores = q @ k.transpose(-1, -2)  # (prompt, head, token, token)
            if self.softmax or (self.first_softmax and index == 0):
                hidden = torch.zeros(length, device=h.device)
                hidden[-1] = -math.inf
                scores = torch.softmax(scores / math.sqrt(k.shape[-1]) + hidden, -1)
            else:
                source = torch.ones(length, device=h.device)
                source[-1] = 0.0
                scores = scores * source
            read = (scores @ v).transpose(1, 2).reshape(batch, length, -1)
            h = h + read @ self.w["output"][at]
            if self.clip:
                h = h.clamp(-10, 10)
        return -h[:, -1, -1]


class PreconditionedNet(nn.Module):
    """ahn2023: P_l and Q_l (layer, dim, dim), tokens ← tokens + (1/N) P (attention map) of the context."""

    def __init__(self, a: np.ndarray, b: np.ndarray) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor(a, dtype=torch.float32))
        self.b = nn.Parameter(torch.tensor(b, dtype=torch.float32))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        z, context = pairs, pairs.shape[1] - 1
        source = torch.ones(context + 1, device=z.device)
        source[-1] = 0.0
        for a, b in zip(self.a, self.b, strict=True):
            size = a.shape[0]
            q, p = (torch.zeros((size + 1, size + 1), device=z.device) for _ in range(2))
            q[:size, :size] = -a
            p[:size, :size] = b
            p[size, size] = 1.0
            scores = (z @ q.T @ z.transpose(1, 2)) * source  # row n, column m: z_mᵀ K z_n
            z = z + scores @ (z @ p.T) / context
        return -z[:, -1, -1]


def train(
    model: nn.Module, prompts: Prompts, steps: int, *, lr: float, betas: tuple[float, float], eps: float,
    clip: float | None, device: str,
) -> None:  # fmt: skip
    """So many steps of Adam, each on fresh prompts."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, betas=betas, eps=eps)
    for _ in range(steps):
        tokens, target = prompts.draw(device)
        optimizer.zero_grad()
        loss = ((model(tokens) - target) ** 2).mean()
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    if device == "cuda":
        torch.cuda.synchronize()
