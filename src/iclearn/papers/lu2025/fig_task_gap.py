"""From memorizing the pool to learning in context: e_ICL − e_IDG against the number of tasks (lu2025, Fig. 4)."""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import xarray as xr

from ...core.prompt import full_prompt
from ...models.predictors import DiscreteMMSE
from ...theory.diversity import joint_gap_limit, pool_errors
from ..base import Choice, Claim, Data, Figure
from ..judging import MEAN_SEEDS, Outcome, Word, judge_each, worst
from ..lab import Lab
from ..perturbing import a_nan, scaled
from .approach import (
    APPROACH,
    APPROACH_CHOICE,
    APPROACH_REASON,
    APPROACH_ROOM,
    Grid,
    approach_counters,
    approaches,
    example_table,
    simulated,
)
from .fig1 import MARKS, plain_ticks
from .printed_numbers import judge_digits
from .setup import Sizes, preset_of

NOISE, RATIO = 0.01, 5.0  # ρ, and α/τ
ALPHAS, KAPPAS = (6.0, 10.0, 20.0, 40.0), (0.2, 0.5, 1.0, 10.0, 50.0)
PRINTED = {
    6.0: "1.774 1.721 .985 .0635 .0121", 10.0: "1.031 .779 .309 .0109 .0020", 20.0: ".904 .613 .161 .0025 .0005",
    40.0: ".868 .563 .0999 .0007 .0001",
}  # fmt: skip
RUN_KAPPAS, PRINTED_RUN = (
    (12 / 64, 1.0, 2.0, 32.0),
    ".837 .164 .0302 .0008",
)  # α = τ = 10; the first was run with 12 tasks
UNITS = 0.6  # of the last digit: .0302 and .0999 are .03015 and .09985 rounded twice
TRAINED = Grid((10.0,), (0.5, 1.0, 2.0, 10.0), (2.0,), NOISE)
CURVE = np.geomspace(0.1, 100.0, 200)
FAR = 1e6  # α at which the transition is read
POSTERIOR_ALPHA = 10.0
POSTERIOR = {(16, 0.5): 1, (16, 2.0): 1, (16, 10.0): 1, (16, 32.0): 1, (32, 0.5): 1, (32, 2.0): 1, (32, 10.0): 1, (32, 32.0): 1, (64, 0.2): 2, (64, 32.0): 1}  # (d, κ): pools in multiples of the seeds  # fmt: skip
PROMPTS = 256  # of each pool and each of its two test laws
RELEASED = {0.2: 1.53, 32.0: 1.09}  # dMMSE of the released run at d = 64
RELEASED_ERRORS = {0.2: 0.068, 32.0: 0.047}  # of its means over 1000 prompts
RELEASED_ROOM = 0.4  # four standard errors of the difference may be so large
FLOOR, SMALL = 0.5, 0.05  # the gap of dMMSE is above the one, that of the matrix below the other at κ = 10


def theory() -> xr.Dataset:
    alphas = np.array(ALPHAS)[:, None]
    gap = pool_errors(alphas, np.array(KAPPAS), alphas / RATIO, NOISE).gap
    curve = pool_errors(alphas, CURVE, alphas / RATIO, NOISE).gap
    sides = np.array([0.25, 0.5, 0.75, 2.0, 4.0])
    return xr.Dataset(
        {
            "gap": (("alpha", "kappa"), gap), "curve": (("alpha", "curve_kappa"), curve),
            "run": ("run_kappa", pool_errors(10.0, np.array(RUN_KAPPAS), 10.0, NOISE).gap),
            "far": ("side", pool_errors(FAR, sides, FAR / RATIO, NOISE).gap),
            "far_limit": ("side", joint_gap_limit(sides, NOISE, RATIO, FAR)),
        },
        {
            "alpha": list(ALPHAS), "kappa": list(KAPPAS), "curve_kappa": CURVE, "run_kappa": list(RUN_KAPPAS),
            "side": sides,
        },
    )  # fmt: skip


