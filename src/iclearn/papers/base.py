"""Figures, claims and verdicts: what every paper is made of.

A figure collects data (stored, so that drawing and judging never simulate), draws it, and states claims. A claim says
what the paper says in our words, the number expected, the tolerance and its origin; judged, it gives a verdict.
"""

from __future__ import annotations

import functools
import hashlib
import html
import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from ..core.checks import check_literals
from ..core.errors import IclearnError
from .judging import Outcome as Outcome
from .judging import Word as Word
from .judging import judge_close as judge_close
from .judging import judge_seeds as judge_seeds
from .judging import judge_true as judge_true

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MplFigure

    from .lab import Lab

Data = Mapping[str, Any]
Source = Literal["paper", "second-hand", "other", "theory", "ours", "design"]


@dataclass(frozen=True)
class Counterexample:
    """Data under which a claim must not be reproduced.

    Args:
        name: what was perturbed, in words (``weights zero``, ``exponent 3 instead of 2``).
        perturb: from the figure's data to the perturbed data. It must leave its argument as it is.
    """

    name: str
    perturb: Callable[[Data], Data]


@dataclass(frozen=True)
class Choice:
    """One line of the register of choices: something that was decided with data in view, or tried and given up.

    Args:
        what: the setting, tolerance or rule.
        tried: what was tried, in the order of trying.
        outcome: what came out of each.
        kept: what is used now, and why.
    """

    what: str
    tried: str
    outcome: str
    kept: str


@dataclass(frozen=True)
class Claim:
    """One checkable statement.

    Args:
        statement: what the paper says, in our words.
        expected: the number or behavior expected.
        tolerance: how close is close enough.
        judge: from the figure's data to an Outcome.
        reason: why this tolerance.
        source: ``paper`` (stated in its text), ``second-hand`` (attributed to it by its abstract, its code, a review or
            notes; the text was not read, and the claim is not counted as the paper's), ``other`` (stated by another
            paper, which the statement names), ``theory`` (follows from the paper's formulas), ``ours`` (found by this
            project) or ``design`` (about a choice of ours where the paper is silent).
        before: whether statement and tolerance were fixed before data were seen; if not, the figure's register of
            choices says what was changed and what came out before.
        counterexamples: perturbed data under which the verdict is not ``reproduced``; at least one.
        holds: whether the claim should hold; a contradicted claim that should hold makes `reproduce` exit with 1.
        min_seeds: the least number of seeds at which it can be reproduced and can be contradicted; with fewer the
            verdict is ``too few seeds`` (0: a statement that does not depend on a number of seeds).
    """

    id: str
    statement: str
    expected: str
    tolerance: str
    judge: Callable[[Data], Outcome]
    reason: str = ""
    source: Source = "paper"
    before: bool = True
    counterexamples: tuple[Counterexample, ...] = ()
    holds: bool = True
    min_seeds: int = 0

    def __post_init__(self) -> None:
        check_literals(Claim, vars(self))

    @property
    def definition(self) -> str:
        """SHA-256 of what is claimed and how it is judged: another one means another claim under the same name."""
        parts = [self.statement, self.expected, self.tolerance, self.reason, self.source, source_of(self.judge)]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def judged(self, data: Data) -> Outcome:
        """The outcome; a judge that breaks is a failed claim with the reason, not a crash."""
        try:
            return self.judge(data)
        except Exception as error:
            return Outcome(f"{type(error).__name__}: {error}", "failed")

    def refusals(
        self, data: Data, *, strict: bool = True, perturbed: Callable[[Counterexample], Data] | None = None
    ) -> dict[str, Word]:
        """What the claim says of each of its counter-examples, made from this data.

        Args:
            data: the figure's data.
            strict: raise where a counter-example cannot be made from it; else it is said so, as a failed one.
            perturbed: from a counter-example to its data, where these are kept (default: they are made).
        """
        found: dict[str, Word] = {}
        for example in self.counterexamples:
            try:
                spoiled = example.perturb(data) if perturbed is None else perturbed(example)
                found[example.name] = self.judged(spoiled).verdict
            except Exception as error:
                if strict:
                    raise IclearnError(f"counter-example {example.name!r} of {self.id} breaks: {error}") from error
                found[f"{example.name} (cannot be made from this data)"] = "failed"
        return found


