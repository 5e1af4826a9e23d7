"""The landscape: 2^D fixed points, their losses and indices, and the D + 1 of them that training visits."""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.trace import Trace
from ...probes.reading import effective_matrices
from ...theory.zhang2025 import fixed_point_matrix, subsets
from ...theory.zhang2025 import landscape as fixed_points
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import SHARE_SEEDS, Outcome, judge_each, judge_seeds, judge_true
from ..lab import Lab
from .examples import (
    FEW_RECORDS,
    NAN_WEIGHTS,
    RANDOM_WEIGHTS,
    ZERO_WEIGHTS,
    changed_weights,
    separate_run,
    spoiled,
    turned,
)
from .fig6 import recipes
from .setup import CONTEXT, GAIN, basis, eigenvalues

SCALE = 1e-3  # small initial weights: the path is a limit
NEAR = 0.1  # of what an eigenvector's entry is once it is learned


def table_of() -> xr.Dataset:
    return fixed_points(eigenvalues(4), CONTEXT, 5, gain=GAIN)


def collect(lab: Lab) -> Data:
    table = lab.dataset("landscape", {"dim": 4, "context": CONTEXT, "heads": 5}, table_of)
    return {"table": table, "runs": lab.run(recipes("separate", SCALE, lab.seeds))}


def distances(trace: Trace) -> np.ndarray:
    """How far W is from every fixed point (record, subset): the largest entry of the difference, in the eigenbasis.

    Entry (i, j) is measured in units of √(w_i w_j), w_d being the entry of a learned eigenvector (16).
    """
    vectors = basis(trace)
    matrices = vectors.T @ effective_matrices(trace, gain=GAIN) @ vectors
    points = np.array([fixed_point_matrix(s, eigenvalues(4), CONTEXT) for s in subsets(4)])
    learned = np.sqrt(np.diag(fixed_point_matrix(range(4), eigenvalues(4), CONTEXT)))
    return np.abs((matrices[:, None] - points) / np.outer(learned, learned)).max((-1, -2))


def visits(trace: Trace) -> list[tuple[int, ...]]:
    """Fixed points that the run comes near, in the order in which it is nearest to each."""
    table, every = distances(trace), subsets(4)
    seen = np.flatnonzero(table.min(0) < NEAR)
    return [every[i] for i in seen[np.argsort(table[:, seen].argmin(0), kind="stable")]]


def draw(data: Data):
    table = data["table"]
    figure, ax = plt.subplots(figsize=(7.5, 4.6))
    seen = table["visited"].values.astype(bool)
    # Points with the same number of eigenvectors stand side by side, highest loss to the right.
    size = table["size"].values.astype(float)
    for m in np.unique(size):
        others = np.flatnonzero((size == m) & ~seen)
        size[others[np.argsort(table["loss"].values[others])]] += 0.14 * np.arange(1, len(others) + 1)
    ax.scatter(
        size[~seen],
        table["loss"].values[~seen],
        marker="o",
        s=46,
        facecolors="white",
        edgecolors="0.4",
        label="other fixed points",
    )
    ax.scatter(
        size[seen],
        table["loss"].values[seen],
        marker="s",
        s=70,
        color="black",
        zorder=3,
        label="visited by training, $M_m$",
    )
    ax.plot(size[seen], table["loss"].values[seen], color="black", lw=1, ls="--")
    for x, y, index in zip(size, table["loss"].values, table["index"].values, strict=True):
        ax.annotate(str(int(index)), (x, y), xytext=(7, 4), textcoords="offset points", fontsize=9)
    ax.set(xlabel="number of eigenvectors learned", ylabel="loss", xticks=range(5), ylim=(0, 1.08))
    ax.set_title("numbers: directions of descent (negative Hessian eigenvalues)", fontsize=11)
    ax.legend()
    return figure


def gradients(data: Data) -> Outcome:
    slopes = data["table"]["gradient_norm"].values
    measured = {"fixed points": len(slopes), "largest gradient": float(slopes.max())}
    return judge_true(len(slopes) == 16 and bool((slopes < 1e-10).all()), measured)