_answers = eqx.filter_jit(lambda model, prompts: jax.lax.map(model.predict, prompts, batch_size=16)[:, 0])


def posterior_errors(dim: int, kappa: float, seed: int) -> tuple[float, float]:
    """Errors of dMMSE on new tasks and on the pool's, tasks on the sphere, noise of the target counted as ρ."""
    sizes = Sizes.near(dim, POSTERIOR_ALPHA, kappa, 1.0)
    assert sizes.num_tasks is not None
    rng = np.random.default_rng([seed, dim, sizes.num_tasks])
    tasks = rng.standard_normal((sizes.num_tasks + PROMPTS, dim))
    tasks /= np.linalg.norm(tasks, axis=1, keepdims=True)
    pool, new = np.split(tasks, [sizes.num_tasks])
    model, errors = DiscreteMMSE(jnp.asarray(pool), NOISE), []
    for own in (new, pool[rng.integers(len(pool), size=PROMPTS)]):
        x = rng.standard_normal((PROMPTS, sizes.context_len + 1, dim))
        truth = np.einsum("pnd,pd->pn", x, own)
        labels = truth[:, :-1] + NOISE**0.5 * rng.standard_normal((PROMPTS, sizes.context_len))
        prompts = full_prompt(jnp.asarray(x[:, :-1]), jnp.asarray(labels[..., None]), jnp.asarray(x[:, -1]))
        errors.append(float(np.mean((np.asarray(_answers(model, prompts)) - truth[:, -1]) ** 2)) + NOISE)
    return errors[0], errors[1]


def posterior(dims: dict[tuple[int, float], int]) -> xr.Dataset:
    """Errors of dMMSE at sizes and κ, for so many pools of each."""
    rows = np.full((len(dims), max(dims.values()), 2), np.nan)
    for i, ((dim, kappa), count) in enumerate(dims.items()):
        rows[i, :count] = [posterior_errors(dim, kappa, seed) for seed in range(count)]
    return posterior_table(dims, rows)


def posterior_table(dims: dict[tuple[int, float], int], rows: np.ndarray) -> xr.Dataset:
    cells = np.array([f"d = {dim}, κ = {kappa:g}" for dim, kappa in dims], dtype=object)
    return xr.Dataset(
        {
            "icl": (("cell", "repetition"), rows[..., 0]), "idg": (("cell", "repetition"), rows[..., 1]),
            "pools": ("cell", list(dims.values())), "dim": ("cell", [dim for dim, _ in dims]),
            "kappa": ("cell", [kappa for _, kappa in dims]),
        },
        {"cell": cells, "repetition": np.arange(rows.shape[1])},
    )  # fmt: skip


def collect(lab: Lab) -> Data:
    preset = preset_of(lab)
    cells = {
        cell: factor * lab.num_seeds for cell, factor in POSTERIOR.items() if cell[0] <= max(preset.dims[-1], 20) * 1.1
    }
    named = {f"{d}, {k:g}": count for (d, k), count in cells.items()}
    return {
        "theory": lab.dataset("lu-fig4-theory", {"version": 1}, theory),
        "trained": simulated(lab, "fig4", TRAINED, preset.upto(40)),
        "posterior": lab.dataset("lu-fig4-posterior", named, partial(posterior, cells)),
    }


def example() -> Data:
    cells = {cell: 6 * factor for cell, factor in POSTERIOR.items()}
    rows = np.full((len(cells), max(cells.values()), 2), np.nan)
    for i, ((_, kappa), count) in enumerate(cells.items()):
        spread = 0.02 * np.linspace(-1, 1, count)
        rows[i, :count, 0], rows[i, :count, 1] = RELEASED.get(kappa, 1.3) + NOISE + spread, NOISE
    return {
        "theory": theory(),
        "trained": example_table(TRAINED, (20, 28, 40), (72, 36, 18)),
        "posterior": posterior_table(cells, rows),
    }


