"""Figure 2: attention is a two-layer network on z, and a sum of convolutional networks on z."""

from __future__ import annotations

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.prompt import Batch
from ...core.recipe import Init
from ...models import Attention
from ..base import Claim, Data, Figure, Outcome, judge_true
from ..lab import Lab
from .setup import public_task


def collect(lab: Lab) -> Data:
    def compute() -> xr.Dataset:
        columns: dict[str, list[np.ndarray]] = {}
        for seed in lab.seeds:
            task = public_task(prompts=400)
            drawn = task.source(seed, "float64").everything()
            assert isinstance(drawn, Batch)  # tokens, not ready-made features
            prompts = drawn.prompt
            answers = eqx.filter_jit(lambda model, given: jax.vmap(model.predict)(given)[:, 0])
            for rank, families in (
                (1, ("merged", "merged_reduced", "mlp")),
                (2, ("separate", "separate_reduced", "conv")),
            ):
                for family in families:
                    spec = Attention(family, num_heads=5, rank=rank)  # type: ignore[arg-type]
                    model = spec.initial(task, Init(1.0), seed, "float64")
                    columns.setdefault(family, []).append(np.asarray(answers(model, prompts)))
        return xr.Dataset({name: (("seed", "prompt"), np.stack(rows)) for name, rows in columns.items()})

    return {"predictions": lab.dataset("fig2", {"seeds": lab.num_seeds, "prompts": 400, "heads": 5}, compute)}


def draw(data: Data):
    table = data["predictions"]
    figure, axes = plt.subplots(1, 2, figsize=(9, 4.2))
    for ax, attention, network, label in (
        (axes[0], "merged", "mlp", "two-layer network on $z$"),
        (axes[1], "separate", "conv", "sum of convolutional networks on $z$"),
    ):
        x, y = table[attention].values.ravel(), table[network].values.ravel()
        limit = np.percentile(np.abs(x), 99.5)
        ax.plot([-limit, limit], [-limit, limit], color="0.6", lw=1)
        ax.plot(x, y, ".", ms=3, color="black")
        ax.set(xlabel=f"{attention} attention", ylabel=label, xlim=(-limit, limit), ylim=(-limit, limit))
        ax.set_title(f"largest difference {difference(data, attention, network):.1e}", fontsize=11)
        ax.set_aspect("equal")
    return figure


def difference(data: Data, attention: str, network: str) -> float:
    table = data["predictions"]
    scale = float(np.sqrt(np.mean(table[attention].values ** 2)))
    return float(np.max(np.abs(table[attention].values - table[network].values))) / scale


def equal(attention: str, *networks: str):
    def judge(data: Data) -> Outcome:
        worst = max(difference(data, attention, network) for network in networks)
        return judge_true(worst < 1e-12, worst, seeds=data["predictions"].sizes["seed"])

    return judge


FIGURE = Figure(
    id="fig2",
    title="attention is a linear network on cubic features",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "merged_is_mlp", "Merged attention with zero blocks, its reduced form and a two-layer network on z compute the same function.",
            "equal predictions", "1e-12 of their root mean square", equal("merged", "merged_reduced", "mlp"),
        ),
        Claim(
            "separate_is_conv", "Separate attention of rank R is a sum of three-layer convolutional networks on z.",
            "equal predictions", "1e-12 of their root mean square", equal("separate", "separate_reduced", "conv"),
        ),
    ),
    setup="random weights N(0, 1) in the per-head scaling, 5 heads (rank 2 where separate), 400 prompts of D=4, N=31 per seed; predictions compared",
    cost="5 s on 2 cores",
)  # fmt: skip
