"""Figure 3c: keys and queries of each head turn to one eigenvector each, one head a drop."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...probes.alignment import assign_heads, learned_strengths
from ...probes.reading import separate_weights
from ..base import Claim, Data, Figure, Outcome, judge_seeds
from ..lab import Lab
from .fig3a import STEPS
from .fig3b import collect as collect_both
from .setup import CONTEXT, GAIN, basis, eigenvalues


def collect(lab: Lab) -> Data:
    return collect_both(lab)


def assignment(trace):
    return assign_heads(trace, learned_strengths(eigenvalues(4), CONTEXT, gain=GAIN))


def draw(data: Data):
    trace = data["finite"][0]
    weights, vectors = separate_weights(trace), basis(trace)
    order = list(assignment(trace).heads)
    heads = order + [h for h in range(5) if h not in order]
    steps = trace.data["record"].values + 1.0
    figure, axes = plt.subplots(2, 5, figsize=(11, 4.6), sharex=True, sharey=True)
    largest = float(max(np.abs(weights.key).max(), np.abs(weights.query).max()))
    mesh = None
    for column, head in enumerate(heads):
        for ax, name, array in ((axes[0, column], "key", weights.key), (axes[1, column], "query", weights.query)):
            entries = array[:, head, 0] @ vectors
            mesh = ax.pcolormesh(
                steps,
                np.arange(4),
                entries.T,
                cmap="RdBu_r",
                vmin=-largest,
                vmax=largest,
                shading="nearest",
                rasterized=True,
            )
            ax.set_xscale("log")
            ax.set_xlim(100, STEPS)
            ax.set_yticks(range(4), [f"$e_{d + 1}$" for d in range(4)])
            if column == 0:
                ax.set_ylabel(f"{name} along")
        axes[0, column].set_title(f"head {head}")
        axes[1, column].set_xlabel("step")
    axes[0, 0].invert_yaxis()
    assert mesh is not None
    figure.colorbar(mesh, ax=axes, label="weight", shrink=0.8)
    return figure


def one_each(name: str, least: float):
    """Share of grown heads whose key and query are both within `least` of their eigenvector, over all seeds."""

    def judge(data: Data) -> Outcome:
        cosines = [[g.cosine for g in assignment(trace).growths] for trace in data[name]]
        passed = [cosine > least for row in cosines for cosine in row]
        return judge_seeds(passed, {f"heads above {least}": f"{sum(passed)} of {len(passed)}", "cosines": cosines})

    return judge


def new_each_drop(data: Data) -> Outcome:
    found = [assignment(trace) for trace in [*data["finite"], *data["population"]]]
    passed = [a.in_order and a.new_heads == (0, 1, 2, 3) for a in found]
    return judge_seeds(
        passed, {"eigenvectors in the order of learning": [[g.eigenvector for g in a.growths] for a in found]}
    )


FIGURE = Figure(
    id="fig3c",
    title="each head learns one eigenvector",
    collect=collect,
    draw=draw,
    claims=(
        Claim(
            "aligned", "Key and query of each grown head point along one eigenvector of Λ, each its own.", "cosine 1",
            "cosine > 0.99 for at least 80 % of the heads of all seeds, infinitely many prompts", one_each("population", 0.99),
        ),
        Claim(
            "aligned_finite", "80000 prompts tilt the heads: they follow the sample's moments and mix a little with heads that grow beside them.",
            "cosine near 1", "cosine > 0.95 for at least 80 % of the heads of all seeds", one_each("finite", 0.95), source="ours",
        ),
        Claim("one_a_drop", "Each drop is a new head learning the next eigenvector.", "heads grow in the order of the eigenvalues", "at least 80 % of runs, finite and infinite P", new_each_drop),
    ),
    setup="the runs of fig3a and fig3b; keys and queries in the eigenbasis of Λ at 600 recorded steps; heads in the order in which they grow",
    cost="none beyond fig3a",
)  # fmt: skip