def gaps(data: Data) -> dict[tuple[int, float], tuple[float, float]]:
    """Mean and standard error of the gap of dMMSE at each size and κ."""
    found = {}
    for _, row in data["posterior"].groupby("cell", squeeze=False):
        count = int(row["pools"].item())
        values = (row["icl"] - row["idg"]).values.ravel()[:count]
        error = float(values.std(ddof=1) / count**0.5) if count > 1 else float("inf")
        found[int(row["dim"].item()), float(row["kappa"].item())] = float(values.mean()), error
    return found


def draw(data: Data):
    limit = data["theory"]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for color, alpha in zip(("C0", "C1", "C2", "C3"), ALPHAS, strict=True):
        axes[0].loglog(CURVE, limit["curve"].sel(alpha=alpha), color=color, label=rf"$\Gamma^*$, $\alpha$ = {alpha:g}")
    mark_sizes(axes[0], data["trained"], "C1")
    axes[1].loglog(
        CURVE, pool_errors(10.0, CURVE, 10.0, NOISE).gap, color="C1", label=r"$\Gamma^*$, $\tau = \alpha = 10$ (limit)"
    )
    found = gaps(data)
    for dim, color in ((16, "0.65"), (32, "0.4"), (64, "black")):
        rows = sorted((kappa, *found[d, kappa]) for d, kappa in found if d == dim)
        if rows:
            kappa, mean, error = np.array(rows).T
            axes[1].errorbar(kappa, mean, np.where(np.isfinite(error), error, 0), fmt="o-", color=color, ms=5, mfc="white", label=f"dMMSE, $d$ = {dim}")  # fmt: skip
    axes[1].plot(list(RELEASED), list(RELEASED.values()), "x", color="C3", ms=8, mew=2, label="dMMSE, released run, $d$ = 64", zorder=5)  # fmt: skip
    axes[0].set(ylabel=r"$g_{task} = e_{ICL} - e_{IDG}$", title=r"trained matrix, $\tau = \alpha/5$, $\rho$ = .01", ylim=(1e-5, 5))  # fmt: skip
    axes[1].set(title="dMMSE never leaves its pool", ylim=(1e-5, 5))
    for ax in axes:
        ax.set(xlabel=r"tasks, $\kappa = k/d$", xlim=(0.1, 100))
        ax.axvline(1.0, color="0.7", lw=1, ls=":", zorder=0)
        plain_ticks(ax, "x")
        ax.legend(fontsize=8, loc="lower left")
    return figure


def mark_sizes(ax: Any, part: xr.Dataset, color: str) -> None:
    """Means of the gap over pools, size by size."""
    part = part.isel(alpha=0, tau=0, ridge=0)
    for dim in part["dim"].values:
        row, count = part.sel(dim=dim), int(part["repetitions"].sel(dim=dim))
        values = (row["icl"] - row["idg"]).transpose("kappa", "repetition").values[:, :count]
        error = values.std(1, ddof=1) / count**0.5 if count > 1 else None
        fill = color if dim == part["dim"].values[-1] else "white"
        ax.errorbar(part["kappa"], values.mean(1), error, fmt=MARKS.get(int(dim), "x"), ms=4.5, color=color, mfc=fill, mew=1, label=f"$d$ = {dim}")  # fmt: skip


def printed(data: Data) -> Outcome:
    table = data["theory"]
    rows: list[tuple[str, Any]] = [(line, table["gap"].sel(alpha=alpha)) for alpha, line in PRINTED.items()]
    return judge_digits([*rows, (PRINTED_RUN, table["run"])], UNITS)


def transition(data: Data) -> Outcome:
    found, limit = (data["theory"][name].values for name in ("far", "far_limit"))
    ratio = found / limit
    told = {"κ": data["theory"]["side"].values.tolist(), "gap": found.tolist(), "over its limit": ratio.tolist()}
    return judge_each([*(np.abs(ratio - 1) <= 1e-3).tolist(), bool(found[-1] < 1e-6 < found[0])], told)