@dataclass(frozen=True)
class Verdict:
    """A judged claim, as `verdicts.json` lists it."""

    paper: str
    figure: str
    claim: str
    statement: str
    expected: str
    measured: Any
    tolerance: str
    reason: str
    seeds: int
    verdict: Word
    source: Source
    before: bool
    definition: str
    counterexamples: dict[str, Word]
    should_hold: bool
    min_seeds: int = 0
    planned: dict[int, Word] = field(default_factory=dict)  # verdicts at the figure's `planned` numbers of seeds

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as `verdicts.json` holds them."""
        return {name: plain(value) for name, value in asdict(self).items()}

    def _repr_html_(self) -> str:
        told = {"verdict": self.verdict, "claim": self.statement, "expected": self.expected, "measured": self.measured}
        rows = "".join(f"<tr><th>{name}</th><td>{html.escape(str(value))}</td></tr>" for name, value in told.items())
        return f"<table>{rows}</table>"


@dataclass(frozen=True)
class Figure:
    """One figure of a paper.

    Args:
        collect: gets everything the figure needs through the Lab (stored runs and stored datasets).
        draw: a matplotlib figure from that data; the style is set by the caller.
        setup: the experiment in words and pseudocode, for the reproducibility card.
        cost: what to expect, e.g. "20 s on 2 cores".
        example: small data made in seconds, on which every claim that should hold is reproduced: the counter-example
            test perturbs it.
        choices: the register of choices.
        seeds: how many it has when no number is asked for (None: as many as the paper).
        planned: numbers of seeds that were planned before today's. The claims are judged on the first so many runs
            as well, and these verdicts are shown beside; such a figure has its runs in lists, in the order of seeds.
    """

    id: str
    title: str
    collect: Callable[[Lab], Data]
    draw: Callable[[Data], MplFigure]
    claims: tuple[Claim, ...]
    setup: str
    cost: str = ""
    example: Callable[[], Data] | None = None
    choices: tuple[Choice, ...] = ()
    seeds: int | None = None
    planned: tuple[int, ...] = ()

    def judge(self, paper: str, data: Data, seeds: int | None = None) -> list[Verdict]:
        """Every claim judged, and every counter-example of it made from the same data.

        What a counter-example of several claims has perturbed is kept from the first of them to the last.

        Args:
            paper: its name.
            data: the figure's.
            seeds: of the data; a claim that needs more is not judged (None: enough for every claim).
        """
        verdicts, left = [], Counter(id(example) for claim in self.claims for example in claim.counterexamples)
        kept: dict[int, Data] = {}

        def perturbed(example: Counterexample) -> Data:
            left[id(example)] -= 1
            found = kept.pop(id(example)) if id(example) in kept else example.perturb(data)
            if left[id(example)]:
                kept[id(example)] = found
            return found

        fewer = {
            count: {name: runs[:count] if isinstance(runs, list) else runs for name, runs in data.items()}
            for count in self.planned
        }
        for claim in self.claims:
            outcome = claim.judged(data)
            few = seeds is not None and seeds < claim.min_seeds
            planned: dict[int, Word] = {
                count: "too few seeds" if count < claim.min_seeds else claim.judged(first).verdict
                for count, first in fewer.items()
                if count < outcome.seeds
            }
            verdicts.append(
                Verdict(
                    paper, self.id, claim.id, claim.statement, claim.expected, outcome.measured, claim.tolerance,
                    claim.reason, outcome.seeds, "too few seeds" if few else outcome.verdict, claim.source, claim.before,
                    claim.definition, {} if few else claim.refusals(data, strict=False, perturbed=perturbed),
                    claim.holds, claim.min_seeds, planned,
                )
            )  # fmt: skip
        return verdicts


OptionsT = TypeVar("OptionsT", bound="PaperOptions")


@dataclass(frozen=True)
class PaperOptions:
    """What one paper alone is given: subclasses have a field for every flag, with its default."""

    @property
    def usual_seeds(self) -> int | None:
        """Seeds where none are asked for (None: those of the paper)."""
        return None

    @classmethod
    def of(cls: type[OptionsT], given: Mapping[str, Any]) -> OptionsT:
        """Options from a table in which None means not given; unknown names are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known and value is not None})


@dataclass(frozen=True)
class Paper:
    """A paper: its figures in order, and how it is cited. Registered in `core.registry.PAPERS`.

    Args:
        notes: what this project found that the paper does not say.
        seeds: of a figure with random starts, when none are asked for.
        unit: what is counted as a seed.
        options: a dataclass of what this paper alone is given (`PaperOptions`): its fields are flags of ``iclearn
            reproduce``, and ``of(given)`` makes one from those that were given. None for a paper that takes no options.
        headline: from verdicts (as dicts) to one sentence that says what holds, where counts alone would mislead.
    """

    id: str
    title: str
    citation: str
    figures: tuple[Figure, ...]
    notes: str = ""
    seeds: int = 6
    unit: str = "seeds"
    options: type | None = None
    headline: Callable[[Sequence[Mapping[str, Any]]], str] | None = None

    def figure(self, name: str) -> Figure:
        for figure in self.figures:
            if figure.id == name:
                return figure
        raise IclearnError(
            f"{self.id} has no figure {name!r}; it has {', '.join(figure.id for figure in self.figures)}"
        )


def source_of(judge: Callable[..., Any]) -> str:
    """The source text of a judge, with what it was partially applied to."""
    if isinstance(judge, functools.partial):
        return f"{source_of(judge.func)}{judge.args!r}{judge.keywords!r}"
    try:
        return inspect.getsource(judge)
    except (OSError, TypeError):
        return repr(judge)


def plain(value: Any) -> Any:
    """Numbers and lists that JSON knows."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value
