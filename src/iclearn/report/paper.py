"""Figures, a page and a card for a reproduced paper, drawn from what is stored. Nothing here simulates."""

from __future__ import annotations

import base64
import functools
import html
import struct
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..core.atomic import write_text
from ..papers.base import Figure, Paper, plain
from ..papers.collect import FigureResult, read_json, write_json
from .card import card, card_markdown
from .style import FORMATS, figure_style, save_formats

_MARKS = {
    "reproduced": "✓", "contradicted": "✗", "inconclusive": "?", "too few seeds": "#",
    "unfinished": "…", "outdated": "~", "failed": "!",
}  # fmt: skip
# Whose words a claim is in.
WHOSE = {
    "paper": "the paper", "second-hand": "second-hand", "other": "another paper", "theory": "its theory",
    "ours": "ours", "design": "our design",
}  # fmt: skip
FEW = 6  # entries of a list that the terminal shows
WIDE = 1.7  # a picture wider than so many times its height has the whole width of the page
_PAGE = (Path(__file__).parent / "page.html").read_text()


class Drawing:
    """Draws figures one after the other, in every format, under ``out/figures``, in a thread of its own.

    Used as a context and called with each result. Leaving the context waits for the last figure and raises the first
    error of a drawing. Sent to another process it is `draw_result`, which draws at once.

    Args:
        out: the folder of the reproduction.
        formats: endings of the files.
    """

    def __init__(self, out: Path, formats: Sequence[str] = FORMATS) -> None:
        self.out, self.formats = out, formats
        self._thread = ThreadPoolExecutor(1)  # pyplot is for one thread at a time
        self._drawn: list[Future[None]] = []

    def __call__(self, result: FigureResult) -> None:
        self._drawn.append(self._thread.submit(draw_result, self.out, self.formats, result))

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (draw_result, self.out, self.formats)

    def __enter__(self) -> Drawing:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._thread.shutdown(wait=True, cancel_futures=kind is not None)
        if kind is None:
            for figure in self._drawn:
                figure.result()


def draw_result(out: Path, formats: Sequence[str], result: FigureResult) -> None:
    """Draw one figure.

    Args:
        out: the folder of the reproduction.
        formats: endings of the files under ``out/figures``.
        result: the figure.
    """
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")  # the others want the main thread
    with figure_style():
        drawn = result.figure.draw(result.data)
        save_formats(drawn, out / "figures", result.figure.id, formats)
        plt.close(drawn)


def write_report(paper: Paper, out: Path) -> Path:
    """Write ``index.html`` with figures and verdicts beside them, and the reproducibility card.

    Args:
        paper: what was reproduced.
        out: the folder with its figures, verdicts.json and facts.json.

    Returns:
        The page.
    """
    facts = card(paper, read_json(out / "facts.json", {}), read_json(out / "verdicts.json", []))
    write_json(out / "card.json", plain(facts))
    write_text(out / "card.md", card_markdown(facts))
    write_text(out / "what-holds.md", what_holds(paper, read_json(out / "verdicts.json", [])))
    return write_text(out / "index.html", _page(paper, out, facts))


def _page(paper: Paper, out: Path, facts: dict[str, Any], only: Sequence[str] | None = None) -> str:
    verdicts = read_json(out / "verdicts.json", [])
    contents, sections = [], []
    for figure in paper.figures:
        picture = out / "figures" / f"{figure.id}.png"
        if not picture.exists() or (only is not None and figure.id not in only):
            continue
        encoded = base64.b64encode(picture.read_bytes()).decode()
        rows = [v for v in verdicts if v["figure"] == figure.id]
        title, marks = html.escape(figure.title), "".join(verdict_mark(v["verdict"]) for v in rows)
        contents.append(f'<a href="#{figure.id}">{figure.id}: {title} {marks}</a>')
        shape = "pair wide" if _aspect(picture) > WIDE else "pair"
        sections.append(
            f'<h2 id="{figure.id}">{figure.id}: {title}</h2><div class="{shape}">'
            f'<div><a href="figures/{picture.name}"><img alt="{title}" src="data:image/png;base64,{encoded}"></a>'
            f"<details><summary>Set-up</summary><pre>{html.escape(figure.setup)}</pre></details>{_register(figure)}</div>"
            f"{verdict_table(rows)}</div>"
        )
    notes = f'<p class="note">{html.escape(paper.notes)}</p>' if paper.notes else ""
    if stale := stale_sentence(sum(figure.get("stale", 0) for figure in facts["figures"].values())):
        notes = f'<p class="contradicted">{html.escape(stale)}</p>{notes}'
    summary = summary_line([v for v in verdicts if only is None or v["figure"] in only], paper)
    return _PAGE.format(
        title=html.escape(paper.title), citation=html.escape(paper.citation), notes=notes,
        summary=html.escape(summary), contents="\n".join(contents), sections="\n".join(sections),
        version=facts["software"]["iclearn"],
    )  # fmt: skip


