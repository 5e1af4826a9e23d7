"""The recipes that several cases measure, with the public README's sizes and rates."""

from __future__ import annotations

from typing import Any

from iclearn import Attention, Init, LinearRegression, Optimizer, Recipe

SEED = 10


def merged(dim: int, num_prompts: int | None, *, num_heads: int = 8, softmax: bool = False, **changes: Any) -> Recipe:
    """attnM of the README; softmax averages over tokens, so it takes a larger rate and init."""
    init, lr = (1e-1, 0.1) if softmax else (1e-6, 1e-3)
    model = Attention("merged", num_heads=num_heads, softmax=softmax)
    recipe = Recipe(_task(dim, num_prompts), model, Init(init), Optimizer(lr=lr), steps=6001, seed=SEED)
    return recipe.replace(**changes) if changes else recipe


def separate(
    dim: int, num_prompts: int | None, *, num_heads: int, rank: int = 1, softmax: bool = False, **changes: Any
) -> Recipe:
    """attnS of the README: 10,001 steps for D = 4, 20,001 for D = 8."""
    init, lr = (1e-1, 0.1) if softmax else (1e-2 if dim == 4 else 5e-3, 0.02)
    model = Attention("separate", num_heads=num_heads, rank=rank, softmax=softmax)
    steps = 10_001 if dim == 4 else 20_001
    recipe = Recipe(_task(dim, num_prompts), model, Init(init), Optimizer(lr=lr), steps=steps, seed=SEED)
    return recipe.replace(**changes) if changes else recipe


def _task(dim: int, num_prompts: int | None) -> LinearRegression:
    """The task the public code's command lines mean: centered and whitened where the set is finite."""
    finite = num_prompts is not None
    return LinearRegression(dim=dim, num_prompts=num_prompts, center=finite, whiten=finite)
