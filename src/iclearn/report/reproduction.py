"""`reproduce`: a paper again, figure by figure, with a verdict for every claim, as one object that shows itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.checks import check_int, check_type, require
from ..papers.base import Paper, Verdict, Word
from ..papers.collect import Each, FigureResult, collect, load_paper, paper_options, stored_seeds
from .paper import Drawing, report_html, stale_sentence, summary_line, write_report


@dataclass(frozen=True)
class Report:
    """What `reproduce` returns: verdicts, figures and data of a paper. In a notebook it shows itself.

    Args:
        paper: what was reproduced.
        out: the folder with everything that was written.
        results: the figures that were asked for, in the order of the paper.
        page: the HTML page.

    For an example see `reproduce`.
    """

    paper: Paper
    out: Path
    results: tuple[FigureResult, ...]
    page: Path

    @property
    def verdicts(self) -> list[Verdict]:
        """Every claim of these figures, judged."""
        return [verdict for result in self.results for verdict in result.verdicts]

    @property
    def figures(self) -> dict[str, Path]:
        """Figure → its picture."""
        return {result.figure.id: self.out / "figures" / f"{result.figure.id}.png" for result in self.results}

    @property
    def data(self) -> dict[str, Mapping[str, Any]]:
        """Figure → the data it was drawn and judged from."""
        return {result.figure.id: result.data for result in self.results}

    @property
    def stale(self) -> int:
        """Stored results that other code than today's made; `refresh=True` makes them again."""
        return sum(result.facts["stale"] for result in self.results)

    @property
    def broken(self) -> list[Verdict]:
        """Claims that should hold and are contradicted or failed."""
        return [v for v in self.verdicts if v.should_hold and v.verdict in ("contradicted", "failed")]

    @property
    def differing(self) -> list[tuple[Verdict, Word]]:
        """Claims whose verdict is not the stored one of the same claim over as many seeds, with the stored one."""
        return [pair for result in self.results for pair in result.differing]

    def __repr__(self) -> str:
        summary = summary_line([v.to_dict() for v in self.verdicts], self.paper)
        return f"Report({self.paper.id}: {summary} Page: {self.page}) {stale_sentence(self.stale)}".rstrip()

    def _repr_html_(self) -> str:
        return report_html(self.paper, self.out, [result.figure.id for result in self.results])


def reproduce(
    paper: str | Paper, figures: Sequence[str] = (), *, seeds: int | None = None, out: str | Path | None = None,
    draw_only: bool = False, workers: int | None = None, refresh: bool = False,
    progress: Callable[[str, str], None] | bool | None = None, finished: Each | None = None,
    device: str = "auto", **options: Any,
) -> Report:  # fmt: skip
    """Reproduce a paper: train, draw, judge. Data already stored is not computed again.

    Args:
        paper: ``zhang2025``, ``xie2025``, ``li2024``, ``xie2025-llm``, or a `Paper`.
        figures: names of figures (none: all of them).
        seeds: of every figure with random starts (None: as many as each has planned). A claim that needs more is not
            judged: its verdict is ``too few seeds``.
        out: folder for figures, data, verdicts and card (None: ``reproduced/PAPER``).
        draw_only: draw and judge what is stored, never simulate.
        workers: runs side by side (None: one a core).
        refresh: compute again what is stored but was made by other code than today's.
        progress: True, or a function that is called with (figure, what is being done). Default: nothing.
        finished: called with every figure as soon as it is judged, in this process.
        device: ``auto``, ``cpu`` or ``gpu``, for papers that take it as an option.
        options: what this paper alone takes, such as ``stsb=`` of xie2025-llm.

    Returns:
        A `Report` with verdicts, figures and data.

    ``icl.reproduce("zhang2025", ["fig6"], seeds=8)`` does one figure of a paper that comes with iclearn. A paper of
    your own, with one figure and one claim:

    >>> import tempfile
    >>> from matplotlib.figure import Figure as Picture
    >>> import iclearn as icl
    >>> from iclearn.papers.base import judge_close
    >>> claim = icl.Claim("sum", "One and one is two.", "2", "none", lambda data: judge_close(data["sum"], 2, 0))
    >>> figure = icl.Figure("fig1", "a sum", lambda lab: {"sum": 1 + 1}, lambda data: Picture(), (claim,), "add them")
    >>> paper = icl.Paper("tiny", "A tiny paper", "Nobody, 2025", (figure,))
    >>> report = icl.reproduce(paper, out=tempfile.mkdtemp())
    >>> report.verdicts[0].verdict, report.data, sorted(report.figures)
    ('reproduced', {'fig1': {'sum': 2}}, ['fig1'])
    """
    paper = load_paper(paper) if isinstance(paper, str) else paper
    check_type("a paper", paper, Paper, 'its name, such as "zhang2025"')
    figures = [figures] if isinstance(figures, str) else figures
    check_type("the figures", figures, Sequence, '["fig4"]')
    if workers is not None:
        check_int("the number of workers", workers, 1)
    folder = Path(out) if out is not None else Path("reproduced") / paper.id
    if progress is True:
        progress = lambda figure, text: print(f"{figure}: {text}", file=sys.stderr, flush=True)  # noqa: E731
    told = progress or None
    require(told is None or callable(told), f"progress is True or a function, not {progress!r}")
    own = paper_options(paper, options, folder, draw_only=draw_only, device=device)
    if seeds is None and draw_only:
        seeds = stored_seeds(folder)
    with Drawing(folder) as draw:
        results = collect(
            paper, figures, folder, seeds=seeds, draw_only=draw_only, workers=workers, progress=told, each=draw,
            options=own, refresh=refresh, finished=finished,
        )  # fmt: skip
    return Report(paper, folder, tuple(results), write_report(paper, folder))