def _register(figure: Figure) -> str:
    items = "".join(f"<li>{html.escape(line)}</li>" for line in register_lines(figure))
    return f"<details><summary>Register of choices</summary><ul>{items}</ul></details>" if items else ""


def page_head(title: str) -> str:
    """The beginning of a page in the style of reproductions, up to its heading.

    Args:
        title: of the page.

    Returns:
        HTML, with the body open.
    """
    style = _PAGE.partition("<p>")[0]
    return style.format(title=html.escape(title))


def stale_sentence(count: int) -> str:
    """What to say of `count` results that other code made; nothing where there are none."""
    made = f"{count} stored results were made by other code than today's, so nothing is concluded from them"
    return f"{made}: --refresh computes them again." if count else ""


def report_html(paper: Paper, out: Path, figures: Sequence[str]) -> str:
    """The page of the named figures for a notebook: in a frame, so that neither changes the style of the other."""
    text = _page(paper, out, read_json(out / "card.json", {}), figures)
    page = html.escape(text.replace('href="#', 'href="about:srcdoc#'))  # else such a link leads to the notebook
    style = "width: 100%; height: 40rem; resize: vertical; border: 1px solid #ccc; background: #fff"
    return f'<iframe title="{html.escape(paper.title)}" style="{style}" srcdoc="{page}"></iframe>'


