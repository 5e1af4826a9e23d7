"""Write docs/what-holds-*.md again with today's titles, labels and notes, and the tables of papers.

Usage: python dev/what_holds.py

These pages are where the verdicts of the whole runs are stored: words and measured numbers are read from them. The
tables are in README.md and docs/what-holds.md, between comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iclearn.core.registry import PAPERS
from iclearn.papers.base import Claim, Figure, Paper
from iclearn.papers.collect import load_paper
from iclearn.report.paper import counted, summary_line, what_holds

ROOT = Path(__file__).parents[1]


def rows_of(page: str, figure: Figure) -> Iterator[dict[str, str]]:
    """The rows of a figure's table: column → text; none for a figure that was not judged."""
    sections = re.split(rf"^## {re.escape(figure.id)}: ", page, flags=re.M)[1:]
    if not sections:
        return
    section = sections[0].split("\n## ")[0]
    columns, *rows = (
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("|") and not line.startswith("|---")
    )
    for row in rows:
        yield dict(zip(columns, row, strict=True))


def verdict_of(row: dict[str, str], figure: Figure) -> dict[str, Any]:
    """A row as verdicts.json has it; a claim that is defined otherwise today is refused."""
    claim = next((c for c in figure.claims if c.statement == row["claim"]), None)
    word = row["verdict"].split(" ", 1)[1]
    if "whose" not in row:  # a page written before labels and tolerances were on it
        return {"figure": figure.id, "source": claim.source if claim is not None else "ours", "verdict": word}
    if claim is None or (claim.expected, tolerance(claim)) != (row["expected"], row["tolerance, and why"]):
        raise SystemExit(f"{figure.id}: today's claim is not the one judged: {row['claim']}: reproduce it again")
    seeds, _, planned = row["seeds"].partition(". ")
    return {
        "figure": figure.id, "claim": claim.id, "source": claim.source, "verdict": word,
        "statement": claim.statement, "expected": claim.expected, "tolerance": tolerance(claim),
        "measured": row["measured"], "seeds": seeds, "before": claim.before,
        "planned": dict(re.findall(r"irst (\d+) seeds: ([\w ]+)", planned)),
        "counterexamples": [row["says no to"]],
    }  # fmt: skip


def tolerance(claim: Claim) -> str:
    """As the pages show it."""
    return f"{claim.tolerance}; {claim.reason}" if claim.reason else claim.tolerance


def page_again(page: str, paper: Paper, verdicts: list[dict[str, Any]]) -> str:
    """The page as it is generated today; of an old format only the counts."""
    if "| whose |" in page:
        return what_holds(paper, verdicts)
    return re.sub(r"^\d+ claims.*$", lambda _: summary_line(verdicts, paper), page, count=1, flags=re.M)


def name_of(paper: Paper) -> tuple[str, str]:
    """The first author of a paper and its number on arXiv; nothing for findings of our own."""
    first = re.match("(?!Findings)([^,]+),", paper.citation)
    number = re.search(r"arXiv (\d+\.\d+)", paper.citation)
    assert number is not None
    return (f"{first[1]} et al." if first else "", number[1])


def readme_table(known: dict[str, tuple[Paper, list[dict[str, Any]]]]) -> list[str]:
    """Papers of which a claim of their own was judged, or known second-hand, or that have a headline."""
    lines, numbers = ["| paper, arXiv | its own claims | second-hand |", "|---|---|---|"], set()
    for name, (paper, verdicts) in known.items():
        own, second = (counted(verdicts, source).partition(" reproduced")[0] for source in ("paper", "second-hand"))
        authors, number = name_of(paper)
        said = paper.headline(verdicts).partition(":")[0] if paper.headline is not None else own
        if (said or second) and number not in numbers:  # a paper that is two pages has the first one here
            numbers.add(number)
            lines.append(f"| [{paper.title}](docs/what-holds-{name}.md), {authors} {number} | {said} | {second} |")
    return lines


def board(known: dict[str, tuple[Paper, list[dict[str, Any]]]]) -> list[str]:
    """All papers, with every verdict on their own claims and on those of others."""
    lines = ["| paper | its own claims | second-hand | its theory | ours |", "|---|---|---|---|---|"]
    for name, (paper, verdicts) in known.items():
        authors, number = name_of(paper)
        title = f"`{name}` [{paper.title}](what-holds-{name}.md)"
        title += f", {authors} [{number}](https://arxiv.org/abs/{number})" if authors else ""
        own, *others = (counted(verdicts, source) for source in ("paper", "second-hand", "theory", "ours"))
        said = paper.headline(verdicts) if paper.headline is not None else own
        cells = [text.replace(" reproduced", "") for text in (said, *others)]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def pages() -> dict[Path, str]:
    """What every generated page reads today."""
    found: dict[Path, str] = {}
    known: dict[str, tuple[Paper, list[dict[str, Any]]]] = {}
    for name in PAPERS.names():
        path = ROOT / "docs" / f"what-holds-{name}.md"
        if path.exists():
            paper, page = load_paper(name), path.read_text(encoding="utf-8")
            verdicts = [verdict_of(row, f) for f in paper.figures for row in rows_of(page, f)]
            known[name] = paper, verdicts
            found[path] = page_again(page, paper, verdicts)
    for path, table in ((ROOT / "README.md", readme_table(known)), (ROOT / "docs/what-holds.md", board(known))):
        text = path.read_text(encoding="utf-8")
        body = "\n".join(table)
        found[path] = re.sub(
            "(<!-- papers -->\n).*?(<!-- /papers -->)", lambda m, b=body: f"{m[1]}{b}\n{m[2]}", text, flags=re.S
        )
    return found


if __name__ == "__main__":
    for written, text in pages().items():
        written.write_text(text, encoding="utf-8")
