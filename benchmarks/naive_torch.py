"""The model as one would first write it in PyTorch: every head's full attention matrix, every step over all prompts.

It is the slow side of the comparison and shares no code with iclearn. Torch is needed here and nowhere else.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import torch
from torch import nn


class Head(nn.Module):
    """One head: (XᵀW^{KQ}X) or its softmax, times the values of all tokens."""

    def __init__(self, value: np.ndarray, softmax: bool) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.tensor(value))
        self.softmax = softmax

    def key_query(self) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        attention = tokens @ self.key_query() @ tokens.transpose(1, 2)  # (prompts, tokens, tokens)
        if self.softmax:
            attention = torch.softmax(attention, dim=-1)
        return attention @ (tokens @ self.value.T)


class MergedHead(Head):
    def __init__(self, value: np.ndarray, kq: np.ndarray, softmax: bool) -> None:
        super().__init__(value, softmax)
        self.kq = nn.Parameter(torch.tensor(kq))

    def key_query(self) -> torch.Tensor:
        return self.kq


class SeparateHead(Head):
    def __init__(self, value: np.ndarray, key: np.ndarray, query: np.ndarray, softmax: bool) -> None:
        super().__init__(value, softmax)
        self.key = nn.Parameter(torch.tensor(key))
        self.query = nn.Parameter(torch.tensor(query))

    def key_query(self) -> torch.Tensor:
        return self.query.T @ self.key


class MultiHeadAttention(nn.Module):
    """The sum of all heads; the prediction is the label entry of the last token."""

    def __init__(self, heads: list[Head]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        output = torch.zeros_like(tokens)
        for head in self.heads:
            output = output + head(tokens)
        return output[:, -1, -1]


def build(weights: Mapping[str, np.ndarray], softmax: bool) -> MultiHeadAttention:
    """A model from full matrices: `value` and `kq` (heads, entry, entry), or `key` and `query` (heads, rank, entry)."""
    if "kq" in weights:
        pairs = zip(weights["value"], weights["kq"], strict=True)
        return MultiHeadAttention([MergedHead(value, kq, softmax) for value, kq in pairs])
    triples = zip(weights["value"], weights["key"], weights["query"], strict=True)
    return MultiHeadAttention([SeparateHead(value, key, query, softmax) for value, key, query in triples])


def train(
    tokens: np.ndarray, target: np.ndarray, weights: Mapping[str, np.ndarray], *, lr: float, steps: int, softmax: bool,
    device: str = "cpu",
) -> tuple[list[float], list[float], list[float]]:  # fmt: skip
    """Full-batch gradient descent; the loss before each update, and the seconds and processor seconds of each step."""
    x, y = torch.tensor(tokens, device=device), torch.tensor(target, device=device)
    model = build(weights, softmax).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    criterion = nn.MSELoss()
    losses, seconds, cpu_seconds = [], [], []
    for _ in range(steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
        cpu_seconds.append(time.process_time() - cpu_begin)
    return losses, seconds, cpu_seconds
