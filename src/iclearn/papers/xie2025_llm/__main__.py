"""`python -m iclearn.papers.xie2025_llm OUT [PAGE]`: a run's stored results as Markdown tables, printed or put into a page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ...core.errors import IclearnError
from ...llm.conditions import NOISES, condition
from ...llm.metrics import METRICS, Interval, bootstrap, copy_rate, slope
from ..collect import load_paper, paper_options, stored_seeds
from ..lab import Lab
from . import fig_conditions, fig_copy, fig_shots
from .setup import View, model_title


def _cell(interval: Interval) -> str:
    if not np.isfinite(interval.value):
        return "undefined"
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def tables(out: Path) -> str:
    """Every condition with its measures, the guess alone beside it; then the dependence on the number of shots."""
    paper = load_paper("xie2025-llm")
    options = paper_options(paper, {}, out, draw_only=True)
    lab = Lab(out, seeds=stored_seeds(out) or paper.seeds, offline=True, options=options)
    views = {**fig_copy.collect(lab), **fig_conditions.collect(lab)}
    names = [*fig_conditions.CONDITIONS[:-1], *(f"noise{size:g}" for size in NOISES), "oracle"]
    lines = [
        f"{model_title(views['data'])}, {options.shots} shots; 95 % bootstrap intervals over the pairs.", "",
        "| guess | Pearson | Spearman | squared error | guess alone: Pearson | squared error | slope on guess | copy rate |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name in names:
        view: View = views[name]
        cells = [condition(name).title, *(_cell(view.measure(metric)) for metric in METRICS)]
        if np.isfinite(view.guess).all():
            cells += [_cell(view.guess_alone("pearson")), _cell(view.guess_alone("mse"))]
            cells += [
                _cell(bootstrap(slope, view.answer, view.guess)),
                f"{copy_rate(view.mark, view.guess).mean():.2f}",
            ]
        else:
            cells += ["", "", "", ""]
        lines.append(f"| {' | '.join(cells)} |")
    runs = fig_shots.collect(lab)["data"]
    lines += [
        "",
        "| shots | no guess: Pearson | trained guess: Pearson | trained guess: squared error |",
        "|---|---|---|---|",
    ]
    for n in map(int, runs["shots"].values):
        with_guess = View(runs, "trained", n)
        cells = [str(n), _cell(View(runs, "none", n).measure("pearson"))]
        cells += [_cell(with_guess.measure("pearson")), _cell(with_guess.measure("mse"))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


BEGIN, END = "<!-- tables: begin -->\n", "<!-- tables: end -->"


def put_into(page: Path, text: str) -> None:
    """Replace what stands between the two marks of a page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise IclearnError(f"{page} has no place for tables: it needs the lines {BEGIN.strip()} and {END}")
    page.write_text(f"{before}{begin}{text}\n{end}{after}")


def main(words: list[str]) -> int:
    if not words or len(words) > 2:
        print("usage: python -m iclearn.papers.xie2025_llm OUT [PAGE]", file=sys.stderr)
        return 2
    try:
        text = tables(Path(words[0]))
        if len(words) == 2:
            put_into(Path(words[1]), text)
        else:
            print(text)
    except (IclearnError, OSError) as problem:
        print(f"iclearn: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