def indices(data: Data) -> Outcome:
    table = data["table"]
    own, index = table["visited"].values.astype(bool), table["index"].values
    right = [bool(i == f and (i == 0) == m) for i, f, m in zip(index, table["index_formula"].values, own, strict=True)]
    return judge_each(right, {"at the M_m": index[own], "least elsewhere": int(index[~own].min())})


def path(data: Data) -> Outcome:
    expected = [tuple(range(m)) for m in range(5)]
    orders = [visits(trace) for trace in data["runs"]]
    closest = [distances(trace).min(0)[[subsets(4).index(s) for s in expected]].round(4) for trace in data["runs"]]
    measured = {"visited": [[list(s) for s in order] for order in orders], "least distance to each M_m": closest}
    return judge_seeds([order == expected for order in orders], measured)


def example() -> Data:
    return {"table": table_of(), "runs": [separate_run(seed, own=500) for seed in range(6)]}


def altered_table(name: str, **changes: Callable[[xr.DataArray], xr.DataArray]) -> Counterexample:
    def perturb(data: Data) -> Data:
        table = data["table"]
        return {**data, "table": table.assign({column: change(table[column]) for column, change in changes.items()})}

    return Counterexample(name, perturb)


FIGURE = Figure(
    id="landscape",
    title="2^D fixed points, D + 1 of them visited",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "fixed_points", "Each of the 2^D subsets of eigenvectors gives a fixed point (16)-(18).", "gradient 0 at all 16", "1e-10", gradients, source="theory",
            reason="rounding in float64 of terms of order 1",
            counterexamples=(
                altered_table("a gradient of 1e-6 at one of them", gradient_norm=lambda x: x + 1e-6 * (x["fixed_point"] == x["fixed_point"][5])),
                altered_table("one gradient NaN", gradient_norm=lambda x: x.where(x["fixed_point"] != x["fixed_point"][5])),
                Counterexample("a fixed point missing", lambda data: {**data, "table": data["table"].isel(fixed_point=slice(1, None))}),
            ),
        ),
        Claim(
            "path", "From small weights training visits the M_m, the m leading eigenvectors, for m = 0..D, one after the other, and no other fixed point.",
            "{}, {1}, {1,2}, {1,2,3}, {1,2,3,4}", "W within a tenth of a learned entry at some record of every M_m and of no other; init 1e-3; more than half of the seeds", path,
            before=False,
            reason="fixed points differ by 1 in these units; from init 1e-3 the small heads add less than a hundredth to W while they are small",
            counterexamples=(
                ZERO_WEIGHTS, RANDOM_WEIGHTS, NAN_WEIGHTS, FEW_RECORDS,
                spoiled("half of the runs learn {1,3} before {1,2,3}", turned(np.eye(4)[[0, 2, 1, 3]]), "runs", half=True),
                spoiled("W a fifth too large", changed_weights(lambda n, w: 1.2 * w if n == "value" else w)),
            ),
            min_seeds=SHARE_SEEDS,
        ),
        Claim(
            "indices", "The M_m have no direction of descent of second order: they are left by cubic growth, which is why the plateaus are long; all other fixed points have one.",
            "index 0 at the M_m and at no other (rank 1)", "exact; the numerical index agrees with our formula at all points", indices, source="ours",
            reason="whole numbers",
            counterexamples=(
                altered_table("a direction of descent at one M_m", index=lambda x: x + (x["fixed_point"] == "0,1"), index_formula=lambda x: x + (x["fixed_point"] == "0,1")),
                altered_table("one index off the formula", index=lambda x: x + (x["fixed_point"] == "1,3")),
            ),
        ),
    ),
    choices=(
        Choice(
            "path", "only the diagonal of W; fixed points that a run rests near must all be M_m, in order; init 1e-2 (40001 steps)",
            "reproduced, and also with all weights zero, with random weights and with runs cut to three records: nothing had to be visited. Seed 2 does not come within a tenth of {1} at init 1e-2",
            "every M_m must be visited, none but the M_m, by the whole of W; gradient flow from init 1e-3 (fig6's runs), the limit that the statement is about",
        ),
    ),
    setup="D=4, N=31, λ ∝ d, H=5, R=1: all 16 fixed points realized in weights, gradient and Hessian of the population loss; visited: separate runs of fig6, P=∞, gradient flow from init 1e-3 (per_head)",
    cost="5 s on 2 cores",
)  # fmt: skip
