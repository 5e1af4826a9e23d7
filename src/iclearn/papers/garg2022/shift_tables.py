"""Networks trained on linear functions, on paired prompts of every shift, beside the algorithms: one stored table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ...core.status import Status
from ...core.trace import Trace
from ...models.predictors import Averaging, Bayes, LeastSquares, NearestNeighbors
from ...tasks.prompt_shifts import Shift, garg_shifts
from ...theory.functions import linear_law
from ..base import Data
from ..lab import Lab, on_accelerator
from .paired_prompts import (
    PromptRows,
    Row,
    algorithm_answers,
    drawn_rows,
    network_answers,
    row_answers,
    spread,
)
from .setup import NOISE, TRAINED, Options, Preset, recipe_of, task_of

STANDARD, TRAINING_LAW = "standard", "training law"
REFERENCES = ("least squares", "averaging", "3-NN")
BAYES = ("training", "shifted")
OWN_SHIFTS = (
    Shift("prior_mean", 1.0), Shift("prior_mean", 2.0), Shift("noise", 0.5), Shift("condition_number", 100.0),
    Shift("input_mean", 1.0),
)  # fmt: skip
PRIOR_SHIFTS = (
    Shift("prior_scale", 0.5),
    Shift("prior_scale", 2.0),
    Shift("prior_scale", 3.0),
    Shift("prior_mean", 1.0),
)
NOISY_DRAWS = 3  # evaluations of the training law of networks trained with noise


class Plan(NamedTuple):
    """Which evaluations there are, in the order of the prompts.

    Args:
        rows: the evaluations.
        labels: of each; several rows of one label are taken together.
        noisy: whether each is for networks trained with noise.
    """

    rows: list[Row]
    labels: list[str]
    noisy: list[bool]

    def at(self, label: str, noisy: bool) -> list[int]:
        """The rows of a label."""
        return [i for i, one in enumerate(self.labels) if one == label and self.noisy[i] == noisy]

    def names(self, noisy: bool) -> list[str]:
        """The labels of one kind, each once."""
        return list(dict.fromkeys(name for name, kind in zip(self.labels, self.noisy, strict=True) if kind == noisy))


def plan_of(preset: Preset) -> Plan:
    """The 14 shifts of the paper, opposite quadrants and ours; and other priors for networks trained with noise."""
    clean, noisy = task_of(preset.linear), task_of(preset.linear, NOISE)
    entries = [(STANDARD, Row(clean, draw=draw), False) for draw in range(preset.standard)]
    shifts = sorted((*garg_shifts(), *OWN_SHIFTS), key=lambda shift: Row(clean, shift).separate)
    plain = [(shift.label, Row(clean, shift), False) for shift in shifts]
    if preset.noisy:
        entries += [(TRAINING_LAW, Row(noisy, clean=True, draw=draw), True) for draw in range(NOISY_DRAWS)]
        entries += [(shift.label, Row(noisy, shift, clean=True), True) for shift in PRIOR_SHIFTS]
    labels, rows, kinds = zip(*entries, *plain, strict=True)
    return Plan(list(rows), list(labels), list(kinds))


def recipes_of(preset: Preset, seeds: int) -> list[Any]:
    """All trainings on linear functions: without noise for every seed, then with noise."""
    levels = TRAINED if preset.noisy else TRAINED[:1]
    return [recipe_of(preset.linear, seed, noise) for noise in levels for seed in range(seeds)]


def last_model(trace: Trace) -> Any | None:
    """The network at the end of its training; None where it diverged."""
    return None if trace.status is Status.DIVERGED else trace.model()


def answers_or_nan(models: list[Any | None], rows: PromptRows) -> np.ndarray:
    """(network, row, prompt, point) answers; NaN for a network that diverged."""
    found = np.full((len(models), *rows.target.shape), np.nan)
    there = {i: model for i, model in enumerate(models) if model is not None}
    if there:
        found[list(there)] = network_answers(list(there.values()), rows)
    return found


def bayes_answers(preset: Preset, plan: Plan, rows: PromptRows) -> dict[str, np.ndarray]:
    """Answers of the Bayes predictors of the training law and of the shifted law to the noisy rows."""
    where = [i for i, kind in enumerate(plan.noisy) if kind]
    part = PromptRows(rows.x[where], rows.y[where], rows.query[:0], rows.target[where])
    task = task_of(preset.linear, NOISE)
    models = {"training": [linear_law(task)] * len(where)}
    models["shifted"] = [linear_law(task, plan.rows[i].shift) for i in where]
    return {
        name: row_answers([Bayes(law.mean[:, None], law.covariance, law.noise) for law in laws], part)
        for name, laws in models.items()
    }


class Answered(NamedTuple):
    """The prompts of a preset and what algorithms answer: all that needs no network.

    Args:
        plan: the evaluations.
        rows: their prompts.
        algorithms: (reference, row, prompt, point) answers of `REFERENCES`.
        bayes: name → (row, prompt, point) answers to the noisy rows; none where no network is trained with noise.
    """

    plan: Plan
    rows: PromptRows
    algorithms: np.ndarray
    bayes: dict[str, np.ndarray]


def answered(preset: Preset) -> Answered:
    """Draw the prompts of a preset and ask the algorithms, on the host."""
    plan = plan_of(preset)
    rows = drawn_rows(plan.rows, preset.prompts)
    algorithms = algorithm_answers((LeastSquares(), Averaging(), NearestNeighbors(3)), rows)
    return Answered(plan, rows, algorithms, bayes_answers(preset, plan, rows) if preset.noisy else {})


def evaluate(preset: Preset, models: list[Any | None], seeds: int, given: Answered | None = None) -> xr.Dataset:
    """Networks and algorithms on the same prompts.

    Args:
        preset: the sizes.
        models: the networks in the order of `recipes_of`; None for one that diverged.
        seeds: how many.
        given: what `answered` gave for this preset (None: it is asked).

    Returns:
        ``error`` and ``spread`` (seed, shift, position): squared error over d of networks trained without noise and its
        standard error; ``gap`` and ``gap_spread`` (seed, shift, reference, position): by how much it is above that of
        an algorithm; ``base`` and ``base_spread`` (shift, reference, position): those of the algorithms. With networks
        trained with noise also ``noisy_error``, ``noisy_spread`` (seed, law, position): excess errors; ``distance``
        (seed, law, bayes, position): squared distance of predictions over d; ``lead``, ``lead_spread`` (seed, law,
        position): by how much the Bayes predictor of the shifted law is further away than that of the training law;
        ``bayes_error``, ``bayes_spread`` (law, bayes, position); ``split``, ``split_spread`` (seed, position): error
        less Bayes error less distance, on the training law.
    """
    known = answered(preset) if given is None else given
    plan, rows = known.plan, known.rows
    networks = answers_or_nan(models, rows)
    dim = preset.linear.dim

    def together(values: np.ndarray, label: str, noisy: bool) -> np.ndarray:
        """(…, prompt, point) the rows of one label, their prompts one after the other."""
        chosen = values[..., plan.at(label, noisy), :, :]
        return chosen.reshape(*chosen.shape[:-3], -1, chosen.shape[-1])

    shifts = plan.names(False)
    errors = (networks[:seeds] - rows.target) ** 2 / dim
    others = (known.algorithms - rows.target) ** 2 / dim
    own, gaps, bases = [], [], []
    for label in shifts:
        mine, theirs = together(errors, label, False), together(others, label, False)
        own.append(spread(mine))
        gaps.append(spread(mine[:, None] - theirs[None]))
        bases.append(spread(theirs))
    variables: dict[str, Any] = {}
    for name, found, axis, over in (
        ("error", own, 1, ("seed", "shift", "position")),
        ("gap", gaps, 1, ("seed", "shift", "reference", "position")),
        ("base", bases, 0, ("shift", "reference", "position")),
    ):
        variables[name] = (over, np.stack([one.mean for one in found], axis))
        variables["spread" if name == "error" else f"{name}_spread"] = (over, np.stack([o.error for o in found], axis))
    labels: dict[str, Any] = {
        "seed": np.arange(seeds), "shift": shifts, "reference": list(REFERENCES), "position": np.arange(preset.linear.points),
    }  # fmt: skip
    if preset.noisy:
        variables |= _of_noisy(preset, known, networks[seeds:])
        labels |= {"law": plan.names(True), "bayes": list(BAYES)}
    return xr.Dataset(variables, labels)


def _of_noisy(preset: Preset, given: Answered, networks: np.ndarray) -> dict[str, Any]:
    """What `evaluate` says of networks trained with noise."""
    plan, bayes, dim = given.plan, given.bayes, preset.linear.dim
    where = [i for i, kind in enumerate(plan.noisy) if kind]
    answers, target = networks[:, where], given.rows.target[where]
    error = (answers - target) ** 2 / dim
    own = np.stack([(bayes[name] - target) ** 2 / dim for name in BAYES])
    apart = np.stack([(answers - bayes[name]) ** 2 / dim for name in BAYES])  # (bayes, seed, row, prompt, point)

    def by_law(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for label in plan.names(True):
            chosen = values[..., [where.index(i) for i in plan.at(label, True)], :, :]
            found.append(spread(chosen.reshape(*chosen.shape[:-3], -1, chosen.shape[-1])))
        return np.stack([one.mean for one in found], -2), np.stack([one.error for one in found], -2)

    base, base_spread = by_law(own)
    lead, lead_spread = by_law(apart[1] - apart[0])
    noisy, noisy_spread = by_law(error)
    split, split_spread = by_law(error - own[0] - apart[0])
    over = ("seed", "law", "position")
    return {
        "noisy_error": (over, noisy), "noisy_spread": (over, noisy_spread),
        "lead": (over, lead), "lead_spread": (over, lead_spread),
        "distance": (("bayes", *over), by_law(apart)[0]),
        "bayes_error": (("bayes", "law", "position"), base), "bayes_spread": (("bayes", "law", "position"), base_spread),
        "split": (("seed", "position"), split[:, 0]), "split_spread": (("seed", "position"), split_spread[:, 0]),
    }  # fmt: skip


def options_of(lab: Lab) -> Options:
    """The options that a lab was given, or the usual ones."""
    return lab.options if isinstance(lab.options, Options) else Options()


def linear_data(lab: Lab) -> Data:
    """What the figures on linear functions have in common: the table, and what the preset says of it.

    Args:
        lab: trains and stores; its options name the preset.

    Returns:
        ``table``, ``dim``, ``places``, ``known``, ``judged``, ``steps``.
    """
    preset = options_of(lab).sizes
    recipes = recipes_of(preset, lab.num_seeds)
    told = {"recipes": [r.hash for r in recipes], "prompts": preset.prompts, "standard": preset.standard, "version": 1}
    missing = not lab.offline and any(not lab.store.path(recipe).is_dir() for recipe in recipes)
    to_train = missing and on_accelerator()  # on a processor both would wait for the same threads
    with ThreadPoolExecutor(1) as beside:
        early = beside.submit(answered, preset) if to_train else None  # on the host, while a GPU trains
        traces = [] if lab.offline else lab.run(recipes)

    def compute() -> xr.Dataset:
        models = [last_model(trace) for trace in traces]
        return evaluate(preset, models, lab.num_seeds, None if early is None else early.result())

    table = lab.dataset("linear-functions", told, compute)
    return {
        "table": table, "dim": preset.linear.dim,
        "places": preset.linear.places, "known": preset.known, "judged": preset.judged, "steps": preset.linear.steps,
    }  # fmt: skip
