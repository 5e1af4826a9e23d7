"""The out-of-distribution matrix: every predictor on the same prompts of every shift, position by position."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from ..core import interrupts, notebook
from ..core.checks import check_int, check_type, literals_checked, require
from ..core.errors import IclearnError
from ..core.forms import as_array
from ..core.model import AbstractModel
from ..core.processes import usable_cores
from ..core.provenance import numerics
from ..core.status import Status
from ..core.task import AbstractTask
from ..core.threads import side_by_side
from ..core.trace import Trace
from ..tasks.function_class import FunctionClass
from ..tasks.function_points import Points
from ..tasks.prompt_shifts import Shift
from .asking import TURNS, Effort, answers, check_reads
from .baselines import BASELINES, Cost, Named, fitting, read_baseline
from .cell_bands import Resampler, filled_dimensions, mean_exists, references_differ
from .laws import EvaluationLaw, law_of_task
from .shift_words import STANDARD, AskedShifts, is_none, read_shifts
from .stored_matrix import Matrix

KNOWS, TRAINED, PLAIN = "bayes_shifted", "bayes_training", "least_squares"
Target = Literal["shown", "clean"]
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Entry:
    """One predictor of a matrix.

    Args:
        label: its name there.
        kind: ``run``, ``reference`` or ``predictor``.
        model: for a shift; None where there is none.
        cost: see `Baseline`.
        inverts: for a shift, whether it solves without a penalty.
        positions: that it is asked (None: as its cost says).
    """

    label: str
    kind: str
    model: Callable[[Shift | None], AbstractModel | None]
    cost: Cost = "quick"
    inverts: Callable[[Shift | None], bool] = lambda shift: False
    positions: tuple[int, ...] | None = None


@literals_checked
def evaluate(
    runs: Sequence[Trace] | Trace = (), predictors: Sequence[str] | None = None, *,
    models: Mapping[str, AbstractModel] | None = None, shifts: Sequence[str | Shift] = ("all",),
    task: AbstractTask | None = None, num_prompts: int = 1280, seed: int = 0, target: Target | None = None,
    step: int | None = None, contexts: Sequence[int] | None = None, exact: bool = False, slow_prompts: int = 128,
    trials: int = 1000, level: float = 0.9, progress: Progress | bool | None = None,
) -> Matrix:  # fmt: skip
    """The errors of trained runs and in-context algorithms under shifts of the law of prompts, on the same prompts.

    Least squares and, for linear functions, two Bayes predictors are always there: ``bayes_shifted`` knows the law
    of the shifted labels, ``bayes_training`` that of training alone. A model that follows the first has learned an
    algorithm, one that follows the second its prior.

    Args:
        runs: stored or new; any model that reads pairs of inputs and labels.
        predictors: names with or without numbers, ``["ridge=0.5", "lad"]`` (None: all usual ones).
        models: name → other models.
        shifts: groups, names, amounts or `Shift`: see `shifts_named`.
        task: whose law is shifted (None: that the first run was trained on). Of a task that is no class of functions,
            such as one of your own, the query of every prompt is asked, without shifts.
        num_prompts: of every shift.
        seed: of the prompts and the resampling.
        target: errors are measured against labels as ``shown``, with noise, or ``clean`` (None: as the task says).
        step: of training, whose weights the runs have (None: the last).
        contexts: positions asked of runs and models that do not answer all in one pass (None: all).
        exact: ask predictors that take long everything.
        slow_prompts: prompts for those that take long; see `Effort`.
        trials: resamples of the bands.
        level: of the bands.
        progress: True, or a function that is called with (done, all) pairs of predictor and shift. Default: a bar in a
            notebook, else nothing.

    Returns:
        The matrix. What its errors are divided by is in ``data["error"].attrs["normalizer"]``.

    >>> law = FunctionClass(dim=2, context_len=4)
    >>> found = evaluate((), ["averaging"], task=law, shifts=["scale_x=2"], num_prompts=64)
    >>> found.data["error"].dims, found.predictors
    (('shift', 'predictor', 'position'), ('least_squares', 'bayes_shifted', 'bayes_training', 'averaging'))
    >>> round(float(found.data["error"].sel(shift="scale_x=2", predictor="least_squares", position=2)), 12)
    0.0
    """
    check_int("num_prompts", num_prompts, 2)
    check_int("slow_prompts", slow_prompts, 2)
    check_int("trials", trials, 20)
    runs = [runs] if isinstance(runs, Trace) else list(runs)
    names = _names(runs)
    require(runs or task is not None, "an evaluation without a run needs a task: task=FunctionClass(…)")
    if task is None:
        law = law_of_task(runs[0].recipe.task, runs[0].recipe.seed, f"run {names[0]}")
    else:
        check_type("the task", task, AbstractTask, "task=FunctionClass(…)")
        law = EvaluationLaw(task) if isinstance(task, FunctionClass) else law_of_task(task, seed, "the task")
    own = "" if law.own is None else law.own.kind
    if target is not None:
        require(not own, f"the labels of {own} are measured against as they are shown: leave out target")
        law = replace(law, task=law.task.replace(target=target))
    asked = read_shifts([shifts] if isinstance(shifts, str | Shift) else shifts, law.task, own)
    points = law.task.context_len + 1
    last = points - 1
    if contexts is not None:
        bad = [i for i in contexts if not 0 <= i <= last]
        require(not bad, f"context lengths lie between 0 and {last}, unlike {bad}")
    trained = {name: _model_of(trace, name, law.task, step) for name, trace in zip(names, runs, strict=True)}
    entries = _entries(law, trained | dict(models or {}), predictors, contexts)
    dim = law.task.dim
    few = {last} if own else {min(i, last) for i in (1, dim // 2, dim, 2 * dim, last)}
    effort = Effort(exact, slow_prompts, tuple(sorted(few)))
    found = _Answers(law, asked, entries, effort, num_prompts, seed)
    found.compute(notebook.runs_bar(progress, "pairs of predictor and shift"))
    facts = {
        "law": law.describe(), "task": (law.own or law.task).to_dict(), "normalizer": law.normalizer,
        "covariance": None if law.covariance is None else law.covariance.tolist(), "seed": seed, "dim": dim,
        "target": law.task.target, "num_prompts": num_prompts, "exact": exact, "slow_prompts": slow_prompts,
        "level": level, "trials": trials, "points": points,
        "metric": "misclassified" if law.task.functions.signs else "squared error",
        "runs": {name: _about(trace, step) for name, trace in zip(names, runs, strict=True)},
        "refused": found.refused, "left_out": asked.left_out, "few": list(effort.few), "step": step,
    }  # fmt: skip
    data = found.dataset(Resampler(trials, level, seed))
    return Matrix(data.assign_attrs(facts=json.dumps(facts, sort_keys=True), numerics=numerics()))


def _names(runs: Sequence[Trace]) -> list[str]:
    labels = [trace.run_id for trace in runs]
    require(len(set(labels)) == len(labels), f"each run is evaluated once, and {', '.join(labels)} were given")
    return labels


def _about(trace: Trace, step: int | None) -> dict[str, Any]:
    at = int(trace.data["record"].values[trace.nearest_record(step)])
    return {"recipe": trace.provenance["recipe"], "hash": trace.provenance["recipe_hash"], "step": at,
            "model": trace.recipe.model.describe(), "task": trace.recipe.task.describe()}  # fmt: skip


def _model_of(trace: Trace, name: str, task: FunctionClass, step: int | None) -> AbstractModel:
    if trace.status is Status.DIVERGED:
        raise IclearnError(f"run {name} diverged: it is no evidence of anything, and it is not evaluated")
    own = trace.recipe.task
    if own.dim != task.dim:
        text = f"run {name} has inputs of dimension {own.dim}, and the prompts have {task.dim}"
        raise IclearnError(f"{text}: evaluate it alone, or with runs of its dimension")
    if own.out_dim != 1:
        raise IclearnError(f"run {name} answers {own.out_dim} numbers a prompt, and one is asked for")
    model = trace.model(step)
    check_reads(model, f"run {name}", task.dim)
    return model


def _entries(
    law: EvaluationLaw,
    models: Mapping[str, AbstractModel],
    predictors: Sequence[str] | None,
    contexts: Sequence[int] | None,
) -> list[Entry]:
    """Runs and models first, then the references, then the other predictors."""
    task = law.task
    limited = None if contexts is None else tuple(sorted(set(contexts)))
    found = []
    for label, model in models.items():
        require(label not in BASELINES, f"{label} is the name of a predictor: give the model another one")
        check_reads(model, label, task.dim)
        found.append(Entry(label, "run", lambda shift, m=model: m, positions=None if model.one_pass else limited))
    own = "" if law.own is None else law.own.kind
    named = fitting([read_baseline(word) for word in predictors or ()], task, own) if predictors != () else []
    plain = Named(BASELINES[PLAIN], None)
    found.append(_entry(plain, task, "reference"))
    if law.bayes() is not None:
        exactly = law.task.noise == 0  # Bayes without noise is least squares
        found.append(Entry(KNOWS, "reference", law.bayes, inverts=lambda shift: _noise(law, shift) == 0))
        found.append(Entry(TRAINED, "reference", lambda shift: law.bayes(), inverts=lambda shift: exactly))
    return [*found, *(_entry(one, task, "predictor") for one in named if one.label != PLAIN)]


def _noise(law: EvaluationLaw, shift: Shift | None) -> float:
    bayes = law.bayes(shift)
    return 1.0 if bayes is None else float(bayes.noise)


def _entry(named: Named, task: FunctionClass, kind: str) -> Entry:
    one, model = named.baseline, named.model(task)

    def inverts(shift: Shift | None) -> bool:
        steps = (named.amount or 0.0) if one.solves_in_steps else 0.0
        return one.inverts or steps >= max(filled_dimensions(task, shift) - 1, 1)

    return Entry(named.label, kind, lambda shift: model, one.cost, inverts)


class _Answers:
    """The answers of all entries to the prompts of all shifts."""

    def __init__(
        self, law: EvaluationLaw, asked: AskedShifts, entries: list[Entry], effort: Effort, prompts: int, seed: int
    ) -> None:
        self.law, self.asked, self.entries, self.effort = law, asked, entries, effort
        self.prompts, self.seed = prompts, seed
        self.refused: dict[str, str] = {}
        self.same = {label: STANDARD if is_none(s, law.task) else label for label, s in asked.shifts.items()}
        self.points: dict[str, Points] = {}
        self.found: dict[tuple[str, str], np.ndarray] = {}

    def compute(self, progress: Progress | None) -> None:
        """Draw the prompts and ask every entry; entries side by side, so that each is compiled once."""
        distinct = list(dict.fromkeys(self.same.values()))
        done, total = [0], len(distinct) * len(self.entries)
        with ThreadPoolExecutor(max(1, usable_cores())) as pool:
            parts = [distinct[i :: usable_cores()] for i in range(usable_cores())]
            for drawn in pool.map(self._draw, [part for part in parts if part]):
                self.points |= drawn

            def one(entry: Entry) -> None:
                for label in distinct:
                    interrupts.check()
                    self._ask(entry, label)
                    done[0] += 1
                    if progress is not None:
                        progress(done[0], total)

            list(pool.map(one, _turn_by_turn(self.entries)))

    def _draw(self, labels: Sequence[str]) -> dict[str, Points]:
        """The prompts of several shifts, by one program: what they have in common is drawn and compiled once."""

        def draw(seed: Array) -> list[Points]:
            drawn = [self.law.points(self.asked.shifts[label], self.prompts, seed) for label in labels]
            return [replace(one, parameters={}) for one in drawn]  # of networks and trees they are large, and not asked

        jitted: Any = eqx.filter_jit(draw)
        program = jitted.lower(as_array(self.seed)).compile()
        with TURNS.taken(alone=True):
            return dict(zip(labels, jax.block_until_ready(program(as_array(self.seed))), strict=True))

    def _ask(self, entry: Entry, label: str) -> None:
        shift, points = self.asked.shifts[label], self.points[label]
        model = entry.model(shift)
        if model is None:
            self.refused[f"{entry.label} on {label}"] = "no closed form: labels are not Gaussian given the inputs"
            return
        length, usual = points.x.shape[1], self.law.task.context_len + 1
        count, where = self.effort.asked(entry.cost, self.prompts, length, usual)
        where = entry.positions if where is None else where
        where = where if self.law.own is None else (length - 1,)  # shorter prefixes are no prompts of the task
        longest = max(other.x.shape[1] for other in self.points.values())
        room = longest if length > usual and entry.kind != "run" else length  # runs say themselves what they can read
        try:
            self.found[label, entry.label] = answers(model, points, count, where, room)
        except IclearnError as error:
            self.refused[f"{entry.label} on {label}"] = str(error)

    def dataset(self, resampler: Resampler) -> Any:
        """Errors, differences and distances as a labeled dataset."""
        import xarray as xr

        from .cell_tables import empty_tables, fill_tables, label_tables

        shifts = list(self.asked.shifts)
        most = max(points.x.shape[1] for points in self.points.values())
        labels = [entry.label for entry in self.entries]
        references = [entry.label for entry in self.entries if entry.kind == "reference"]
        tables = empty_tables(len(shifts), len(labels), len(references), most)

        def fill(row: int) -> None:
            label = shifts[row]
            shift, source = self.asked.shifts[label], self.same[label]
            points = self.points[source]
            length = points.x.shape[1]
            exists = {e.label: mean_exists(self.law.task, shift, e.inverts(shift), length) for e in self.entries}
            here = {e: found for (where, e), found in self.found.items() if where == source}
            targets = np.asarray(points.targets(self.law.task.target == "clean"))[..., 0]
            scale = None if self.law.task.functions.signs else self.law.normalizer
            fill_tables(
                tables, row, labels, references, here, targets, scale, exists, asked_positions(shift, self.law.task),
                resampler, (KNOWS, TRAINED),
            )  # fmt: skip

        side_by_side(fill, range(len(shifts)))
        values = list(self.asked.shifts.values())
        words = lambda texts: np.array(texts, object)  # noqa: E731  # Zarr has no words of fixed length
        coords = {
            "shift": words(shifts), "predictor": words(labels), "reference": words(references),
            "position": np.arange(most),
            "shift_name": ("shift", words([STANDARD if s is None else s.name for s in values])),
            "amount": ("shift", [np.nan if s is None or s.amount is None else s.size for s in values]),
            "kind": ("predictor", words([entry.kind for entry in self.entries])),
            "references_differ": ("shift", [references_differ(self.law.task, s) for s in values]),
        }  # fmt: skip
        data = xr.Dataset(tables, coords)
        label_tables(data, None if self.law.task.functions.signs else self.law.normalizer, resampler.level)
        return data


def _turn_by_turn(entries: Sequence[Entry]) -> list[Entry]:
    """What takes long and what does not in turn: many quick ones solve systems, and while they do others compile."""
    order = {"slow": 0, "costly": 1, "quick": 2}
    long = sorted(
        (e for e in entries if e.kind == "run" or e.cost != "quick"), key=lambda e: (e.kind != "run", order[e.cost])
    )
    quick = [e for e in entries if e not in long]
    return [e for pair in itertools.zip_longest(long, quick) for e in pair if e is not None]


def asked_positions(shift: Shift | None, task: FunctionClass) -> slice:
    """The positions that have a query under a shift: nothing is orthogonal to d pairs, and none overlaps with none."""
    if shift is not None and shift.name == "orthogonal_train_test":
        return slice(0, task.dim)
    return slice(1, None) if shift is not None and shift.name == "overlapping_train_test" else slice(None)
