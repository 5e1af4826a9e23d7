"""Figure 10: what gradient flow conserves, gradient descent lets drift in proportion to its step."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...core.trace import Trace
from ...probes.conserved import conserved, drift
from ..base import Claim, Counterexample, Data, Figure
from ..judging import Outcome, judge_close
from ..lab import Lab
from .examples import NAN_WEIGHTS, changed_weights, merged_run, separate_run
from .setup import merged_recipe, public_task, separate_recipe

HALVINGS = (1, 2, 4, 8)


def collect(lab: Lab) -> Data:
    exact = public_task(prompts=None)
    recipes, keys = [], []
    for seed in lab.seeds:
        for part in HALVINGS:
            separate = separate_recipe(seed, exact, heads=5, init=0.1, steps=2000 * part + 1)
            recipes.append(separate.replace(model__rank=2, optimizer__lr=0.02 / part))
            keys.append(("separate", part))
            recipes.append(
                merged_recipe(seed, exact, init__scale=1e-2, steps=1500 * part + 1, optimizer__lr=2e-3 / part)
            )
            keys.append(("merged", part))
    found: dict[str, dict[int, list]] = {"separate": {}, "merged": {}}
    for (family, part), trace in zip(keys, lab.run(recipes), strict=True):
        found[family].setdefault(part, []).append(trace)
    return found


def drifts(data: Data, family: str) -> dict[int, np.ndarray]:
    """Largest change of the conserved quantities along each run, by step size divisor."""

    def largest(trace) -> float:
        return max(float(np.max(drift(quantity))) for quantity in conserved(trace).values())

    return {part: np.array([largest(trace) for trace in traces]) for part, traces in data[family].items()}


def draw(data: Data):
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 4))
    for ax, family, lr in ((axes[0], "merged", 2e-3), (axes[1], "separate", 0.02)):
        table = drifts(data, family)
        steps = np.array([lr / part for part in table])
        means = np.array([values.mean() for values in table.values()])
        for step, values in zip(steps, table.values(), strict=True):
            ax.loglog([step] * len(values), values, "o", color="black", mfc="white")
        ax.loglog(steps, means[0] * steps / steps[0], color="0.5", ls="--", label="slope 1")
        ax.set(xlabel="learning rate", title=f"{family} attention, slope {slope(data, family):.3f}")
        ax.set_xticks(steps, [f"{step:g}" for step in steps])
        ax.minorticks_off()
        ax.legend()
    axes[0].set_ylabel("largest drift of the conserved quantities")
    return figure


def slope(data: Data, family: str) -> float:
    table = drifts(data, family)
    logs = np.log([values.mean() for values in table.values()])
    return float(np.polyfit(-np.log(list(table)), logs, 1)[0])


def linear(family: str):
    def judge(data: Data) -> Outcome:
        return judge_close(slope(data, family), 1.0, 0.1, seeds=len(data[family][1]))

    return judge


def drifting(size: float):
    """Values that grow by a part `size` over the run, which no conservation law allows."""

    def grown(name: str, array: np.ndarray) -> np.ndarray:
        share = np.linspace(0, 1, len(array)).reshape(-1, *[1] * (array.ndim - 1))
        return array * (1 + size * share) if name == "value" else array

    return changed_weights(grown)


def example() -> Data:
    """Balanced weights with values that drift in proportion to the step."""

    def halved(run: Trace) -> dict[int, list[Trace]]:
        return {part: [drifting(1e-3 / part)(run)] for part in HALVINGS}

    return {"merged": halved(merged_run(0)), "separate": halved(separate_run(0))}


def spoiled_laws(family: str) -> tuple[Counterexample, ...]:
    def constant(data: Data) -> Data:
        return {**data, family: {part: [drifting(1e-2)(t) for t in ts] for part, ts in data[family].items()}}

    def quadratic(data: Data) -> Data:
        found = {part: [drifting(0.1 / part**2)(t) for t in ts] for part, ts in data[family].items()}
        return {**data, family: found}

    return (
        Counterexample("a drift that does not depend on the step: no conservation law", constant),
        Counterexample("a drift quadratic in the step", quadratic),
        NAN_WEIGHTS,
    )


FIGURE = Figure(
    id="fig10",
    title="conservation laws (our content: that of the paper's Figure 10 is not known to us)",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "merged", "Merged attention conserves w₂w₂ᵀ − W₁W₁ᵀ under gradient flow: the drift along gradient descent is linear in the step.",
            "slope 1", "0.1", linear("merged"), source="theory",
            reason="higher orders of the step at the largest of four, eight times the smallest",
            counterexamples=spoiled_laws("merged"),
        ),
        Claim(
            "separate", "Separate attention conserves v² − Σ‖k_r‖² and ‖k_r‖² − ‖q_r‖² of every head: the drift is linear in the step.",
            "slope 1", "0.1", linear("separate"), source="theory",
            reason="higher orders of the step at the largest of four, eight times the smallest",
            counterexamples=spoiled_laws("separate"),
        ),
    ),
    setup="D=4, N=31, P=∞; merged H=8 init 1e-2 lr 2e-3·{1, ½, ¼, ⅛} over the same time; separate H=5 R=2 init 0.1 lr 0.02·{1, ½, ¼, ⅛}; largest change of any entry",
    cost="8 s on 2 cores",
)  # fmt: skip