def _aspect(picture: Path) -> float:
    """Width over height of a PNG, from its header."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width / height


def verdict_mark(verdict: str) -> str:
    """One sign for a verdict, in its color."""
    return f'<span class="{verdict}" title="{verdict}">{_MARKS[verdict]}</span>'


def verdict_table(rows: Sequence[dict[str, Any]]) -> str:
    """The verdicts of a figure with whose words they are, tolerances and their reasons, and what the claim refuses."""
    body = "".join(
        f'<tr><td class="verdict {v["verdict"]}">{_MARKS[v["verdict"]]} {needs(v)}'
        f'<p class="note">{html.escape(WHOSE[v["source"]])}</p></td>'
        f"<td>{html.escape(v['statement'])}"
        f'<p class="note">{html.escape(" ".join(details(v)))}</p>'
        f'<p class="measured" tabindex="0">Measured{seeds_text(v)}: {html.escape(short(v["measured"]))}</p></td></tr>'
        for v in rows
    )
    return f"<table><tr><th>verdict</th><th>claim</th></tr>{body}</table>"


def details(v: dict[str, Any]) -> list[str]:
    """What one needs to weigh a verdict: expected, tolerance and why, when it was set, what the claim says no to."""
    sentences = [f"Expected: {v['expected']}.", f"Tolerance: {v['tolerance']}."]
    if v.get("reason"):
        sentences.append(f"Reason: {v['reason']}.")
    if not v.get("before", True):
        sentences.append("Statement or tolerance changed after data were seen: see the register of choices.")
    if v.get("counterexamples"):
        sentences.append("Says no to: " + "; ".join(f"{n} ({w})" for n, w in v["counterexamples"].items()) + ".")
    if v.get("planned"):
        sentences.append(f"Fewer seeds were planned before. {planned_text(v)}.")
    if v.get("changed_from"):
        changed = "The claim's definition or label changed since it was last judged here"
        sentences.append(f"{changed} (then: {v['changed_from']}).")
    return sentences


def register_lines(figure: Figure) -> list[str]:
    """The register of choices of a figure, a sentence each."""
    return [f"{c.what}. Tried: {c.tried}. Came out: {c.outcome}. Kept: {c.kept}." for c in figure.choices]


def needs(verdict: dict[str, Any]) -> str:
    """The verdict, and how many seeds the claim needs where there are too few.

    >>> needs({"verdict": "too few seeds", "min_seeds": 5})
    'too few seeds: needs 5'
    """
    word = verdict["verdict"]
    return f"{word}: needs {verdict['min_seeds']}" if word == "too few seeds" else word


def seeds_text(verdict: dict[str, Any]) -> str:
    """Over how many seeds a claim was judged, in words; nothing where that is not known."""
    return f" over {verdict['seeds']} seeds or runs" if verdict["seeds"] else ""


def planned_text(verdict: dict[str, Any]) -> str:
    """The verdicts on fewer seeds, as planned before.

    >>> planned_text({"planned": {"6": "inconclusive", "12": "reproduced"}})
    'First 6 seeds: inconclusive, first 12 seeds: reproduced'
    """
    return ", ".join(f"first {n} seeds: {word}" for n, word in verdict["planned"].items()).capitalize()


def _seeds_cell(verdict: dict[str, Any]) -> str:
    seeds = str(verdict["seeds"] or "")
    return f"{seeds}. {planned_text(verdict)}" if verdict.get("planned") else seeds


def short(measured: Any, few: int | None = None) -> str:
    """A measured value as a person would write it down.

    Args:
        measured: the value.
        few: of a list with more entries than this only their number and range are told (None: all entries always).

    >>> short({"slope": 0.123456, "steps": [1, 2.0]})
    'slope: 0.1235, steps: [1, 2]'
    >>> short({"heights": [0.5, 0.25, 0.125]}, few=2)
    'heights: 3 values, 0.125 to 0.5'
    """
    if isinstance(measured, float):
        return f"{measured:.4g}"
    if isinstance(measured, dict):
        return ", ".join(f"{k}: {short(v, few)}" for k, v in measured.items())
    if isinstance(measured, list):
        if few is not None and len(measured) > few:
            numbers = all(isinstance(v, float | int) for v in measured)
            span = (
                f"{short(min(measured))} to {short(max(measured))}" if numbers else f"{short(measured[0], few)} first"
            )
            return f"{len(measured)} values, {span}"
        return "[" + ", ".join(short(v, few) for v in measured) + "]"
    return str(measured)


def tally(verdicts: Sequence[dict[str, Any]], source: str) -> dict[str, int]:
    """How many claims of one source have each verdict, from the best verdict to the worst."""
    words = [v["verdict"] for v in verdicts if v["source"] == source]
    return {word: words.count(word) for word in _MARKS if word in words}


def counted(verdicts: Sequence[dict[str, Any]], source: str) -> str:
    """What became of the claims of one source; nothing where there are none.

    >>> counted([{"source": "ours", "verdict": word} for word in ("reproduced", "failed")], "ours")
    '1 of 2 reproduced, 1 failed'
    """
    counts = tally(verdicts, source)
    others = "".join(f", {count} {word}" for word, count in counts.items() if word != "reproduced")
    return f"{counts.get('reproduced', 0)} of {sum(counts.values())} reproduced{others}" if counts else ""


def summary_line(verdicts: Sequence[dict[str, Any]], paper: Paper | None = None) -> str:
    """How many claims there are and what became of them, the paper's own statements apart from the others.

    Args:
        verdicts: of the claims.
        paper: theirs; its headline comes first.

    >>> judged = [{"source": "paper", "verdict": word} for word in ("reproduced", "inconclusive", "reproduced")]
    >>> summary_line(judged)
    '3 claims. the paper: 2 of 3 reproduced, 1 inconclusive.'
    """
    if not verdicts:
        return "no claims judged."
    parts = [f"{name}: {said}" for source, name in WHOSE.items() if (said := counted(verdicts, source))]
    headline = paper.headline(verdicts) if paper is not None and paper.headline is not None else ""
    return f"{headline} {len(verdicts)} claims. {'; '.join(parts)}.".lstrip()


def what_holds(paper: Paper, verdicts: Sequence[dict[str, Any]]) -> str:
    """The docs page "what holds", as Markdown."""
    origin = "Generated from verdicts.json by `iclearn reproduce`; do not edit."
    lines = [f"# What holds: {paper.id}", "", origin, "", summary_line(verdicts, paper), ""]
    for figure in paper.figures:
        rows = [v for v in verdicts if v["figure"] == figure.id]
        if not rows:
            continue
        header = "| verdict | whose | claim | expected | tolerance, and why | measured | seeds | set | says no to |"
        lines += [f"## {figure.id}: {figure.title}", "", header, "|---" * 9 + "|"]
        for v in rows:
            cells = [
                f"{_MARKS[v['verdict']]} {needs(v)}", WHOSE[v["source"]], v["statement"], v["expected"],
                f"{v['tolerance']}; {v['reason']}" if v.get("reason") else v["tolerance"],
                short(v["measured"]), _seeds_cell(v),
                "before the data" if v.get("before", True) else "after: see register",
                "; ".join(v.get("counterexamples", {})),
            ]  # fmt: skip
            lines.append("| " + " | ".join(c.replace("|", "\\|").replace("\n", " ") for c in cells) + " |")
        if figure.choices:
            lines += ["", "Register of choices:", "", *(f"- {line}" for line in register_lines(figure))]
        lines.append("")
    if paper.notes:
        lines += ["## What we found that the paper does not say", "", paper.notes, ""]
    return "\n".join(lines)


def terminal_table(verdicts: Sequence[dict[str, Any]]) -> None:
    """The verdicts as a table in the terminal."""
    from rich.markup import escape
    from rich.table import Table

    colors = {"reproduced": "green", "contradicted": "red", "failed": "magenta"}  # the others: yellow
    table = Table("figure", "verdict", "whose", "claim", "measured", "seeds")
    for v in verdicts:
        word = f"[{colors.get(v['verdict'], 'yellow')}]{_MARKS[v['verdict']]} {needs(v)}[/]"
        measured = escape(short(v["measured"], few=FEW))
        table.add_row(v["figure"], word, WHOSE[v["source"]], escape(v["statement"]), measured, _seeds_cell(v))
    print_table(table, 160)


def print_table(table: Any, width: int) -> None:
    """Print a `rich.table.Table`: as wide as the terminal, or `width` characters where there is none."""
    from rich.console import Console

    console = Console()
    (console if console.is_terminal else Console(width=width)).print(table)
