"""What the figures of oswald2023 share: the task, the public protocol, and how models are measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...core.checks import check_choice
from ...core.model import AbstractModel, AbstractModelSpec
from ...core.prompt import Batch
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...core.trace import Trace
from ...models.step_transformers import SparseTransformer
from ...models.transformer import LinearTransformer
from ...probes import mean_differences
from ...tasks.covariance import Covariance
from ...tasks.varied_regression import Inputs, VariedRegression
from ...theory.depth import uniform_step
from ..base import Counterexample, Data, Outcome, PaperOptions
from ..lab import Lab, on_accelerator
from ..perturbing import scaled

DIM = CONTEXT = 10
VARIANCE = 1 / 12  # of an input U(−½, ½)
BATCH, TASKS = 2048, 10_000
EVALUATION = 10_007  # seed of the tasks on which models are measured
SPECTRA = 100_000  # of the optima over sampled spectra
STEP = uniform_step(DIM, CONTEXT)  # η*, and the loss of one step
COLORS = {"tf": "#0072B2", "gd": "#D55E00", "gdpp": "#009E73", "mix": "#CC79A7", "none": "0.5"}
SETUP = f"""d = N = {DIM}, x ~ U(−½, ½)^d (the public code; the paper says U(−1, 1)), w ~ N(0, I), tokens [x; y], attention is a sum over the context
loss ½ E (ŷ − y)²; our runs minimize E (ŷ − y)² with twice ε and twice the clipping norm, which are the same steps
Adam β = .9, .98, ε = 1e-8, batch {BATCH} fresh; learning rate .001, .0005 for L > 3; norm of the gradient clipped at .001, 10 for L > 2
weights cut off at ±2, of variance s/fan_in, s = .002/L (.02/L for interleaved tokens); float32
measured on {TASKS} tasks: loss, mean |ŷ − ŷ′|, mean ‖∂ŷ/∂x_q − ∂ŷ′/∂x_q‖, mean cosine of the two"""
KNOWN = "the notes this was built from had runs of 1 to 4 seeds, and their numbers were known"


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce oswald2023` is given.

    Args:
        preset: size of the figures for a GPU (fig3_deep, fig_softmax, fig_copy): ``full`` as published, ``small`` for
            a look on a processor, whose trainings are unfinished; ``auto``: full where there is an accelerator.

    >>> Options.of({"preset": "small", "device": "cpu"})
    Options(preset='small')
    """

    preset: Literal["auto", "full", "small"] = "auto"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, Literal["auto", "full", "small"])


def is_full(lab: Lab) -> bool:
    """Whether the figures for a GPU are made as published."""
    preset = lab.options.preset if isinstance(lab.options, Options) else "auto"
    return preset == "full" or (preset == "auto" and on_accelerator())


def task(inputs: Inputs = "uniform", scale: float = 1.0, **fields: Any) -> VariedRegression:
    """The prompts of the paper, or of another law with the covariance of U(−½, ½), times `scale`."""
    covariance = Covariance.white(trace=DIM * VARIANCE * scale**2)
    given: dict[str, Any] = {"num_prompts": None, **fields}
    return VariedRegression(dim=DIM, context_len=CONTEXT, inputs=inputs, covariance=covariance, **given)


def evaluation(inputs: Inputs = "uniform", scale: float = 1.0, count: int = TASKS, seed: int = EVALUATION) -> Batch:
    """Tasks on which models are measured."""
    batch = task(inputs, scale, num_prompts=count).source(seed, "float64").everything()
    assert isinstance(batch, Batch)
    return batch


def evenly(steps: int) -> Record:
    """Weights at about 78 evenly spaced steps, none of them left out."""
    return next(Record(c, c) for c in range(min(78, steps + 1), steps + 2) if -(-steps // -(-steps // c)) < c)


def recipe(
    layers: int, seed: int, *, tied: bool = True, model: AbstractModelSpec | None = None, steps: int = 5000,
    batch: int = BATCH, init: float = 0.002,
) -> Recipe:  # fmt: skip
    """A training of the public code."""
    spec = model or LinearTransformer(layers=layers, blocks="full", tied=tied, normalize="none")
    clip = 0.001 if layers <= 2 and init == 0.002 else 10.0
    optimizer = Optimizer(
        "adam", 0.001 if layers <= 3 else 0.0005, betas=(0.9, 0.98), eps=2e-8, clip=2 * clip, batch_size=batch
    )
    return Recipe(
        task=task(), model=spec, init=Init(init / layers), optimizer=optimizer, steps=steps, seed=seed,
        engine="samples", record=evenly(steps), dtype="float32",
    )  # fmt: skip


def descent(steps: Sequence[float], curvature: Sequence[float] = ()) -> SparseTransformer:
    """Gradient descent or GD++ with these steps, as a model."""
    gamma = np.array([*curvature, *[0.0] * (len(steps) - len(curvature))])
    a = np.asarray(steps, float)
    return SparseTransformer(a=jnp.asarray(a[:, None]), b=jnp.asarray((gamma / a)[:, None]), dim=DIM, depth=len(a))


def models_of(trace: Trace) -> list[AbstractModel]:
    """The model at every record of a run."""
    count = len(trace.data["record"])
    return [trace.recipe.model.rebuild(DIM, trace.weights(index)) for index in range(count)]


def measured(
    traces: Sequence[Trace], references: Mapping[str, AbstractModel], batch: Batch, every: int = 1
) -> xr.Dataset:
    """Loss and differences to each reference over training, with axes (seed, record): every so many of the records."""
    tables = []
    for trace in traces:
        models, own = models_of(trace), {}
        kept = np.arange(len(models))[::-every][::-1]  # the last one among them
        models = [models[index] for index in kept]
        for name, reference in references.items():
            found = mean_differences(models, reference, batch)
            own |= {
                f"{part}_{name}": ("record", found[part].values) for part in ("prediction", "sensitivity", "cosine")
            }
            own["loss"] = ("record", 0.5 * found["loss"].values)
            own[f"norm_{name}"] = ((), float(found["reference"][0]))
        tables.append(xr.Dataset(own, {"record": trace.data["record"].values[kept]}))
    whole = xr.concat(tables, "seed").assign_coords(seed=np.arange(len(tables)))
    for name, reference in references.items():
        whole[f"loss_{name}"] = 0.5 * float(mean_differences([reference], reference, batch)["loss"][0])
    return whole


def changed(title: str, table: str, name: str, factor: float, **where: Any) -> Counterexample:
    """The data with a variable of a table times a factor, where the coordinates say."""
    return scaled(title, f"{table}/{name}", factor, **where)


def nan_of(name: str, table: str = "training") -> Counterexample:
    """The data with a variable of a table lost."""
    return changed("NaN", table, name, float("nan"))


def trained(outcome: Outcome, *tables: xr.Dataset) -> Outcome:
    """An outcome, or that the trainings are those of the small preset, which end long before anything is learned."""
    whole = all(int(table["full"]) == 1 for table in tables)
    return outcome if whole else Outcome(outcome.measured, "unfinished", outcome.seeds)


def last(data: Data, table: str, name: str) -> np.ndarray:
    """A variable at the last record, over seeds."""
    return data[table][name].isel(record=-1).values


def band(ax: Any, x: np.ndarray, values: np.ndarray, color: str, label: str, **style: Any) -> None:
    """Median over seeds (the first axis), and each of them as a thin line: single seeds may stay at a saddle."""
    ax.plot(x, np.median(values, 0), color=color, label=label, **style)
    if len(values) > 1:
        ax.plot(x, values.T, color=color, alpha=0.35, lw=0.7)
