"""What the figures of xie2025-llm share: the stored answers, measures with intervals, and how claims are judged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import IclearnError
from ...llm.conditions import condition
from ...llm.experiment import POOL, Experiment, Options
from ...llm.metrics import METRICS, Interval, bootstrap
from ...llm.stsb import ROWS
from ..base import Outcome, Word
from ..collect import read_json, write_json
from ..lab import Lab

if TYPE_CHECKING:
    import xarray as xr

PAPER_MODELS = ("llama-3.1-8b-instruct", "qwen2.5-7b-instruct")
EXCLUDES_ZERO = "95 % intervals of the paired gains exclude 0"
RESAMPLED = "percentile intervals of 1000 resamples of the pairs, the same pairs on both sides"
COLORS = {"llm": "#0072B2", "guess": "#D55E00", "none": "#000000", "other": "#009E73"}
SETUP = f"""STS-Benchmark: n dev pairs, scores 0 to 5
guess model: linear head on [|u − v|, u∘v, cos(u, v)] of frozen sentence vectors, Adam 1e-3, squared error,
    10 epochs, batches of 8, on the training pairs but {POOL}
for each dev pair and condition:
    prompt = instruction, k scored pairs drawn from those {POOL}, the pair; "Initial guess: g" before every "Score:"
    answer = Σ s p(s) / Σ p(s) over the tokens s = 0 … 5 that may follow "Score:"
measures against people's scores: Pearson, Spearman, squared error; 95 % intervals from 1000 resamples of the pairs"""


@lru_cache(maxsize=1)
def experiment_of(options: Options, folder: Path) -> Experiment:
    return Experiment(options, folder)


def answers(lab: Lab, name: str, conditions: Sequence[str], shot_counts: Sequence[int]) -> xr.Dataset:
    """Answers under these conditions and numbers of shots, from the store or from the language model."""
    if not isinstance(lab.options, Options):
        raise IclearnError("xie2025-llm needs options: --stsb DIR, and --model, --pairs, --shots if you like")
    remembered = lab.root / "experiment.json"
    experiment = None if lab.offline else experiment_of(lab.options, lab.root / "llm")
    if experiment is None:
        parameters = read_json(remembered, {})
        if not parameters:
            raise IclearnError(f"{remembered} is not there: reproduce once without --draw-only")
    else:
        parameters = experiment.parameters()
        write_json(remembered, parameters)

    def compute() -> xr.Dataset:
        assert experiment is not None
        return experiment.run(list(lab.seeds), [condition(c) for c in conditions], shot_counts, lab.say)

    wanted = {"conditions": list(conditions), "shots": list(shot_counts), "seeds": lab.num_seeds}
    data = lab.dataset(name, parameters | wanted, compute)
    note(lab, parameters, data)
    return data


def note(lab: Lab, parameters: dict[str, Any], data: xr.Dataset) -> None:
    """Facts for the card that no recipe holds."""
    train, dev = parameters["data"]
    lab.facts.data += [
        f"STS-Benchmark, training split SHA-256 {train[:16]}, dev split {dev[:16]} (texts and scores)",
        f"model {parameters['model']}; guess features {parameters['features']}",
    ]
    lab.facts.splits.append(
        f"guess model: {ROWS['train'] - POOL} training pairs; shots: the other {POOL}; "
        f"scored: {parameters['pairs']} of the {ROWS['dev']} dev pairs, drawn once; the test split is not used"
    )
    if data.attrs.get("device") and data.attrs["device"] not in lab.facts.devices:
        lab.facts.devices.append(data.attrs["device"])


class View:
    """One condition at one number of shots: arrays with seeds first and pairs last."""

    def __init__(self, data: xr.Dataset, name: str, shots: int | None = None) -> None:
        part = data.sel(condition=name)
        part = part.isel(shots=0) if shots is None else part.sel(shots=shots)
        self.answer, self.mark = part["answer"].values, part["mark"].values
        self.guess = part["guess"].values
        self.score = np.broadcast_to(data["score"].values, self.answer.shape)

    def measure(self, metric: str) -> Interval:
        return bootstrap(METRICS[metric], self.answer, self.score)

    def guess_alone(self, metric: str) -> Interval:
        return bootstrap(METRICS[metric], self.guess, self.score)


def gain(metric: str, better: np.ndarray, worse: np.ndarray, score: np.ndarray) -> Interval:
    """How much better one set of answers is than another on the same pairs; positive is better for every metric."""
    sign = -1.0 if metric == "mse" else 1.0
    function = METRICS[metric]
    return bootstrap(lambda a, b, s: sign * (function(a, s) - function(b, s)), better, worse, score)


def judge_gain(
    better: np.ndarray, worse: np.ndarray, score: np.ndarray, metrics: Sequence[str] = tuple(METRICS)
) -> Outcome:
    """Whether answers improve on these measures: on all of them, or the claim is not reproduced."""
    found = {f"gain in {metric}": gain(metric, better, worse, score) for metric in metrics}
    return judge_all(found, len(score))


def judge_all(found: dict[str, Interval], seeds: int) -> Outcome:
    """Reproduced when every interval is above zero, contradicted when every one is below, inconclusive otherwise."""
    if not found:
        return Outcome(found, "failed", seeds)
    signs = {interval.sign for interval in found.values()}
    word: Word = "reproduced" if signs == {1} else "contradicted" if signs == {-1} else "inconclusive"
    return Outcome({f"{what} [95 %]": interval.rounded() for what, interval in found.items()}, word, seeds)


def about_the_paper(outcome: Outcome, data: xr.Dataset) -> Outcome:
    """The paper's statement is about two models: another one can bear it out, not contradict it."""
    name = str(data.attrs.get("model", "")).lower()
    if outcome.verdict == "contradicted" and not any(model in name for model in PAPER_MODELS):
        return Outcome({**outcome.measured, "model": "not one of the paper's"}, "inconclusive", outcome.seeds)
    return outcome


def judge_positive(interval: Interval, what: str, seeds: int) -> Outcome:
    """Reproduced when the whole interval is above zero, contradicted when it is below, else inconclusive."""
    if not np.isfinite(interval.value):
        return Outcome({what: "undefined: one side is constant"}, "inconclusive", seeds)
    word: Word = ("inconclusive", "reproduced", "contradicted")[interval.sign]
    return Outcome({f"{what} [95 %]": interval.rounded()}, word, seeds)


def error_bars(axes: Any, x: Any, intervals: Sequence[Interval], *, horizontal: bool = False, **style: Any) -> None:
    """Points with their intervals; undefined ones are left out."""
    kept = [(place, i) for place, i in zip(x, intervals, strict=True) if np.isfinite(i.value)]
    if not kept:
        return
    places, shown = zip(*kept, strict=True)
    values = np.array([i.value for i in shown])
    reach = np.abs(np.array([[i.low, i.high] for i in shown]).T - values)
    style = {"capsize": 3, "ls": "", **style}
    if horizontal:
        axes.errorbar(values, places, xerr=reach, **style)
    else:
        axes.errorbar(places, values, yerr=reach, **style)


def model_title(data: xr.Dataset) -> str:
    """The model's name and how many pairs it scored, for the top of a figure."""
    name = str(data.attrs.get("model", "")).split(" ")[0].removesuffix(".gguf")
    seeds = f", {data.sizes['seed']} seeds" if data.sizes["seed"] > 1 else ""
    return f"{name}, {data.sizes['pair']} pairs{seeds}"
