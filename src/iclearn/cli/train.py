"""`iclearn train`: from a command line or a recipe file to a stored run, a text file, a picture."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import IclearnError
from .parsing import parse
from .train_flags import PUBLIC_FLAGS, TrainArgs

if TYPE_CHECKING:
    from ..core.recipe import Recipe
    from ..core.trace import Trace
    from ..engines.simulate import Progress

# Flags that say what to do with a run, and go with a recipe file; the others describe the run.
WITH_RECIPE = {"recipe", "set", "out", "plot", "export", "show", "again", "no_compile_cache"}


def run(argv: Sequence[str]) -> int:
    args = parse(TrainArgs, argv, "iclearn train", PUBLIC_FLAGS)
    from ..core.jax_settings import configure
    from ..core.status import Status
    from ..store.linattn import recipe_of_flags
    from ..store.runs import DEFAULT_ROOT, Store

    for file in (args.plot, args.export):
        if file is not None and file.is_dir():
            raise IclearnError(f"{file} is a folder; give the name of a file")
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise IclearnError(f"--out {args.out} is a file; give a folder")
    if args.export is not None and args.export.suffix not in (".csv", ".nc", ".txt"):
        raise IclearnError(f"--export {args.export.name}: the name must end in .csv, .nc or .txt")
    if args.plot is not None and args.plot.suffix not in (".png", ".pdf", ".svg"):
        raise IclearnError(f"--plot {args.plot.name}: the name must end in .png, .pdf or .svg")
    if args.no_compile_cache:
        configure(compile_cache=False)
    recipe, dataset, weights = recipe_of_flags(args) if args.recipe is None else (recipe_of_file(args), None, None)
    store = Store(args.out or DEFAULT_ROOT)
    if not args.again and (stored := store.get(recipe)) is not None and not stored.up_to_date:
        print(
            f"iclearn train: run {stored.run_id} is stored, made by other code than today's; --again trains it anew",
            file=sys.stderr,
        )
    with progress_bar(recipe.steps) as progress:
        trace = store.run(recipe, dataset=dataset, weights=weights, progress=progress, again=args.again)
    if trace.status is Status.DIVERGED:
        raise IclearnError(
            f"the run {trace.sentence} (loss {trace.final_loss:.3g} the step before); nothing was stored: "
            f"try a smaller --lr than {args.lr:g}"
        )
    for line in outputs(args, trace):
        print(line)
    seconds = trace.provenance["wall_seconds"]
    print(
        f"run {trace.run_id}: {trace.sentence}; final loss {trace.final_loss:.6f} after {len(trace.loss)} steps "
        f"({trace.provenance['engine']} engine, {seconds:.1f} s), stored in {store.path(recipe)}"
    )
    return 0


def recipe_of_file(args: TrainArgs) -> Recipe:
    """The recipe in a file, with the fields of --set changed."""
    from ..core.reader import coerce, field_type, read_spec, read_table
    from ..core.recipe import Recipe

    usual = TrainArgs()
    given = [f.name for f in fields(args) if getattr(args, f.name) != getattr(usual, f.name)]
    if beside := [name for name in given if name not in WITH_RECIPE]:
        raise IclearnError(
            f"--recipe describes the whole run: drop --{beside[0].replace('_', '-')}, or change it with --set"
        )
    recipe = read_spec(Recipe, read_table(args.recipe), "")
    changes: dict[str, Any] = {}
    for word in args.set:
        path, equals, text = word.partition("=")
        if not equals:
            raise IclearnError(f"--set takes field=value, such as optimizer.lr=0.1, not {word!r}")
        import yaml

        changes[path.replace(".", "__")] = coerce(yaml.safe_load(text), field_type(recipe, path), path)
    return recipe.replace(**changes)


def outputs(args: TrainArgs, trace: Trace) -> list[str]:
    """Write what was asked for; one line for each file."""
    from ..store.linattn import public_name, write_values

    said = []
    name = public_name(args, trace) if args.recipe is None else trace.run_id
    if args.export is not None:
        said.append(f"curve written to {trace.export(args.export)}")
    if args.plot is not None or args.show:
        from ..report.run_figure import run_figure
        from ..report.style import save_figure, show_figure

        figure = run_figure(trace, values=args.track_value)
        if args.plot is not None:
            said.append(f"figure written to {save_figure(figure, args.plot)}")
        if args.show:
            written = show_figure(figure, Path(f"{name}.png"))
            if written is not None:
                said.append(f"no display here: figure written to {written}")
    if not args.show and args.recipe is None:
        path = (args.out or Path()) / f"{name}.txt"
        if args.track_value and "test_loss" not in trace.data:
            write_values(trace, path)
        else:
            trace.export(path)
        said.append(f"loss written to {path}")
    return said


class progress_bar:
    """A rich progress bar on a terminal, nothing elsewhere."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __enter__(self) -> Progress | None:
        self.bar = None
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = ("training", BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]}"))
        self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("training", total=self.steps, loss="…")
        bar = self.bar

        def report(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, loss=f"{loss:.5f}")

        return report

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
