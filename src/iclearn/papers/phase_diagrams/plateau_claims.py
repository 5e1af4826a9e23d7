"""What the plateaus sweep claims: where plateaus sit, how long they last and when drops come, against theory."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..base import Choice, Claim, Counterexample, Data, Outcome, judge_true
from ..judging import Word, judge_close, judge_groups, worst
from .examples import later, longer
from .plateau_stays import medians, share, stays, structured

SMALL_INIT = 0.04  # up to here the theory, which is leading order in the init scale, is judged
SAME_SIDE, SAME_SIDE_BY_RANK = 0.95, 0.94
LATE, LATE_GROUP = 0.02, 0.05
FINISHED = 0.9  # of the runs of a cell: with fewer, the slow ones are missing
SLOPE, SAME_SLOPE = 0.1, 0.05


def small(table: xr.DataArray) -> xr.DataArray:
    return table.where(table["init"] <= SMALL_INIT, drop=True)


def alike(data: Data) -> tuple[xr.DataArray, xr.DataArray]:
    """The runs that theory was asked for, as trained and as predicted."""
    theory = data["theory"]
    return data["crossing"].sel({name: theory[name] for name in theory.dims}), theory


def boundary(data: Data) -> Outcome:
    """Cells that theory and training put on the same side of one half."""
    theory = share(stays(data["theory"]))
    measured = share(stays(data["crossing"])).sel(init=theory["init"], decay=theory["decay"])
    both = measured.notnull() & theory.notnull()
    same = ((measured >= 0.5) == (theory >= 0.5)).where(both)
    one, other = (structured(stays(table)) for table in alike(data))
    told = {
        "cells on the same side": float(same.mean()),
        "by rank": same.mean(("init", "decay")).values,
        "cells": int(both.sum()),
        "median difference of shares": float(abs(measured - theory).median()),
        "runs on which they agree": float((one == other).where(one.notnull() & other.notnull()).mean()),
    }
    if not np.isfinite([told["cells on the same side"], *told["by rank"]]).all():
        return Outcome(told, "failed")
    passed = told["cells on the same side"] >= SAME_SIDE and bool((told["by rank"] >= SAME_SIDE_BY_RANK).all())
    return judge_true(passed, told, seeds=data["crossing"].sizes["seed"])


def where_small(data: Data) -> Outcome:
    """For each rank and spectrum, whether more than half of the runs from small weights have the structure."""
    found = small(structured(stays(data["crossing"])))
    enough = found.notnull().mean("seed") >= FINISHED
    groups, told = {}, {}
    for rank in found["rank"].values:
        for decay in found["decay"].values:
            cell = found.where(enough).sel(rank=rank, decay=decay).values
            groups[rank, decay] = [bool(passed) for passed in cell[np.isfinite(cell)]]
        shares = {f"{decay:g}": np.mean(groups[rank, decay]) for decay in found["decay"].values if groups[rank, decay]}
        told[f"rank {rank}, share of runs by decay"] = {decay: round(float(v), 3) for decay, v in shares.items()}
    known = {group: passed for group, passed in groups.items() if passed}
    told["spectra whose runs did not finish"] = len(groups) - len(known)
    return judge_groups(known, told)


def slope_of_logs(table: xr.DataArray) -> xr.DataArray:
    """Least-squares slope of ln(table) against ln(init); NaN where fewer than 3 points are known."""
    y = xr.apply_ufunc(np.log, table)
    x = xr.apply_ufunc(np.log, table["init"]).where(y.notnull())
    x, y = x - x.mean("init"), y - y.mean("init")
    return ((x * y).sum("init") / (x**2).sum("init")).where(y.notnull().sum("init") >= 3)


def slopes(data: Data, multiples: bool) -> dict[int, tuple[float, float]]:
    """d ln(stay)/d ln(init) for small init by rank, as trained and as predicted: the median over spectra."""
    tables = [small(stays(table)) for table in alike(data)]
    finished = [table.notnull().all("level").mean("seed") >= FINISHED for table in tables]
    both = finished[0] & finished[1]
    pair = [slope_of_logs(medians(table, multiples).where(both)).median("decay") for table in tables]
    ranks = [int(rank) for rank in pair[0]["rank"].values if multiples or rank > 1]  # with rank 1 all are multiples
    return {rank: (float(pair[0].sel(rank=rank)), float(pair[1].sel(rank=rank))) for rank in ranks}


def waits(multiples: bool):
    """Exponents of the stays that new heads end (−1), or of those that new pairs end (as predicted)."""

    def judge(data: Data) -> Outcome:
        found = slopes(data, multiples)
        told = {f"rank {rank}: trained, predicted": [round(v, 3) for v in pair] for rank, pair in found.items()}
        if not found or np.isnan(list(found.values())).any():
            few = len(small(data["crossing"])["init"]) < 3
            return Outcome(told, "inconclusive" if few else "failed", data["crossing"].sizes["seed"])
        words: list[Word] = []
        for one, other in found.values():
            words.append(judge_close(one, other, SAME_SLOPE).verdict)
            if multiples:
                words.append(judge_close(one, -1, SLOPE).verdict)
        return Outcome(told, worst(*words), data["theory"].sizes["seed"])

    return judge


def times(data: Data) -> Outcome:
    """Measured over predicted crossing steps of the same runs, small init scales: all together, by rank and drop."""
    measured, theory = alike(data)
    off = abs(measured / theory - 1)
    by_init = off.median(("decay", "rank", "seed", "crossing"))
    kept = small(off)
    groups = kept.median(("init", "decay", "seed")).transpose("rank", "crossing")
    told = {"median error, small init": float(kept.median()), "by rank and drop": groups.values.round(4)}
    told |= {f"init {scale:.3g}": round(float(error), 4) for scale, error in zip(by_init["init"], by_init, strict=True)}
    if not np.isfinite(groups.values).all():
        return Outcome(told, "failed", theory.sizes["seed"])
    passed = told["median error, small init"] <= LATE and float(groups.max()) <= LATE_GROUP
    return judge_true(passed, told, seeds=theory.sizes["seed"])


NOTHING = Counterexample("no run finished", lambda data: {**data, "crossing": data["crossing"] * np.nan})
ELSEWHERE = Counterexample("rank 2 stays ten times as long elsewhere", longer(2, False, lambda init: 10.0))
CLAIMS = (
    Claim(
        "boundary", "Theory started from each run's own weights says where in the plane runs have a long plateau at every multiple of R and nowhere else.",
        "training and theory on the same side of one half", f"{SAME_SIDE:.0%} of the cells and {SAME_SIDE_BY_RANK:.0%} of those of each rank, far beyond the small weights the theory assumes", boundary,
        "a theory that had new pairs too early was at 0.938 for rank 4; the rest is cells whose share is near one half", "ours", before=False,
        counterexamples=(ELSEWHERE, Counterexample("rank 4 stays three times as long elsewhere", longer(4, False, lambda init: 3.0)), NOTHING),
    ),
    Claim(
        "where_small", "With small weights plateaus sit at the multiples of R whatever the spectrum.",
        "more than half of the runs, for each rank and each spectrum", f"95 % confidence for each rank and spectrum, init ≤ {SMALL_INIT:g}; cells of which {FINISHED:.0%} finished", where_small,
        "one half is what a picture of a single run would show; the others have two heads that start alike, so that one drop follows on another", "theory", before=False,
        counterexamples=(ELSEWHERE, Counterexample("rank 3 has short plateaus at its multiples", longer(3, True, lambda init: 0.1)), NOTHING),
    ),
    Claim(
        "heads_wait", "Stays at multiples of R, which new heads end, grow as 1/init.",
        "slope -1 of ln(stay) against ln(init), and that of the theory for the same runs", f"{SLOPE:g} and {SAME_SLOPE:g}, each rank, init ≤ {SMALL_INIT:g}", waits(True),
        "the theory's own corrections to -1 (logarithms, the drop itself) stay below 0.1; the median of 16 runs moves a slope by 0.03", "theory", before=False,
        counterexamples=(
            Counterexample("exponent 1.2 for rank 2", longer(2, True, lambda init: (init / 0.01) ** -0.2)),
            Counterexample("a logarithm for rank 1", longer(1, True, lambda init: 100 * init * np.log(1 / init))), NOTHING,
        ),
    ),
    Claim(
        "pairs_wait", "Stays elsewhere, which new pairs of grown heads end, grow as ln(1/init) only.",
        "the slope of ln(stay) against ln(init) that the theory gives for the same runs", f"{SAME_SLOPE:g}, each rank from 2 on, init ≤ {SMALL_INIT:g}", waits(False),
        "a logarithm has a slope near -0.2 here and a square root -0.5: six times the tolerance apart", "theory", before=False,
        counterexamples=(
            Counterexample("a square root for rank 3", longer(3, False, lambda init: (init / 0.01) ** -0.25)),
            Counterexample("no dependence for rank 2", longer(2, False, lambda init: 1 / np.log(1 / init))), NOTHING,
        ),
    ),
    Claim(
        "times", "Drops come when theory says.", "measured / predicted = 1", f"median error {LATE:.0%} in all and {LATE_GROUP:.0%} for each rank and drop, init ≤ {SMALL_INIT:g}", times,
        "the theory is leading order in the init scale: an error of the order of init is left", "theory", before=False,
        counterexamples=(
            Counterexample("drops of rank 3 come 8 % late", later(1.08, 3)), Counterexample("the last drop of rank 2 comes 8 % late", later(1.08, 2, 3)), NOTHING,
        ),
    ),
)  # fmt: skip
CHOICES = (
    Choice(
        "cells on the same side of one half (boundary)", "85 % of the cells; 95 % of the cells and 94 % of those of each rank",
        "a theory that had grown heads' pairs too early passed the first, with 0.938 of the cells of rank 4",
        "the second: placed just above a theory known to be wrong, so stricter, but with that number in view",
    ),
    Choice(
        "the grid of the preset medium", "init 0.03 … 0.4, 12001 steps; the same with 60001 steps; init 0.005 … 0.32, 60001 steps",
        "the second: 3 claims reproduced, 2 inconclusive, as fewer than 3 init scales were at most 0.04", "the third, the range of small; all 5 reproduced. Chosen after the second came out",
    ),
    Choice("up to which init scale the theory is judged", "0.03, with a grid that had no point there; 0.04", "0.03 left two init scales in the small grid", "0.04, the fourth point of the small grid"),
    Choice("median error of the times", "5 % in all; 2 % in all", "both reproduced, the second after the theory was corrected", "2 % in all, and 5 % for each rank and drop, so that no group hides"),
    Choice(
        "stays elsewhere", "a slope between -0.5 and 0.05, pooled over ranks", "reproduced; a square-root law would have been called a logarithm",
        "the theory's slope for the same runs within 0.05, each rank by itself",
    ),
    Choice(
        "share of runs with small weights (where_small)", "a mean share of at least 0.6 over all spectra, every rank", "reproduced; one spectrum without any structure would have passed",
        "more than half for each rank and spectrum, with a confidence bound",
    ),
    Choice(
        "what counts as a long stay", "see `probes.saddle_stays.long_stay`: 12 to 30 own units; an e-folding added and rank 1 halved after zhang2025's Figure 4 had been seen",
        "verdicts of that figure do not change between 12 and 30", "as there",
    ),
)  # fmt: skip
