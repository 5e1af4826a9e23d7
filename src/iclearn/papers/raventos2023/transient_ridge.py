"""In-context learning that comes and goes: distance to ridge during training, when it is least, and the joint PCA (carroll2025)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import xarray as xr
from matplotlib.ticker import FuncFormatter, MaxNLocator

from ...probes import interior_minimum
from ..base import Choice, Claim, Counterexample, Data, Figure
from ..judging import Outcome, judge_above, judge_each, worst
from ..lab import Lab
from ..perturbing import changed, times
from .diversity_threshold import plain_log
from .examples import example as whole_example
from .judges import BOUND, SOME, at_role, of_role, pools_above, spread_of, unfinished
from .pool_trainings import trained
from .setup import Options

RISE = 1.2


def collect(lab: Lab) -> Data:
    options = lab.options if isinstance(lab.options, Options) else Options()
    return {"long": trained(lab, "long"), "roles": options.sizes.roles, "scope": options.sizes.scope}


def example() -> Data:
    data = whole_example()
    return {name: data[name] for name in ("long", "roles", "scope")}


def trajectories(data: Data) -> xr.DataArray:
    """(seed, pool, record) Δ to ridge on new tasks during training."""
    return data["long"]["delta"].sel(test="new", reference="ridge").transpose("seed", "pool", "record")


def minima(data: Data, sizes: list[int]) -> dict[int, list]:
    """For each pool and seed the least value and what comes after it."""
    rows = trajectories(data)
    return {
        k: [interior_minimum(rows["record"].values, row, rise=RISE - 1) for row in rows.sel(pool=k).values]
        for k in sizes
    }


def positions(data: Data) -> xr.DataArray:
    """(seed, pool) how far the end of each run is on the way from ridge (0) to its dMMSE (1), in the first two components."""
    table = data["long"].sel(component=[1, 2])
    own, line = table["score"].isel(record=-1) - table["ridge_score"], table["dmmse_score"] - table["ridge_score"]
    return ((own * line).sum("component", skipna=False) / (line**2).sum("component", skipna=False)).transpose(
        "seed", "pool"
    )


def draw(data: Data):
    figure, axes = plt.subplots(2, 2, figsize=(11.5, 8.4))
    rows, table = trajectories(data), data["long"]
    sizes, steps = rows["pool"].values.tolist(), rows["record"].values
    colors = dict(zip(sizes, plt.get_cmap("viridis")(np.linspace(0, 0.92, len(sizes))), strict=True))
    pool = table["delta"].sel(test="pool", reference="dmmse").transpose("seed", "pool", "record")
    for ax, values in ((axes[0, 0], rows), (axes[0, 1], pool)):
        for size in sizes:
            ax.plot(steps, values.sel(pool=size).T, color=colors[size], lw=0.7, alpha=0.4)
            ax.plot(steps, values.sel(pool=size).mean("seed"), color=colors[size], lw=2, label=f"k = {size}")
        ax.set(xlabel="step", yscale="log")
    axes[0, 0].set(ylabel="Δ(transformer, ridge)", title="new tasks: distance to ridge")
    axes[0, 1].set(ylabel="Δ(transformer, dMMSE)", title="tasks of the pool")
    axes[0, 0].legend(fontsize=9, ncol=2)
    finite = [k for k in sizes if np.isfinite(rows.sel(pool=k)).all() and (rows.sel(pool=k) > 0).all()]
    found = minima(data, finite)
    for size, each in found.items():
        mean = rows.sel(pool=size).mean("seed").values
        axes[0, 0].plot(steps[mean.argmin()], mean.min(), "v", color=colors[size], mec="black", ms=7)
        for one in each:
            fill = colors[size] if one.interior else "white"
            axes[1, 0].plot(size, one.time, "o", color=colors[size], mfc=fill)
    some = [(k, one.time) for k, each in found.items() for one in each if one.interior]
    if some:
        k, t = np.array(some).T
        level = np.exp(np.mean(np.log(t) - 0.47 * np.log(k)))
        ends = np.array([k.min(), k.max()])
        axes[1, 0].plot(ends, level * ends**0.47, ":", color="black", label=r"$\propto k^{.47}$, the paper's exponent")
    axes[1, 0].plot([], [], "o", color="gray", label="risen again by the end")
    axes[1, 0].plot([], [], "o", color="gray", mfc="white", label="not risen")
    axes[1, 0].set(
        xlabel="tasks in the pool", ylabel="step of the least Δ to ridge", yscale="log", title=r"$t^*$, every seed"
    )
    axes[1, 0].legend(fontsize=9)
    plain_log(axes[1, 0])
    for ax in axes[0]:
        plain_log(ax, sizes=False)
        ax.xaxis.set_major_locator(MaxNLocator(4))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    plane = table.isel(seed=0)
    for size in sizes:
        score = plane["score"].sel(pool=size).values
        axes[1, 1].plot(score[:, 0], score[:, 1], "-", color=colors[size], lw=1.2)
        axes[1, 1].plot(*score[-1, :2], "o", color=colors[size], mec="black", ms=6)
        axes[1, 1].plot(*plane["dmmse_score"].sel(pool=size).values[:2], "X", color=colors[size], mec="black", ms=8)
    axes[1, 1].plot(*plane["ridge_score"].values[:2], "*", color="C3", mec="black", ms=15, label="ridge")
    axes[1, 1].plot([], [], "X", color="gray", mec="black", label="dMMSE of each pool")
    axes[1, 1].plot([], [], "o", color="gray", mec="black", label="end of training")
    first, second = (100 * plane["share"].values[:2]).round(1)
    axes[1, 1].set(
        xlabel=f"component 1 ({first} %)",
        ylabel=f"component 2 ({second} %)",
        title="joint PCA of predictions, first task",
    )
    axes[1, 1].legend(fontsize=9)
    return figure


def comes_and_goes(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    found = minima(data, of_role(data, "transient", "long"))
    rises = {f"k = {k}": np.array([one.rise for one in each]) for k, each in found.items()}
    inside = judge_each([one.interior or one.rise <= RISE for each in found.values() for one in each], "")
    outcome = pools_above({name: np.log(rows / RISE) for name, rows in rises.items()}, 0.0, rises)
    return Outcome(outcome.measured, worst(outcome.verdict, inside.verdict), outcome.seeds)


def lasts(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    found = minima(data, of_role(data, "lasting", "long"))
    rises = {f"k = {k}": np.array([one.rise for one in each]) for k, each in found.items()}
    return pools_above({name: np.log(RISE / rows) for name, rows in rises.items()}, 0.0, rises)


def later_for_more(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    found = minima(data, of_role(data, "transient", "long"))
    times_of = np.array([[one.time for one in each] for each in found.values()])
    slopes = np.polyfit(np.log(list(found)), np.log(times_of), 1)[0]
    told = {"exponents": slopes.round(2).tolist(), "mean": spread_of(slopes)}
    return judge_above(slopes, 0.0, told)


def ends_apart(data: Data) -> Outcome:
    if early := unfinished(data):
        return early
    where = positions(data)
    few = {f"k = {k}": where.sel(pool=k).values for k in of_role(data, "memorized", "long")}
    many = {f"k = {k}": where.sel(pool=k).values for k in of_role(data, "above", "long")}
    values = {name: rows - 0.5 for name, rows in few.items()} | {name: 0.5 - rows for name, rows in many.items()}
    outcome = pools_above(values, 0.0, few | many)
    share = data["long"]["share"].sel(component=[1, 2]).sum("component", skipna=False).values
    return Outcome({**outcome.measured, "two components hold": share.round(3).tolist()}, outcome.verdict, outcome.seeds)


def monotone(data: Data) -> Data:
    """Trajectories of few tasks that fall to their end."""
    fall = np.geomspace(1.0, 0.05, data["long"].sizes["record"])
    sizes = of_role(data, "transient", "long")
    return changed(data, "long/delta", lambda a: a * 0 + fall, pool=sizes, test="new", reference="ridge")


def reversed_pools(data: Data) -> Data:
    """The trajectories of the pools in the other order: the least value comes earlier for more tasks."""
    sizes = of_role(data, "transient", "long")
    rows = trajectories(data).sel(pool=sizes[::-1]).values
    return changed(data, "long/delta", lambda a: a * 0 + rows, pool=sizes, test="new", reference="ridge")


FIGURE = Figure(
    id="fig_transience",
    title="ridge that comes and goes (carroll2025), and the joint PCA of predictions",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "transient_few", "Carroll et al. (2025): for few tasks in-context learning is transient: the distance to ridge on new tasks falls, has a minimum and rises.", "for k = 16, 32, 64, 128 the last Δ(transformer, ridge) is above 1.2 times the least, which is neither first nor last", f"a factor of {RISE}; {BOUND}", comes_and_goes, source="other", before=False,
            reason="one seed of the notes: 1.8, 2.9, 2.2, 1.8 times; the least of noisy values is low, which 1.2 leaves room for",
            counterexamples=(
                Counterexample("it falls to the end", monotone), at_role("it ends where it was least", "transient", "long", lambda a: a.clip(max=0.06), test="new", reference="ridge"),
                at_role("one value is NaN", "transient", "long", times(float("nan")), test="new", reference="ridge", seed=[0]),
            ),
            min_seeds=2,
        ),
        Claim(
            "lasting_many", "Carroll et al. (2025): for many tasks it is not: the distance to ridge does not rise again.", "for k = 256 and 1024 the last Δ is below 1.2 times the least", f"a factor of {RISE}; {BOUND}", lasts, source="other", before=False,
            reason="one seed of the notes: it falls to the last step",
            counterexamples=(
                at_role("it rises twofold", "lasting", "long", lambda a: a * np.linspace(0.01, 3, a.shape[-1]), test="new", reference="ridge"), at_role("it rises in two seeds", "lasting", "long", lambda a: a * np.linspace(0.01, 3, a.shape[-1]), test="new", reference="ridge", seed=SOME),
                at_role("one value is NaN", "lasting", "long", times(float("nan")), test="new", reference="ridge", seed=[0]),
            ),
            min_seeds=2,
        ),
        Claim(
            "later_for_more", "Carroll et al. (2025): the more tasks, the later the minimum.", "log t* grows with log k over k = 16 … 128 (Raventós et al. have the exponent .47, for 50 times longer training)", "a slope above 0; one-sided 95 % bound of the mean over seeds (Student)", later_for_more, source="other", before=False,
            reason="one seed of the notes: 3,000, 5,000, 14,000, 11,000; records are 1,000 steps apart, too coarse for the exponent",
            counterexamples=(
                Counterexample("the order of the pools reversed", reversed_pools), Counterexample("no minimum: the last step for every pool", monotone),
                at_role("one value is NaN", "transient", "long", times(float("nan")), test="new", reference="ridge", seed=[0]),
            ),
            min_seeds=2,
        ),
        Claim(
            "pca_ends", "Carroll et al. (2025): in the first two joint components runs of few tasks end at their dMMSE and runs of many tasks at ridge.", "the end is past half of the way from ridge to dMMSE at k = 16, and before half of it at k = 1024", f"half; {BOUND}", ends_apart, source="other",
            reason="half is the middle between the two; nothing of it had been seen",
            counterexamples=(
                at_role("few tasks end at ridge", "memorized", "long", times(0.1), "score"), at_role("many tasks end at dMMSE", "above", "long", times(20.0), "score"), at_role("two seeds elsewhere", "memorized", "long", times(0.1), "score", seed=SOME),
                at_role("one value is NaN", "memorized", "long", times(float("nan")), "score", seed=[0]),
            ),
            min_seeds=2,
        ),
    ),
    choices=(
        Choice("tolerances", "nothing else", "the trajectories of one seed of the notes had been seen; nothing of the PCA, of which the notes say that carroll2025 finds 27.5 % in two components", "a rise of 1.2, half of the way; the share is told and not judged"),
    ),
    setup="""the long runs of fig_threshold; Δ to ridge on new tasks at evenly spaced steps, from the least of which t* is read
joint PCA (carroll2025): predictions on 512 sequences of the first task, which is in every nested pool, at all records of all runs of a seed; one PCA a seed; ridge and every pool's dMMSE projected into it
carroll2025 itself has other sizes (σ² = .125, 2 layers, 2.65 million weights), unknown steps and no code: its order is judged, not its numbers""",
    cost="nothing beyond fig_threshold",
)  # fmt: skip
