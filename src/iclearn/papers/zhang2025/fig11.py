"""Figure 11: with rank R a drop is a new pair in a grown head or a new head; which one decides how long it waits."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from ...core.trace import Trace
from ...probes.alignment import contributions, learned_strengths
from ...probes.reading import separate_weights
from ..base import Choice, Claim, Data, Figure
from ..judging import Outcome, judge_groups, judge_seeds, worst
from ..lab import Lab
from .drops import assignment, by_kind, judge_waits, waits
from .examples import NAN_WEIGHTS, SEEDS, ZERO_WEIGHTS, changed_weights, scaled_time, separate_run, spoiled
from .judges import judge_pooled
from .ranks import RECORD, expected_long, match
from .setup import CONTEXT, GAIN, basis, eigenvalues, levels, public_task, run_groups, separate_recipe

RANKS = (2, 4)
STEPS = 60001


def collect(lab: Lab) -> Data:
    exact = public_task(8, None)
    plans = {
        f"R={rank}": [
            separate_recipe(s, exact, heads=9, rank=rank, init=5e-3, steps=STEPS, record=RECORD) for s in lab.seeds
        ]
        for rank in RANKS
    }
    return run_groups(lab, plans)


def draw(data: Data):
    figure, axes = plt.subplots(3, 2, figsize=(10.5, 7.6), sharex=True, sharey="row")
    colors = ("#000000", "#0072B2", "#D55E00", "#009E73")
    styles = ("-", "--", "-.", ":")
    for column, (name, traces) in enumerate(data.items()):
        trace = traces[0]
        weights, steps = separate_weights(trace), trace.data["record"].values + 1
        found = assignment(trace)
        heads = list(dict.fromkeys(int(h) for h in found.heads))
        top, middle, bottom = axes[:, column]
        for m, height in enumerate(levels(8)):
            top.axhline(height, color="0.4" if m in expected_long(trace) else "0.85", ls=":", lw=1)
        top.semilogx(trace.data["step"] + 1, trace.loss, color="black")
        parts = contributions(trace) / learned_strengths(eigenvalues(8), CONTEXT, gain=GAIN)
        for i, head in enumerate(heads):
            look = {"color": colors[i % 4], "ls": styles[i % 4]}
            middle.semilogx(steps, np.abs(weights.value[:, head]), label=f"head {head}", **look)
            for d in range(8):
                if parts[-1, head, d] > 0.5:
                    bottom.semilogx(steps, parts[:, head, d], lw=1.3, **look)
        top.set(title=f"{name.replace('R=', 'rank ')}, seed 0", ylim=(0.15, 1.05))
        middle.legend(loc="upper left", fontsize=9)
        bottom.set(xlabel="step (logarithmic)", xlim=(len(trace.loss) // 60, len(trace.loss)), ylim=(-0.05, 1.1))
    for ax, label in zip(axes[:, 0], ("loss", "value weight $|v|$", "eigenvector learned by head"), strict=True):
        ax.set_ylabel(label)
    return figure


def kinds(data: Data) -> Outcome:
    """At multiples of R a new head, elsewhere a new pair; every drop of every run, by rank and by m."""
    outcomes, rows = [], {}
    for name, traces in data.items():
        groups: dict[int, list[bool]] = {}
        for trace in traces:
            for m, growth in enumerate(assignment(trace).growths):
                groups.setdefault(m, []).append((growth.kind == "new head") == (m in expected_long(trace)))
        rows[name] = {f"m={m}": f"{sum(group)} of {len(group)}" for m, group in sorted(groups.items())}
        outcomes.append(judge_pooled(groups, rows, share=0.8))
    return Outcome(rows, worst(*(o.verdict for o in outcomes)), sum(o.seeds for o in outcomes))


def values(data: Data) -> Outcome:
    """|v| at a tenth of a drop over |v| at nine tenths: nearer to 0.48 or to 0.82, by rank and kind of the drop."""
    groups: dict[str, list[float]] = {}
    for name, traces in data.items():
        for trace in traces:
            for growth in assignment(trace).growths:
                groups.setdefault(f"{name}, {growth.kind}", []).append(growth.value_ratio)
    passed = {name: [(ratio > 0.65) == ("pair" in name) for ratio in ratios] for name, ratios in groups.items()}
    return judge_groups(passed, {name: float(np.median(ratios)) for name, ratios in groups.items()})


def durations(data: Data) -> Outcome:
    """Median stay in own time before a new head over that before a new pair, run by run."""
    rows = []
    for trace in (trace for traces in data.values() for trace in traces):
        stays, growths = match(trace).stays, assignment(trace).growths
        own = {
            kind: [stays[m].own for m, g in enumerate(growths) if g.kind == kind] for kind in ("new head", "new pair")
        }
        rows.append([float(np.median(own[kind] or [np.nan])) for kind in ("new head", "new pair")])
    return judge_seeds([head > 10 * pair for head, pair in rows], {"medians [new head, new pair] by run": rows})


def predicted_waits(data: Data) -> Outcome:
    found = [wait for traces in data.values() for trace in traces for wait in waits(trace)]
    return judge_waits(by_kind(found), 0.01, 0.05)


def example() -> Data:
    return {f"R={r}": [separate_run(s, 8, r, heads=9, own=40) for s in range(SEEDS)] for r in RANKS}


def one_head_each(trace: Trace) -> Trace:
    """The same W along every eigenvector, but each one learned by a head of its own."""
    weights, vectors = separate_weights(trace), basis(trace)
    made = {name: np.zeros_like(trace.data[f"weight_{name}"].values) for name in ("value", "key", "query")}
    for slot, growth in enumerate(assignment(trace).growths):
        along = vectors[:, growth.eigenvector]
        part = np.sum((weights.key[:, growth.head] @ along) * (weights.query[:, growth.head] @ along), -1)
        made["value"][:, slot, 0, -1] = weights.value[:, growth.head]
        made["key"][:, slot, 0, : len(along)] = np.sqrt(np.abs(part))[:, None] * along
        made["query"][:, slot, 0] = (np.sign(part) * np.sqrt(np.abs(part)))[:, None] * along
    return changed_weights(lambda name, _: made[name])(trace)


FIGURE = Figure(
    id="fig11",
    title="a new pair in a grown head, or a new head",
    collect=collect,
    draw=draw,
    example=example,
    claims=(
        Claim(
            "kinds", "After m drops the next one is a new head exactly if m is a multiple of R; else a new key-query pair in a head that has grown.",
            "new head at multiples of R only", "more than 80 % of the drops of each rank, at 95 % confidence, and more than half at every m", kinds, before=False,
            reason="a head that grows while another still has pairs to use is the exception",
            counterexamples=(
                spoiled("each drop of rank 2 by a head of its own", one_head_each, "R=2"),
                ZERO_WEIGHTS, NAN_WEIGHTS,
            ),
            min_seeds=2,
        ),
        Claim(
            "values", "A new head grows its value with its key and query; a new pair uses the value its head already has.",
            "|v| at a tenth of the drop over |v| at nine tenths: (1/9)^⅓ = 0.48 for a new head, 0.79 and more for a new pair",
            "on the right side of 0.65, more than half of the drops of each kind and rank", values, before=False,
            reason="half way between the two; a pair adds at most as much as its head holds: ((1 + 0.1)/(1 + 0.9))^⅓ = 0.83, less where the head's first drop still goes on",
            counterexamples=(
                spoiled("values that do not move", changed_weights(lambda n, w: np.broadcast_to(w[-1:], w.shape) if n == "value" else w)),
                spoiled("each drop of rank 2 by a head of its own", one_head_each, "R=2"),
                ZERO_WEIGHTS, NAN_WEIGHTS,
            ),
            min_seeds=3,
        ),
        Claim(
            "durations", "Plateaus ended by a new head are long, those ended by a new pair brief.",
            "medians more than a factor 10 apart", "in each plateau's own time scale; more than half of the runs", durations, before=False,
            reason="a new head needs 1/v₀ of these units, a new pair a few e-foldings at rate v",
            counterexamples=(
                spoiled("each drop by a head of its own", one_head_each),
                ZERO_WEIGHTS, NAN_WEIGHTS,
            ),
            min_seeds=3,
        ),
        Claim(
            "waits", "How long each drop lets wait follows from the initial weights, for new heads and for new pairs.",
            "measured / predicted = 1", "median within 1 %, quartiles within 5 %", predicted_waits, source="theory", before=False,
            reason="leading order in init: 5e-3 against values of 0.3 to 0.7 is 1 %",
            counterexamples=(
                spoiled("times 3 % longer", scaled_time(1.03)),
                NAN_WEIGHTS, ZERO_WEIGHTS,
            ),
        ),
    ),
    choices=(
        Choice(
            "kinds", "90 % of all drops, pooled over ranks", "85 of 91 agree; 9 of 12 runs agree in every drop", "80 % with a confidence bound, by rank, and more than half at every m; 39 of 43 (R = 2) are too few for the bound, so 12 seeds",
        ),
        Choice(
            "durations", "medians over all drops of all runs; runs that learn out of order left out", "178 against 4.0 own units", "run by run, none left out",
        ),
        Choice(
            "waits", "not judged; looked at by the audit (waits that a pair ends, 57 of them) and again before this claim",
            "median 1.004, quartiles 0.995 to 1.034 (audit); 1.008, 0.995 to 1.038 and, for new heads, 1.001, 1.000 to 1.019 (again)",
            "1 % and 5 %, from the size of init; wrong constants in the theory of pairs move the median to 0.98 to 1.14",
        ),
        Choice(
            "initialization", "per_head", "-", "kept here, where the paper's figure 4 has entries: small weights make the theory's leading order sharp",
        ),
    ),
    setup="D=8, N=31, λ ∝ d, P=∞, separate attention H=9, R = 2 and 4, init 5e-3 (per_head), lr 0.02, 60001 steps, twice as many seeds as elsewhere; which head learned which eigenvector and when: from v k qᵀ in the eigenbasis at 600 recorded steps",
    cost="20 s on 2 cores",
    seeds=12,
)  # fmt: skip