def stays(data: Data) -> Outcome:
    """dMMSE above ½ at every size and κ, by four standard errors; Γ* below .05 at κ = 10 at every size."""
    found = gaps(data)
    part = data["trained"].sel(kappa=10.0, alpha=10.0, tau=2.0, ridge=0.0)
    matrix = (part["icl"] - part["idg"]).mean("repetition")
    words: list[Word] = []
    for mean, error in found.values():
        if not np.isfinite(mean):
            words.append("failed")
        elif mean > FLOOR:
            words.append("reproduced" if mean - 4 * error > FLOOR else "inconclusive")
        else:
            words.append("contradicted")
    for gap in matrix.values:
        words.append("reproduced" if abs(gap) < SMALL else "failed" if np.isnan(gap) else "contradicted")
    told = {f"dMMSE, d = {d}, κ = {k:g}": [round(m, 4), round(e, 4)] for (d, k), (m, e) in found.items()}
    told["Γ* at κ = 10"] = matrix.values.round(4).tolist()
    return Outcome(told, worst(*words), int(part["repetitions"].min()))


def grows(data: Data) -> Outcome:
    """At every κ that two sizes have, the gap of dMMSE does not fall from the smaller to the larger by four standard errors."""
    found, told, words = gaps(data), {}, []
    for kappa in sorted({k for _, k in found}):
        sizes = sorted(d for d, k in found if k == kappa)
        if len(sizes) < 2:
            continue
        (low, low_error), (high, high_error) = found[sizes[0], kappa], found[sizes[-1], kappa]
        change, error = high - low, float(np.hypot(low_error, high_error))
        told[f"κ = {kappa:g}, d = {sizes[0]} to {sizes[-1]}"] = [round(change, 4), round(error, 4)]
        word: Word = "reproduced" if change > -4 * error and 4 * error < 0.3 else "inconclusive"
        words.append("failed" if not np.isfinite(change) else "contradicted" if change < -4 * error else word)
    return Outcome(told, worst(*words))


def released(data: Data) -> Outcome:
    found, told, words = gaps(data), {}, []
    for kappa, given in RELEASED.items():
        if (64, kappa) not in found:
            return Outcome("d = 64 was not run", "failed")
        mean, error = found[64, kappa]
        told[f"κ = {kappa:g}"] = [round(mean, 4), round(error, 4)]
        room = 4 * float(np.hypot(error, RELEASED_ERRORS[kappa]))
        word: Word = "reproduced" if abs(mean - given) <= room <= RELEASED_ROOM else "inconclusive"
        words.append("failed" if not np.isfinite(mean) else "contradicted" if abs(mean - given) > 2 * room else word)
    return Outcome(told, worst(*words))


