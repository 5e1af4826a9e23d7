"""What the figures of xie2025-llm share: options, stored answers, measures with intervals, and how claims are judged."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core.checks import check_literals
from ...core.errors import IclearnError
from ...llm.conditions import QUALITIES
from ...llm.experiment import FIT, POOL, Examples, Experiment
from ...llm.metrics import METRICS, Interval, bootstrap, combination
from ...llm.stsb import ROWS
from ..base import Claim, Counterexample, Data, Outcome, PaperOptions, Source, Word
from ..collect import read_json, write_json
from ..lab import Lab

if TYPE_CHECKING:
    import xarray as xr

EXCLUDES_ZERO = "95 % intervals exclude 0, on every model with unaided skill"
RESAMPLED = "percentile intervals of 1000 resamples of draws and pairs, the same on both sides of a difference"
SKILL = 0.3
COLORS = ("#D55E00", "#000000", "#009E73", "#0072B2", "#CC79A7", "#56B4E9", "#E69F00")  # guess, none, best, models
SETUP = f"""STS-Benchmark: n pairs of the split named, scores 0 to 5
guess models: linear heads on [|u − v|, u∘v, cos(u, v)] of frozen sentence vectors (static embeddings; gte-small), Adam
    1e-3, squared error, 10 epochs, batches of 8, on the training pairs but {POOL}
for each pair and condition, in each draw (of examples, guess models, noise and random numbers):
    prompt = instruction, k scored pairs drawn from those {POOL}, the pair; "Initial guess: g" before every "Score:"
    answer = Σ s p(s) / Σ p(s) over the tokens s = 0 … 5 that may follow "Score:"
measures against people's scores: Pearson, Spearman, squared error; 95 % intervals over draws and pairs
a model has unaided skill where, without a guess, the interval of Pearson lies above {SKILL} and the squared error is below
    that of the training mean; models without it are shown and decide nothing
