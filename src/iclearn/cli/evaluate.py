"""`iclearn evaluate RUN|PREDICTOR…`: errors under shifts of the law of prompts, all on the same prompts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from ..core.errors import IclearnError
from .output import json_text
from .parsing import complain, parse

if TYPE_CHECKING:
    from ..evaluation.stored_matrix import Matrix


@dataclass(frozen=True)
class EvaluateArgs:
    """The out-of-distribution matrix of stored runs and in-context algorithms.

    Every predictor sees the same prompts of every shift. Beside them stand least squares, Bayes that knows the shift
    and Bayes of the training law. Without predictors named, all usual ones are there. `--list` says which shifts and
    predictors there are.
    """

    names: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Stored runs (their first digits are enough, or a path) and predictors (NAME or NAME=NUMBER)."""
    shifts: tuple[str, ...] = ("all",)
    """Groups (garg, sweeps, akyurek, campbell, all), names, or NAME=AMOUNT; a continuous shift alone means its grid."""
    prompts: int = 1280
    """Prompts of every shift."""
    out: Path | None = None
    """Folder for dataset, figures and page. Default: evaluated/RUN, or evaluated/predictors."""
    runs: Path = Path("runs")
    """Folder of stored runs."""
    seed: int = 0
    """Of the prompts and the resampling."""
    step: int | None = None
    """Of training, whose weights the runs have. Default: the last."""
    target: Literal["shown", "clean"] | None = None
    """Measure against labels with or without their noise. Default: as the run was trained."""
    contexts: tuple[int, ...] = ()
    """Numbers of pairs that runs without one pass for all prefixes are asked. Default: all."""
    standard: bool = False
    """Evaluate on inputs and tasks N(0, I), whatever the law of training."""
    dim: int | None = None
    """Dimension of the inputs where no run says it. Default: 5."""
    context_len: int | None = None
    """Pairs before the last query where no run says it. Default: twice the dimension."""
    noise: float | None = None
    """Variance of the noise on labels where no run says it. Default: 0."""
    exact: bool = False
    """Ask predictors that take long everything, too."""
    slow_prompts: int = 128
    """Prompts for predictors that take long."""
    again: bool = False
    """Compute even if the same evaluation is stored."""
    list: bool = False
    """List shifts and predictors, and do nothing."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the errors at a few positions as JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn evaluate``."""
    args = parse(EvaluateArgs, argv, "iclearn evaluate")
    if args.list:
        print_list()
        return 0
    if not args.names and args.dim is None:
        return complain("iclearn evaluate", "name a stored run or a predictor, or give --dim; --list lists predictors")
    from ..core.trace import Trace
    from ..evaluation.baselines import is_baseline, read_baseline
    from ..evaluation.matrix import evaluate
    from ..report.matrix_page import write_evaluation
    from ..store.runs import Store

    predictors = [read_baseline(word).label for word in args.names if is_baseline(word)]
    store, traces = Store(args.runs), []
    for word in args.names:
        if not is_baseline(word):
            traces.append(Trace.load(_find(store, word)))
    if traces and not args.standard and (args.dim, args.context_len, args.noise) != (None, None, None):
        raise IclearnError("--dim, --context-len and --noise are for --standard, or where no run is named")
    task = _standard_task(args, traces) if args.standard or not traces else None
    settings: dict[str, Any] = {
        "shifts": args.shifts, "num_prompts": args.prompts, "seed": args.seed, "target": args.target,
        "step": args.step, "contexts": args.contexts or None, "exact": args.exact, "slow_prompts": args.slow_prompts,
    }  # fmt: skip
    out = args.out or Path("evaluated") / (traces[0].run_id if traces else "predictors")
    asked = {
        "runs": [trace.provenance["recipe_hash"] for trace in traces], "predictors": predictors,
        "task": None if task is None else task.to_dict(), **settings,
    }  # fmt: skip
    matrix = None if args.again else _stored(out / "matrix.zarr", json.loads(json.dumps(asked)))
    if matrix is None:
        with _progress(args.quiet) as say:
            matrix = evaluate(traces, predictors or None, task=task, progress=say, **settings)
        matrix.data.attrs["asked"] = json.dumps(asked)
    page = write_evaluation(matrix, out)
    if args.json:
        print(json_text({"page": page, **summary(matrix)}))
    elif not args.quiet:
        print_errors(matrix)
        print(f"Page: {page}")
    return 0


