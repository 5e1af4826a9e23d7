"""`iclearn cite`: BibTeX of iclearn and of the papers it implements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from .. import __version__
from .parsing import parse

SOFTWARE = f"""@software{{iclearn,
  title = {{iclearn: the theory of in-context learning in attention}},
  author = {{{{The iclearn developers}}}},
  version = {{{__version__}}},
  year = {{2026}},
}}"""
ARTICLE = re.compile(r"(?P<authors>[^.;]+)\. (?P<venue>[^.,]*?) ?(?P<year>\d{4}), arXiv (?P<arxiv>\d{4}\.\d{5})")


@dataclass(frozen=True)
class CiteArgs:
    """Print how to cite iclearn and the papers it implements, as BibTeX.

    iclearn cite > iclearn.bib

    iclearn cite zhang2025 ahn2023
    """

    papers: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Papers, by the names that `iclearn reproduce` takes. Default: all of them."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn cite``."""
    args = parse(CiteArgs, argv, "iclearn cite")
    from ..core.registry import PAPERS

    entries: dict[str, str] = {}
    for name in args.papers or PAPERS.names():
        paper = PAPERS.get(name)
        for article, entry in bibtex(paper.id, paper.title, paper.citation).items():
            entries.setdefault(article, entry)  # two parts of one paper are one article
    print("\n\n".join([SOFTWARE, *entries.values()]))
    return 0


def bibtex(name: str, title: str, citation: str) -> dict[str, str]:
    """The articles that a citation names, as BibTeX entries.

    Args:
        name: of the paper here, the key of a citation of one article.
        title: of that article.
        citation: "Authors. Venue year, arXiv number.", one or several.

    Returns:
        arXiv number → entry. Where a citation names several articles they have no titles here.

    >>> print(bibtex("ahn2023", "A title", "Ahn, Cheng, Sra. NeurIPS 2023, arXiv 2306.00297.")["2306.00297"])
    @misc{ahn2023,
      title = {A title},
      author = {Ahn and Cheng and Sra},
      year = {2023},
      note = {NeurIPS 2023},
      eprint = {2306.00297},
      archivePrefix = {arXiv},
    }
    """
    found = list(ARTICLE.finditer(citation))
    entries = {}
    for article in found:
        authors = [author.strip() for author in article["authors"].split(",")]
        single = len(found) == 1
        key = name if single else f"{authors[0].split()[-1].lower()}{article['year']}"
        lines = [
            *([f"title = {{{title}}}"] if single else []),
            f"author = {{{' and '.join(authors)}}}", f"year = {{{article['year']}}}",
            *([f"note = {{{article['venue']} {article['year']}}}"] if article["venue"] else []),
            f"eprint = {{{article['arxiv']}}}", "archivePrefix = {arXiv}",
        ]  # fmt: skip
        entries[article["arxiv"]] = "\n".join([f"@misc{{{key},", *(f"  {line}," for line in lines), "}"])
    return entries