best combination: a + b·guess + c·unaided answer, fitted on as many other development pairs, at most {FIT}"""
PRESETS: dict[str, dict[str, Any]] = {
    "quick": {"pairs": 100, "examples": "shared"},
    "paper": {"models": "qwen2.5-7b", "split": "test"},
    "full": {"models": "qwen2.5-coder-1.5b,qwen2.5-coder-0.5b,smollm2-135m", "split": "test", "gte": True},
}


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce xie2025-llm` is given.

    Args:
        stsb: folder of the original STS-Benchmark files, or a hub id.
        preset: ``quick`` (100 development pairs, shared examples), ``paper`` (one of the paper's models, all test
            pairs), ``full`` (three models, all test pairs, two guess models, 3 seeds).
        models: one or several, with commas: names of `iclearn llm fetch`, llama3.1-8b, qwen2.5-7b, GGUF files, folders
            saved by transformers, hub ids, or URLs of servers.
        split: whose pairs are scored.
        pairs: how many of them, drawn once, the same for every condition and model. 0: all of them (of the development
            split all but 400, on which combinations are fitted).
        shots: scored examples in a prompt.
        examples: fresh ones for each pair, as in the paper, or shared by all (one prefix, computed once).
        gte: a second guess model, on the features of gte-small (`iclearn llm fetch gte-small`).
        read: answers as the expectation over the scale's tokens, or parsed from text.
        backend: what runs a model on this machine.
        dtype: precision of a model that torch runs; auto is bfloat16 on a GPU and float32 elsewhere.
        server_model: the model's name on a server.
        device: where a model on this machine runs.

    >>> Options.of({"stsb": "stsb", "preset": "quick", "shots": None}).pairs
    100
    """

    stsb: str
    preset: Literal["quick", "paper", "full"] | None = None
    models: str = "qwen2.5-coder-1.5b"
    split: Literal["dev", "test"] = "dev"
    pairs: int = 0
    shots: int = 10
    examples: Examples = "fresh"
    gte: bool = False
    read: Literal["scale", "text"] = "scale"
    backend: Literal["auto", "torch", "llama.cpp"] = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    server_model: str | None = None
    device: Literal["auto", "cpu", "gpu"] = "auto"

    def __post_init__(self) -> None:
        check_literals(Options, vars(self))
        if self.pairs and self.pairs < 3:
            raise IclearnError(f"--pairs must be at least 3, or 0 for all, not {self.pairs}")
        if not 0 <= self.shots <= POOL // 2:
            raise IclearnError(f"--shots must be from 0 to {POOL // 2} (of {POOL} pairs), not {self.shots}")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Options from a table in which None means not given; those of the preset are taken where others are not."""
        if given.get("stsb") is None:
            where = "--stsb DIR, the folder with sts-train.csv and the other splits, or a hub id"
            raise IclearnError(f"name the STS-Benchmark: {where} such as mteb/stsbenchmark-sts")
        known = {field.name for field in fields(cls)}
        told = {name: value for name, value in given.items() if name in known and value is not None}
        return cls(**{**PRESETS.get(str(told.get("preset")), {}), **told})

    @property
    def usual_seeds(self) -> int | None:
        """Three draws in the preset ``full``, else one."""
        return 3 if self.preset == "full" else None

    @property
    def names(self) -> list[str]:
        """The models."""
        return [name.strip() for name in self.models.split(",") if name.strip()]

    @property
    def qualities(self) -> list[str]:
        """The guesses that are better or worse: of one trained guess model or two, and the true score."""
        return [source for source in QUALITIES if source != "gte" or self.gte]


@functools.lru_cache(maxsize=1)
def experiment_of(options: Options, folder: Path) -> Experiment:
    return Experiment(
        options.stsb, folder, split=options.split, pairs=options.pairs or None, examples=options.examples,
        read=options.read, backend=options.backend, dtype=options.dtype, device=options.device,
        server_model=options.server_model,
    )  # fmt: skip


def options_of(lab: Lab) -> Options:
    if not isinstance(lab.options, Options):
        raise IclearnError("xie2025-llm needs options: --stsb DIR, and --models, --pairs, --shots if you like")
    return lab.options


def answers(lab: Lab, name: str, conditions: Sequence[str], **wanted: Any) -> Data:
    """The answers of every model under these conditions, from the store or from the model.

    Args:
        lab: where they are kept.
        name: of the datasets.
        conditions: ways to give a guess.
        wanted: ``shots``, ``wordings`` and ``fit`` of `Experiment.run`.

    Returns:
        Model → its answers.
    """
    options = options_of(lab)
    remembered = lab.root / "experiment.json"
    experiment = None if lab.offline else experiment_of(options, lab.root / "llm")
    known = read_json(remembered, {})
    sources = [source for source in options.qualities if source != "oracle"]
    found: Data = {}
    for model in options.names:
        if experiment is not None:
            known[model] = experiment.parameters(model, sources)
            write_json(remembered, known)
        elif model not in known:
            raise IclearnError(f"{remembered} knows nothing of {model}: reproduce once without --draw-only")
        run = functools.partial(experiment.run, model) if experiment is not None else None
        keys = {"conditions": list(conditions), "seeds": lab.num_seeds, **wanted}

        def compute(run: Any = run) -> xr.Dataset:
            return run(list(lab.seeds), conditions, say=lab.say, **wanted)

        data = lab.dataset(f"{name}-{title_of(model)}", known[model] | keys, compute)
        note(lab, known[model], data)
        found[model] = Answers(title_of(model), data.assign_attrs(shots=options.shots))
    return found


def note(lab: Lab, parameters: dict[str, Any], data: xr.Dataset) -> None:
    """Facts for the card that no recipe holds."""
    digests = ", ".join(f"{name} split SHA-256 {digest[:16]}" for name, digest in parameters["data"].items())
    facts = [
        f"STS-Benchmark, {digests} (texts and scores)", f"model {parameters['model']}",
        *(f"guess features {identity}" for identity in parameters["features"].values()),
    ]  # fmt: skip
    lab.facts.data += [fact for fact in facts if fact not in lab.facts.data]
    split = (
        f"guess models: {ROWS['train'] - POOL} training pairs; examples: the other {POOL}; scored: "
        f"{parameters['pairs']} of the {ROWS[parameters['split']]} {parameters['split']} pairs, drawn once"
    )
    if split not in lab.facts.splits:
        lab.facts.splits.append(split)
    if data.attrs.get("device") and data.attrs["device"] not in lab.facts.devices:
        lab.facts.devices.append(data.attrs["device"])


class View:
    """The answers of a model under one condition: arrays with draws first and pairs last."""

    def __init__(self, data: xr.Dataset, name: str, shots: int, wording: str) -> None:
        part = data.sel(condition=name, shots=shots, wording=wording)
        self.answer, self.mark = part["answer"].values, part["mark"].values
        self.guess = data["guess"].sel(condition=name).values
        self.score = np.broadcast_to(data["score"].values, self.answer.shape)

    def measure(self, metric: str) -> Interval:
        return bootstrap(METRICS[metric], self.answer, self.score)

    def guess_alone(self, metric: str) -> Interval:
        return bootstrap(METRICS[metric], self.guess, self.score)


class Answers:
    """The answers of one model; where shots and wording are not named, the usual ones."""

    def __init__(self, name: str, data: xr.Dataset) -> None:
        self.name, self.data = name, data

    def __call__(self, condition: str, *, shots: int | None = None, wording: str = "plain") -> View:
        return View(self.data, condition, int(self.data.attrs["shots"]) if shots is None else shots, wording)

    @property
    def conditions(self) -> list[str]:
        return [str(name) for name in self.data["condition"].values]

    def combined(self, condition: str) -> np.ndarray:
        """The best combination of a guess and the unaided answer, (draw, pair)."""
        fit = self.data["fit_guess"].sel(condition=condition).values
        own = self.data["fit_answer"].values, self.data["fit_score"].values
        return combination(self(condition).guess, self("none").answer, fit, *own)

    @cached_property
    def capable(self) -> bool:
        """Whether it has unaided skill."""
        alone = self("none")
        constant = ((self.data["mean"].values[:, None] - alone.score) ** 2).mean()
        return bool(alone.measure("pearson").low > SKILL and alone.measure("mse").value < constant)

    @property
    def title(self) -> str:
        """As figures name it."""
        return self.name if self.capable else f"{self.name} (no unaided skill)"


def title_of(model: str) -> str:
    """A model's name as figures show it.

    >>> title_of("some/where/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf")
    'qwen2.5-coder-1.5b-instruct-q4_k_m'
    """
    return model.rstrip("/").rpartition("/")[2].removesuffix(".gguf")


Found = dict[str, Interval]


def each_model(found: Callable[[Answers], Found]) -> Callable[[Data], Outcome]:
    """A judge from a function that lists, for one model, what has to be above zero.

    The claim is reproduced where every interval of every model with unaided skill is above zero, contradicted where
    every one of each is below, and inconclusive otherwise. Models without skill are shown and not counted.
    """

    @functools.wraps(found)
    def judge(data: Data) -> Outcome:
        measured: dict[str, Any] = {}
        words: list[Word] = []
        for model in data.values():
            intervals = found(model)
            measured[model.title] = {f"{what} [95 %]": interval.rounded() for what, interval in intervals.items()}
            signs = {interval.sign for interval in intervals.values()}
            if model.capable:
                words.append("reproduced" if signs == {1} else "contradicted" if signs == {-1} else "inconclusive")
        seeds = min(int(model.data.sizes["seed"]) for model in data.values())
        return Outcome(measured, words[0] if len(set(words)) == 1 else "inconclusive", seeds)

    return judge


def claim(
    statement: str, expected: str, found: Callable[[Answers], Found], *refused: Counterexample, source: Source = "ours",
    why: str = "", holds: bool = True, before: bool = True,
) -> Claim:  # fmt: skip
    """A claim that asks intervals of every model to lie above zero; it is called as the function that finds them."""
    reason = f"{why}; {RESAMPLED}" if why else RESAMPLED
    return Claim(
        found.__name__, statement, expected, EXCLUDES_ZERO, each_model(found), reason, source, before, refused, holds
    )


def gain(metric: str, better: np.ndarray, worse: np.ndarray, score: np.ndarray) -> Interval:
    """How much better one set of answers is than another on the same pairs; positive is better for every metric."""
    sign = -1.0 if metric == "mse" else 1.0
    function = METRICS[metric]
    return bootstrap(lambda a, b, s: sign * (function(a, s) - function(b, s)), better, worse, score)


def gains(better: np.ndarray, worse: np.ndarray, score: np.ndarray, metrics: Sequence[str] = tuple(METRICS)) -> Found:
    """Gains on several measures: a claim of an improvement needs all of them."""
    return {f"gain in {metric}": gain(metric, better, worse, score) for metric in metrics}


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


def heading(data: Data) -> str:
    """How much was scored, for the top of a figure."""
    first = next(iter(data.values())).data
    draws = int(first.sizes["seed"])
    return f"{first.sizes['pair']} {first.attrs.get('split', '')} pairs, {draws} {'draw' if draws == 1 else 'draws'}"