def _find(store: Any, word: str) -> Path:
    from ..evaluation.baselines import read_baseline

    try:
        return store.find(word)
    except IclearnError as error:
        try:
            read_baseline(word)
        except IclearnError as other:
            hint = str(other).partition("Predictors are ")[2]
            raise IclearnError(f"{error}; and it is no predictor: {hint}") from None
        raise


def _standard_task(args: EvaluateArgs, traces: Sequence[Any]) -> Any:
    """Linear functions of standard inputs, with the sizes of the first run where there is one."""
    from ..evaluation.laws import standard_task

    first = traces[0].recipe.task if traces else None
    dim = args.dim if args.dim is not None else 5 if first is None else first.dim
    usual = 2 * dim if first is None else first.context_len
    return standard_task(dim, usual if args.context_len is None else args.context_len, args.noise or 0.0)


def _stored(path: Path, asked: dict[str, Any]) -> Matrix | None:
    """The stored evaluation, if it is the one asked for and today's code made it."""
    from ..evaluation.stored_matrix import MARK, Matrix, is_marked

    if not is_marked(path, MARK):
        return None
    try:
        found = Matrix.load(path)
    except IclearnError:
        return None
    same = json.loads(found.data.attrs.get("asked", "null")) == asked
    return found if same and found.up_to_date else None


class _progress:
    """How far an evaluation is, in one line of a terminal."""

    def __init__(self, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Any:
        return self.say if self.shown else None

    def say(self, done: int, total: int) -> None:
        print(f"\r{done} of {total} pairs of predictor and shift", end="", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self.shown:
            print(file=sys.stderr)


def summary(matrix: Matrix) -> dict[str, Any]:
    """Errors and bands at the positions of tables, as plain values: shift → predictor → position."""
    data = matrix.data
    parts = ("error", "error_low", "error_high")
    return {
        "law": matrix.facts["law"], "refused": matrix.facts["refused"], "left_out": matrix.facts["left_out"],
        "errors": {
            shift: {
                name: {
                    str(i): [float(data[part].sel(shift=shift, predictor=name, position=i)) for part in parts]
                    for i in matrix.told_positions()
                }
                for name in matrix.predictors
            }
            for shift in matrix.shifts
        },
    }  # fmt: skip


def print_errors(matrix: Matrix) -> None:
    """The errors of runs and references as a table in the terminal; of predictors where there is no run."""
    from rich.table import Table

    from ..report.matrix_figure import short_number, words_of
    from ..report.paper import print_table

    kinds = dict(zip(matrix.predictors, matrix.data["kind"].values, strict=True))
    names = [n for n in matrix.predictors if kinds[n] != "predictor" or not matrix.runs][:8]
    positions = matrix.told_positions()
    table = Table("shift", *(words_of(n) for n in names))
    for shift in matrix.shifts:
        rows = matrix.data["error"].sel(shift=shift)
        cells = [[float(rows.sel(predictor=n, position=i)) for i in positions] for n in names]
        told = [" ".join("–" if value != value else short_number(value) for value in cell) for cell in cells]
        table.add_row(words_of(shift), *told)
    print_table(table, 150)
    after = " ".join(map(str, positions))
    print(f"{matrix.facts['law']}; {matrix.facts['num_prompts']} prompts; errors after {after} pairs")
    missing = {**matrix.facts["left_out"], **matrix.facts["refused"]}
    for name, why in list(missing.items())[:5]:
        print(f"not there: {name}: {why}")
    if len(missing) > 5:
        print(f"and {len(missing) - 5} more: the page lists them")


def print_list() -> None:
    """Print the shifts and the predictors there are."""
    from ..evaluation.baselines import BASELINES
    from ..evaluation.shift_words import GROUPS, shifts_named

    print("shifts (NAME, NAME=AMOUNT, or a group; the law itself is always there):")
    for name, words in GROUPS.items():
        print(f"  {name:<10} {words}")
    for group in ("garg", "sweeps"):
        labels = [shift.label for shift in shifts_named(group, 5)]
        print(f"  {group}: {' '.join(labels)}")
    print("predictors (NAME or NAME=NUMBER):")
    for one in BASELINES.values():
        number = "" if one.amount is None else f"={one.amount:g}"
        cost = "" if one.cost == "quick" else f" ({one.cost})"
        print(f"  {one.name + number:<20} {one.words}{cost}")
    print("  bayes_shifted, bayes_training and least_squares are there always, the first two for linear functions")
