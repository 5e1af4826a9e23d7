"""The landscape: 2^D fixed points, their losses and indices, and the D + 1 of them that training visits."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...theory.zhang2025 import fixed_point_matrix, subsets
from ...theory.zhang2025 import landscape as fixed_points
from ..base import Claim, Data, Figure, Outcome, judge_seeds, judge_true
from ..lab import Lab
from .setup import CONTEXT, GAIN, basis, eigenvalues, public_task, separate_recipe


def collect(lab: Lab) -> Data:
    table = lab.dataset(
        "landscape",
        {"dim": 4, "context": CONTEXT, "heads": 5},
        lambda: fixed_points(eigenvalues(4), CONTEXT, 5, gain=GAIN),
    )
    exact = public_task(prompts=None)
    runs = lab.run([separate_recipe(seed, exact, heads=5, init=1e-2, steps=40_001) for seed in lab.seeds])
    return {"table": table, "runs": runs}


def visits(trace) -> list[tuple[int, ...]]:
    """Fixed points the run rests near, in order: nearest within a tenth of the distance between neighbors."""
    vectors = basis(trace)
    data = trace.data
    v, k, q = (data[f"weight_{n}"].values for n in ("value", "key", "query"))
    matrices = GAIN * np.einsum("th,thri,thrj->tij", v[:, :, 0, -1], k[..., :4], q)
    diagonal = np.einsum("ia,tij,ja->ta", vectors, matrices, vectors)
    every = subsets(4)
    points = np.array([np.diag(fixed_point_matrix(s, eigenvalues(4), CONTEXT)) for s in every])
    scale = points.max(0)
    order: list[tuple[int, ...]] = []
    for row in diagonal:
        distance = np.abs((points - row) / scale).max(1)
        best = int(np.argmin(distance))
        if distance[best] < 0.1 and (not order or order[-1] != every[best]):
            order.append(every[best])
    return order


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
    worst = float(data["table"]["gradient_norm"].max())
    return judge_true(worst < 1e-10, {"fixed points": data["table"].sizes["fixed_point"], "largest gradient": worst})


def indices(data: Data) -> Outcome:
    table = data["table"]
    same = bool((table["index"] == table["index_formula"]).all())
    on_path = table["index"].values[table["visited"].values.astype(bool)]
    off_path = table["index"].values[~table["visited"].values.astype(bool)]
    return judge_true(
        same and not on_path.any() and bool((off_path > 0).all()),
        {"on the path": on_path, "least elsewhere": int(off_path.min())},
    )


def path(data: Data) -> Outcome:
    expected = [tuple(range(m)) for m in range(5)]
    orders = [visits(trace) for trace in data["runs"]]
    # A drop can follow so fast on another that the run never rests between them; it must not rest anywhere else.
    passed = [all(s in expected for s in order) and order == sorted(order, key=len) for order in orders]
    return judge_seeds(passed, {"visited": [[list(s) for s in order] for order in orders]})


FIGURE = Figure(
    id="landscape",
    title="2^D fixed points, D + 1 of them visited",
    collect=collect,
    draw=draw,
    claims=(
        Claim("fixed_points", "Each of the 2^D subsets of eigenvectors gives a fixed point (16)-(18).", "gradient 0 at all 16", "1e-10", gradients, source="theory"),
        Claim("path", "From small weights training visits only the M_m: the m leading eigenvectors, for m = 0..D.", "{}, {1}, {1,2}, …", "at least 80 % of seeds; resting within a tenth of a fixed point's weights", path),
        Claim(
            "indices", "The M_m have no direction of descent of second order: they are left by cubic growth, which is why the plateaus are long; all other fixed points have one.",
            "index 0 exactly on the path (rank 1)", "exact; the numerical index agrees with our formula at all points", indices, source="ours",
        ),
    ),
    setup="D=4, N=31, λ ∝ d, H=5, R=1: all 16 fixed points realized in weights, gradient and Hessian of the population loss; visited: separate runs, P=∞, init 1e-2",
    cost="10 s on 2 cores",
)  # fmt: skip
