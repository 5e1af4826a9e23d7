"""GPT-2 on regression prompts as one would first write it in PyTorch: one model, fresh prompts, autograd, Adam.

It is the other side of `benchmarks.transformer_steps` and shares no code with iclearn. Torch is
needed here and nowhere else.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """h ← h + Attn(LN h), h ← h + MLP(LN h), with PyTorch's own attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        split = self.qkv(self.first(h)).unflatten(-1, (3, self.heads, -1))
        q, k, v = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.merge(mixed.transpose(1, 2).flatten(2))
        return h + self.contract(F.gelu(self.expand(self.second(h)), approximate="tanh"))


class GPT2(nn.Module):
    """Tokens (0, x_1), (y_1, 0), (0, x_2), …, or x_1, (y_1, 0, …), x_2, … with biases at both ends where inputs and
    labels share entries; the answers are read at the inputs."""

    def __init__(self, dim: int, tokens: int, layers: int, width: int, heads: int, *, shared: bool = False) -> None:
        super().__init__()
        self.shared = shared
        self.embed = nn.Linear(dim if shared else dim + 1, width, bias=shared)
        self.read_out = nn.Linear(width, 1, bias=shared)
        self.position = nn.Parameter(torch.zeros(2 * tokens, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final = nn.LayerNorm(width)

    def load(self, weights: Mapping[str, np.ndarray]) -> GPT2:
        """Take over weights under iclearn's names; its matrices are (in, out)."""
        tensor = lambda name, *at: torch.tensor(np.asarray(weights[name])[at], dtype=torch.float32)  # noqa: E731
        with torch.no_grad():
            self.embed.weight.copy_(tensor("embed").T)
            self.read_out.weight.copy_(tensor("read_out").T)
            self.position.copy_(tensor("position"))
            if self.shared:
                self.embed.bias.copy_(tensor("embed_bias"))
                self.read_out.bias.copy_(tensor("read_bias"))
            for i, block in enumerate(self.blocks):
                for name in ("qkv", "merge", "expand", "contract"):
                    getattr(block, name).weight.copy_(tensor(name, i).T)
                    getattr(block, name).bias.copy_(tensor(f"{name}_bias", i))
                for name in ("first", "second"):
                    getattr(block, name).weight.copy_(tensor(f"{name}_scale", i))
                    getattr(block, name).bias.copy_(tensor(f"{name}_offset", i))
            self.final.weight.copy_(tensor("final_scale"))
            self.final.bias.copy_(tensor("final_offset"))
        return self

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        inputs = x if self.shared else F.pad(x, (1, 0))
        labels = F.pad(y, (0, inputs.shape[-1] - 1))
        h = self.embed(torch.stack([inputs, labels], 2).flatten(1, 2)) + self.position
        for block in self.blocks:
            h = block(h)
        return self.read_out(self.final(h)[:, ::2])


def train(
    model: GPT2, steps: int, *, batch: int, tokens: int, dim: int, pool: int | None, lr: float, precision: str
) -> None:
    """Adam on fresh prompts of a pool of tasks, or of fresh tasks; returns when the device has done all of it."""
    device = model.position.device
    tasks = torch.randn((pool or 1, dim), device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    low: Any = contextlib.nullcontext()
    if precision == "bfloat16":
        low = torch.autocast(device.type, dtype=torch.bfloat16)
    for _ in range(steps):
        x = torch.randn((batch, tokens, dim), device=device)
        chosen = torch.randint(pool, (batch,), device=device) if pool else None
        w = torch.randn((batch, dim), device=device) if chosen is None else tasks[chosen]
        y = torch.einsum("bti,bi->bt", x, w)[..., None] + 0.5 * torch.randn((batch, tokens, 1), device=device)
        with low:
            loss = ((model(x, y) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if device.type == "cuda":
        torch.cuda.synchronize()
