"""`iclearn show RUN`: what a stored run is, and its picture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from .output import fields_text, json_text
from .parsing import parse

if TYPE_CHECKING:
    from ..core.trace import Trace


@dataclass(frozen=True)
class ShowArgs:
    """Print a stored run, and draw it."""

    run: Annotated[str, tyro.conf.Positional]
    """Name of the run (its first digits are enough) or path of its folder."""
    out: Path = Path("runs")
    """Folder of stored runs."""
    plot: Path | None = None
    """Draw into this file instead of a window."""
    export: Path | None = None
    """Write the curve to this .csv, .nc or .txt file."""
    values: bool = False
    """Draw the value weights of the heads too."""
    json: bool = False
    """Print the provenance as JSON and draw nothing."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn show``."""
    args = parse(ShowArgs, argv, "iclearn show")
    from ..core.trace import Trace
    from ..store.runs import Store

    trace = Trace.load(Store(args.out).find(args.run))
    if args.json:
        facts = {"status": trace.status.label, "final_loss": trace.final_loss, **trace.provenance}
        print(json_text(dict(sorted(facts.items()))))
        return 0
    from ..report.run_figure import theory_levels

    for name, value in facts_of(trace):
        print(f"{name:<10} {value}")
    levels = theory_levels(trace)
    if levels is not None:
        names = (re.sub(r"[${}\\]", "", name) for name in levels.names)  # they are TeX
        words = (f"{name} {height:.4f}" for name, height in zip(names, levels.heights, strict=True))
        print(f"{'theory':<10} {', '.join(words)}")
    if args.export is not None:
        print(f"curve written to {trace.export(args.export)}")
    for line in draw(trace, args.plot, window=args.plot is None, name=trace.run_id, values=args.values):
        print(line)
    return 0


def draw(trace: Trace, plot: Path | None, *, window: bool, name: str, values: bool) -> Iterator[str]:
    """Draw a run into the file `plot`, in a window, or both; yields a line for every file written.

    Args:
        trace: the run.
        plot: the file (None: none).
        window: open one; without a display ``NAME.png`` is written instead.
        name: of that file.
        values: draw the value weights of the heads too.
    """
    if plot is None and not window:
        return
    from ..report.run_figure import run_figure
    from ..report.style import save_figure, show_figure

    figure = run_figure(trace, values=values)
    if plot is not None:
        yield f"figure written to {save_figure(figure, plot)}"
    if window and (written := show_figure(figure, Path(f"{name}.png"))) is not None:
        yield f"no display here: figure written to {written}"


def facts_of(trace: Trace) -> list[tuple[str, str]]:
    """What there is to say of a run of any kind."""
    recipe, made = trace.recipe, trace.provenance
    device = made.get("device")
    stale = "" if trace.up_to_date else " (other numerics than today's: train again with --again)"
    return [
        ("run", trace.run_id),
        ("status", trace.sentence),
        ("loss", f"{float(trace.loss[0]):.6f} at step 0, {trace.final_loss:.6f} at step {len(trace.loss) - 1}"),
        ("task", recipe.task.describe()),
        ("model", recipe.model.describe()),
        ("differs", f"from the defaults: {fields_text(recipe.by_path(changed=True))}"),
        ("optimizer", f"{recipe.optimizer.rule}, lr {recipe.optimizer.lr:g}, init {recipe.init.scale:g}"),
        ("engine", f"{made.get('engine')}, {made.get('dtype')}, seed {recipe.seed}"),
        ("made", f"{made.get('created')} by iclearn {made.get('iclearn')}, jax {made.get('jax')} on {device}{stale}"),
        ("seconds", f"{made.get('wall_seconds', 0):.2f} in all, {made.get('compile_seconds', 0):.2f} compiling"),
    ]
