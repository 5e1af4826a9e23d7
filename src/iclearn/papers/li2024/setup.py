"""What the figures of li2024 share: the experiment, its repetitions, and how they are run and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ...core.recipe import Init, Optimizer, Recipe, Record
from ...core.trace import Trace
from ...models.softmax_layers import SoftmaxLayer
from ...tasks.softmax_regression import SoftmaxRegression
from ..lab import Lab
from .measures import evaluate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REPETITIONS = 10  # the paper's
STEPS = 1000
LONG_STEPS, LONG_RECORDS = 16_000, 161  # a record every 100 steps
FEW = 6  # repetitions of what is long or costly: with six of six, more than half is shown
DOCUMENTS = 1000  # for the line search, and as many for evaluation
LAYERS = {"A": SoftmaxLayer("log_label"), "B": SoftmaxLayer("query"), "C": SoftmaxLayer("raw_label")}
RATES = {"query": 0.001}  # at the paper's 0.005 layer B ends further from gradient descent: loss 0.10 at n = 50
NAMES = {"A": "layer A: log labels", "B": "layer B: query attends", "C": "layer C: raw labels"}
COLORS = {"GD": "#000000", "A": "#0072B2", "B": "#D55E00", "C": "#009E73"}
MARKS = {"GD": "s", "A": "o", "B": "^", "C": "D"}
CLOSE_LOSS = 0.10  # losses within 10 % are called similar
CLOSE_COSINE = 0.95  # and sensitivities with a cosine of at least this, the same direction

SETUP = """documents: n context words a_i ~ N(0, I_d), centered; x uniform on the sphere ‖x‖ = s; b = softmax(Ax)
n held-out query words A_q with the same x; loss n·½‖f̂ − softmax(A_q x)‖² (in-sample, attention could copy b)
gradient descent: x_1 = −η∇L(0) = (η/n)Aᵀb, f̂ = softmax(A_q x_1); η by bounded scalar search on 10³ training documents
layer A: x̂ = V Σ_i softmax_i(qᵀK e_i) e_i, e_i = (a_i, log b_i − mean), f̂ = softmax(A_q x̂); C: e_i = (a_i, n b_i − 1)
layer B: each query word attends to the e_i of C, its logit is the value read there
for step in 1000: 64 fresh documents; Adam(0.005), for layer B Adam(0.001), the best for it of the rates tried.  10 repetitions, each with its own seed; 10³ evaluation documents"""


def recipe(
    layer: str | SoftmaxLayer,
    seed: int,
    *,
    words: int = 200,
    dim: int = 20,
    scale: float = 0.5,
    dtype: str = "float32",
    long: bool = False,
) -> Recipe:
    """One repetition of the experiment; a `long` one has 16 times the steps."""
    spec = LAYERS[layer] if isinstance(layer, str) else layer
    records = LONG_RECORDS if long else 41
    return Recipe(
        task=SoftmaxRegression(context_len=words, dim=dim, scale=scale),
        model=spec,
        init=Init(0.02),
        optimizer=Optimizer("adam", lr=RATES.get(spec.form, 0.005), batch_size=64),
        steps=LONG_STEPS if long else STEPS,
        seed=seed,
        record=Record(weights=records, candidates=records),
        dtype=dtype,  # type: ignore[arg-type]
    )


def train(lab: Lab, group: Sequence[Recipe]) -> list[Trace]:
    """The stored traces of a group of repetitions; what is not stored is trained in one program."""
    _train_missing(lab, group)
    return lab.run(group)


def _train_missing(lab: Lab, group: Sequence[Recipe]) -> None:
    if trained := lab.train_group(group):
        task = group[0].task
        lab.say(f"trained {len(trained)} × {getattr(group[0].model, 'form', '')} n={getattr(task, 'context_len', 0)}")


def measured(
    lab: Lab,
    name: str,
    groups: Mapping[str, Sequence[Recipe]],
    *,
    every: int = 20,
    documents: int | None = None,
    gd_steps: Sequence[int] = (1,),
) -> dict[str, xr.Dataset]:
    """Each group's layer beside gradient descent: losses, Preds Diff, Model Diff, Model Cos.

    Axes (repetition, step). With several `gd_steps` there is a table for each, under the group's key and the number of
    steps. Groups that differ in the logit scale only are trained together, and measured while others are trained.

    Args:
        every: every so many of the stored records is measured: 20 are the start, half of training and its end.
        documents: for the line search, and as many for evaluation (None: `DOCUMENTS`).
    """
    documents = documents or DOCUMENTS

    def names(key: str) -> dict[int, str]:
        return {k: key if len(gd_steps) == 1 else f"{key} {k}" for k in gd_steps}

    def one(page: Lab, keys: Sequence[str]) -> dict[str, xr.Dataset]:
        _train_missing(page, [recipe for key in keys for recipe in groups[key]])
        return {full: table for key in keys for full, table in tables_of(page, key, groups[key]).items()}

    def tables_of(page: Lab, key: str, group: Sequence[Recipe]) -> dict[str, xr.Dataset]:
        traces, found = page.run(group), {}
        for k, full in names(key).items():
            parameters: dict[str, Any] = {
                "runs": [r.hash[:16] for r in group],
                "every": every,
                "documents": documents,
                "gd_steps": k,
                "version": 1,
            }

            def compute(k: int = k) -> xr.Dataset:
                return evaluate(group, traces, every, documents, k)

            found[full] = page.dataset(f"li2024-{name}-{full.replace(' ', '-')}", parameters, compute)
        return found

    alike: dict[Recipe, list[str]] = {}
    for key, group in groups.items():
        alike.setdefault(group[0].replace(task__scale=0.0), []).append(key)
    calls = [partial(one, keys=keys) for keys in alike.values()]
    tables = lab.concurrently(*calls, at_once=max(1, min(lab.workers, len(calls))))
    found = {key: table for part in tables for key, table in part.items()}
    return {full: found[full] for key in groups for full in names(key).values()}


def end(table: xr.Dataset, name: str) -> np.ndarray:
    """A measure after training, by repetition."""
    return table[name].isel(step=-1).values


def mean_std(values: np.ndarray) -> str:
    """Mean ± deviation over repetitions."""
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" if len(values) > 1 else f"{np.mean(values):.4f}"


def plain_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Ticks of a logarithmic axis as plain numbers."""
    axes.set_yticks(values, [f"{v:g}" for v in values])
    axes.set_yticks([], minor=True)


def band(axes: Axes, x: Any, values: np.ndarray, color: str, label: str | None = None, **style: Any) -> None:
    """Mean over repetitions (the first axis) with one deviation shaded."""
    mean, spread = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else 0 * values[0]
    axes.plot(x, mean, color=color, label=label, **style)
    axes.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.22, lw=0)