FIGURE = Figure(
    id="fig4",
    title="the task gap against the number of tasks: the trained matrix learns in context beyond κ = 1, dMMSE never does",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "gap_numbers", "The limit of e_ICL − e_IDG at τ = α/5, ρ = .01, and at α = τ = 10.", "24 printed numbers, κ = .2 … 50", "every digit, to .6 units of the last", printed, source="theory", before=False, reason="a formula; the printed numbers come from another code",
            counterexamples=(scaled("one off by 1e-3", "theory/gap", 1.001, alpha=10.0, kappa=0.2), scaled("the released setting off by 1 %", "theory/run", 1.01, run_kappa=1.0), a_nan("theory/gap", alpha=40.0, kappa=50.0)),
        ),
        Claim(
            "transition", "As α and τ grow together the gap is (1 − κ)(1 + cρ/(1 + ρ)), c = α/τ, below κ = 1, and vanishes above.", f"α = {FAR:g}: at κ = .25, .5, .75, 2, 4", "1e-3, relative", transition, source="theory", before=False, reason="the next order is 1/α, over (κ − 1)² and more",
            counterexamples=(scaled("no noise term", "theory/far", 0.97, side=0.5), scaled("a gap that stays at κ = 4", "theory/far", 1e3, side=4.0), a_nan("theory/far", side=2.0)),
        ),
        Claim(
            "gap_approach", "The gap of trained matrices comes to its limit as d grows, at α = 10, τ = 2, κ = .5, 1, 2, 10.", f"{APPROACH} (the gap's distance from its limit, in units of e_ICL)", APPROACH_ROOM, partial(approaches, name="trained", kinds=("gap",)), source="theory", before=False,
            reason=f"{APPROACH_REASON}; at κ = 10 the gap is a twentieth of the error, so it is measured against the error", counterexamples=approach_counters("trained", ("gap",)),
            min_seeds=MEAN_SEEDS,
        ),
        Claim(
            "dmmse_stays", "The posterior mean over the pool keeps a gap of order one however many tasks it knows, where the trained matrix has none left.", f"dMMSE above {FLOOR:g} for κ up to 32, d = 16 … 64; Γ* below {SMALL:g} at κ = 10", "4 standard errors", stays, source="second-hand",
            reason="the released run has 1.53 at κ = .2 and 1.09 at 32; the limit of Γ* at κ = 10 is .0109", counterexamples=(scaled("dMMSE gone at κ = 32", "posterior/icl", 0.1, cell="d = 32, κ = 32"), scaled("a matrix that memorizes", "trained/icl", 2.0, kappa=10.0), a_nan("posterior/icl", cell="d = 16, κ = 2", repetition=0)),
            min_seeds=MEAN_SEEDS,
        ),
        Claim(
            "dmmse_with_dim", "Nor does that gap fall with the dimension.", "largest against smallest d of each κ: not lower by 4 standard errors", "4 standard errors, at most .3", grows, source="ours", reason="in high dimension new tasks are as far from a pool of κd as from one",
            counterexamples=(scaled("half at d = 64", "posterior/icl", 0.5, cell="d = 64, κ = 32"), scaled("lost at d = 32", "posterior/icl", 0.6, cell="d = 32, κ = 0.5"), a_nan("posterior/icl", cell="d = 16, κ = 10", repetition=1)),
            min_seeds=MEAN_SEEDS,
        ),
        Claim(
            "dmmse_released", "dMMSE at d = 64, α = 10, ρ = .01 has the gaps of the authors' released run.", "1.53 at κ = .2, 1.09 at κ = 32", f"4 standard errors of both together, at most {RELEASED_ROOM:g}", released, source="second-hand", reason="theirs: 1000 prompts a point, deviations 2.15 and 1.47",
            counterexamples=(scaled("30 % more at κ = .2", "posterior/icl", 1.3, cell="d = 64, κ = 0.2"), scaled("30 % less at κ = 32", "posterior/icl", 0.7, cell="d = 64, κ = 32"), a_nan("posterior/icl", cell="d = 64, κ = 0.2", repetition=0)),
            min_seeds=MEAN_SEEDS,
        ),
    ),
    choices=(
        APPROACH_CHOICE,
        Choice("printed numbers", "κ = .2 for α = τ = 10, and half a unit of the last digit", "κ = .2: .8253 and not .837, which is the limit at 12 tasks of d = 64, as they were run; two numbers of 24 .55 units off: .03015 printed as .0302 (α = τ = 10, κ = 2), .09985 as .0999 (α = 40, κ = 1)", "κ = 12/64, and .6 units"),
        Choice("α at which the transition is read", "10⁵", "2e-3 off at κ = 2, of order 1/(cρα)", "10⁶"),
        Choice("room for the released run", ".02 for theirs", "no data of ours seen; their deviations over 1000 prompts, 2.15 and 1.47, make it .068 and .047", "four standard errors of both together"),
    ),
    setup=f"""limit: τ = α/5, ρ = {NOISE:g}; trained matrices: α = 10, τ = 2, tasks on the sphere, d = 20, 28, 40
dMMSE: α = 10, {PROMPTS} prompts of each pool and as many of new tasks, float64, d = 16, 32, 64""",
    cost="1.5 minutes on 2 cores",
)  # fmt: skip
