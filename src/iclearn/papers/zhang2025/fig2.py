"""Figure 2: attention is a two-layer network on z, and a sum of convolutional networks on z."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.prompt import Batch
from ...core.recipe import Init
from ...models import Attention
from ..base import Claim, Counterexample, Data, Figure
from ..judging import Outcome, judge_true
from ..lab import Lab
from .setup import public_task

FAMILIES = {1: ("merged", "merged_reduced", "mlp"), 2: ("separate", "separate_reduced", "conv")}  # by rank


def predictions(seeds: Sequence[int], num_prompts: int) -> xr.Dataset:
    """Answers of each family, all from the same random weights, to the same prompts."""
    columns: dict[str, list[np.ndarray]] = {}
    answers = eqx.filter_jit(lambda model, given: jax.vmap(model.predict)(given)[:, 0])
    for seed in seeds:
        task = public_task(prompts=num_prompts)
        drawn = task.source(seed, "float64").everything()
        assert isinstance(drawn, Batch)  # tokens, not ready-made features
        for rank, families in FAMILIES.items():
            for family in families:
                spec = Attention(family, num_heads=5, rank=rank)  # type: ignore[arg-type]
                model = spec.initial(task, Init(1.0), seed, "float64")
                columns.setdefault(family, []).append(np.asarray(answers(model, drawn.prompt)))
    return xr.Dataset({name: (("seed", "prompt"), np.stack(rows)) for name, rows in columns.items()})


def collect(lab: Lab) -> Data:
    parameters = {"seeds": lab.num_seeds, "prompts": 400, "heads": 5}
    return {"predictions": lab.dataset("fig2", parameters, lambda: predictions(lab.seeds, 400))}


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
        worst = float(np.max([difference(data, attention, network) for network in networks]))  # NaN if any is
        return judge_true(worst < 1e-12, worst, seeds=data["predictions"].sizes["seed"])

    return judge


def example() -> Data:
    return {"predictions": predictions(range(1), 20)}


def perturbed(name: str, **changes: Callable[[xr.DataArray], xr.DataArray]) -> Counterexample:
    def perturb(data: Data) -> Data:
        table = data["predictions"]
        return {"predictions": table.assign({family: change(table[family]) for family, change in changes.items()})}

    return Counterexample(name, perturb)


FIGURE = Figure(
    id="fig2",
    title="attention is a linear network on cubic features",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "merged_is_mlp", "Merged attention with zero blocks, its reduced form and a two-layer network on z compute the same function.",
            "equal predictions", "1e-12 of their root mean square", equal("merged", "merged_reduced", "mlp"),
            reason="sums of some 1000 terms in float64",
            counterexamples=(
                perturbed("the network's answers a part in 10⁹ larger", mlp=lambda x: (1 + 1e-9) * x),
                perturbed("one answer of reduced attention NaN", merged_reduced=lambda x: x.where(x != x[0, 0])),
                perturbed("the network reads another prompt", mlp=lambda x: x.roll(prompt=1)),
            ),
        ),
        Claim(
            "separate_is_conv", "Separate attention of rank R is a sum of three-layer convolutional networks on z.",
            "equal predictions", "1e-12 of their root mean square", equal("separate", "separate_reduced", "conv"),
            reason="sums of some 1000 terms in float64",
            counterexamples=(
                perturbed("the networks' answers a part in 10⁹ larger", conv=lambda x: (1 + 1e-9) * x),
                perturbed("one answer of the networks NaN", conv=lambda x: x.where(x != x[0, 0])),
                perturbed("the networks read another prompt", conv=lambda x: x.roll(prompt=1)),
            ),
        ),
    ),
    setup="random weights N(0, 1) in the per-head scaling, 5 heads (rank 2 where separate), 400 prompts of D=4, N=31 per seed; predictions compared",
    cost="5 s on 2 cores",
)  # fmt: skip
