"""`iclearn train`: from a command line or a recipe file to a stored run, a text file, a picture."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import IclearnError
from .output import json_text
from .parsing import parse
from .show import draw
from .train_flags import PUBLIC_FLAGS, OutputFlags, RecipeFlags, TrainArgs, of_public_code

if TYPE_CHECKING:
    from ..core.dataset import Dataset
    from ..core.recipe import Recipe
    from ..core.trace import Trace
    from ..engines.simulate import Progress

LONG = 60.0  # seconds of work of which one is told beforehand
# Flags that say what to do with a run, and go with a recipe file; the others describe the run.
WITH_RECIPE = {f.name for f in (*fields(OutputFlags), *fields(RecipeFlags))} - {"track_value"}


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn train``."""
    args = parse(TrainArgs, argv, "iclearn train", PUBLIC_FLAGS)
    from ..core.jax_settings import configure
    from ..core.lazy_names import import_beside
    from ..core.status import Status
    from ..engines.cost import refuse_what_cannot_be, time_in_words
    from ..store.linattn import recipe_of_flags
    from ..store.runs import DEFAULT_ROOT, Store

    endings = {"plot": (".png", ".pdf", ".svg"), "export": (".csv", ".nc", ".txt")}
    for flag, (first, second, last) in endings.items():
        file = getattr(args, flag)
        if file is not None and file.is_dir():
            raise IclearnError(f"{file} is a folder; give the name of a file")
        if file is not None and file.suffix not in (first, second, last):
            raise IclearnError(f"--{flag} {file.name}: the name must end in {first}, {second} or {last}")
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise IclearnError(f"--out {args.out} is a file; give a folder")
    if args.no_compile_cache:
        configure(compile_cache=False)
    if args.set and args.recipe is None:
        raise IclearnError("--set changes a recipe file: give it with --recipe")
    recipe, dataset, weights = recipe_of_flags(args) if args.recipe is None else (recipe_of_file(args), None, None)
    store = Store(args.out or DEFAULT_ROOT)
    stored = store.sound(recipe)
    if stored is not None and not args.again and not stored.up_to_date:
        line = f"run {stored.run_id} is stored, made by other code than today's; --again trains it anew"
        print(f"iclearn train: {line}", file=sys.stderr)
    if stored is None or args.again:
        seconds = refuse_what_cannot_be(recipe).seconds
        if seconds > LONG and not args.quiet:
            print(
                f"iclearn train: this is about {time_in_words(seconds)} of work on one core",
                file=sys.stderr,
                flush=True,
            )
    found = stored is not None and not args.again
    if args.show or args.plot is not None:
        import_beside("matplotlib.pyplot")
    with progress_bar(recipe.steps, quiet=args.quiet) as progress:
        trace = store.run(recipe, dataset=dataset, weights=weights, progress=progress, again=args.again)
    if trace.status is Status.DIVERGED:
        raise IclearnError(why_diverged(trace, dataset, weights))
    files = list(outputs(args, trace, text=of_public_code(argv) and not args.no_text))
    if args.json:
        facts = {"run": trace.run_id, "status": trace.status.label, "steps": trace.num_losses, "stored_before": found}
        numbers = {"final_loss": trace.final_loss, "engine": trace.provenance["engine"], "path": store.path(recipe)}
        print(json_text({**facts, **numbers, "files": [file for _, file in files]}))
    if args.quiet or args.json:
        return 0
    for line, _ in files:
        print(line)
    ended = f"{trace.sentence}; final loss {trace.final_loss:.6f} after {trace.num_losses} steps"
    how = f"{trace.provenance['engine']} engine, {trace.provenance['wall_seconds']:.1f} s"
    place = "was stored before in" if found else "stored in"
    print(f"run {trace.run_id}: {ended} ({how}), {place} {store.path(recipe)}")
    return 0


def why_diverged(trace: Trace, dataset: Dataset | None, weights: Any) -> str:
    """What to say of a run that diverged: the step, the loss, and what to change."""
    from ..engines.stability import suggested_lr

    lr = trace.recipe.optimizer.lr
    if not math.isfinite(trace.final_loss):
        causes = "the data, the noise or the initial weights (--init) are too large"
        return f"the loss is {trace.final_loss} before the first step: {causes}; nothing was stored"
    losses = f"loss {trace.final_loss:.3g} the step before, {float(trace.loss[0]):.3g} at first"
    ended = f"the run {trace.sentence} ({losses})"
    better = suggested_lr(trace, dataset=dataset, weights=weights)
    hint = f"smaller than {lr:g}" if better is None else f"{better:g} (by the curvature of the loss) instead of {lr:g}"
    return f"{ended}; nothing was stored: try --lr {hint}"


def recipe_of_file(args: TrainArgs) -> Recipe:
    """The recipe in a file, with the fields of --set changed."""
    from ..core.reader import coerce, field_type, read_spec, read_table, read_yaml
    from ..core.recipe import Recipe

    usual = TrainArgs()
    given = [f.name for f in fields(args) if getattr(args, f.name) != getattr(usual, f.name)]
    if beside := [name.replace("_", "-") for name in given if name not in WITH_RECIPE]:
        raise IclearnError(f"--recipe describes the whole run: drop --{beside[0]}, or change it with --set")
    recipe = read_spec(Recipe, read_table(args.recipe), "")
    changes: dict[str, Any] = {}
    for word in args.set:
        path, equals, text = word.partition("=")
        if not equals:
            raise IclearnError(f"--set takes field=value, such as optimizer.lr=0.1, not {word!r}")
        changes[path.replace(".", "__")] = coerce(read_yaml(text, f"--set {path}"), field_type(recipe, path), path)
    return recipe.replace(**changes)


def outputs(args: TrainArgs, trace: Trace, *, text: bool) -> Iterator[tuple[str, Path | None]]:
    """Write what was asked for, and the public code's text file where `text`; yields a line and a path for each."""
    from ..store.linattn import public_name, write_values

    name = public_name(args, trace) if args.recipe is None else trace.run_id
    if args.export is not None:
        yield f"curve written to {trace.export(args.export)}", args.export
    drawn = draw(trace, args.plot, window=args.show, name=name, values=args.track_value)
    yield from ((line, args.plot or Path(f"{name}.png")) for line in drawn)
    if text and not args.show and args.recipe is None:
        path = (args.out or Path()) / f"{name}.txt"
        if args.track_value and not trace.has("test_loss"):
            write_values(trace, path)
        else:
            trace.export(path)
        yield f"loss written to {path}", path


def progress_lines(seconds: float = 10.0) -> Progress:
    """Progress where there is no terminal: a line after a second of training, and then one every so many seconds.

    Args:
        seconds: time between two lines.
    """
    due: float | None = None

    def show(step: int, steps: int, loss: float) -> None:
        nonlocal due
        now = time.monotonic()
        due = now + 1.0 if due is None else due
        if step < steps and now >= due:
            print(f"step {step} of {steps}, loss {loss:.6g}", file=sys.stderr, flush=True)
            due = now + seconds

    return show


@contextmanager
def progress_bar(steps: int, *, quiet: bool = False) -> Iterator[Progress | None]:
    """A rich progress bar on a terminal, lines elsewhere, nothing where it is to be quiet."""
    if quiet or not sys.stderr.isatty():
        yield None if quiet else progress_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = ("training", BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]}"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("training", total=steps, loss="…")
        yield lambda step, steps, loss: bar.update(task, completed=step, total=steps, loss=f"{loss:.5f}")
