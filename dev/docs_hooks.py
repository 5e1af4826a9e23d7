"""Beside the pages `mkdocs build` makes the explorer as a file of the site, and names files of the repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./((?:benchmarks|examples|dev)/[^)]*|[A-Z]+\.md)\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """A link that leaves docs/ becomes the name of the file: the site has pages of docs/ only."""
    return OUTSIDE.sub(r"\1 (`\2`)", markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """The static explorer, which the pages of ideas show."""
    from iclearn.explore.bundle import write_page

    write_page(Path(config["site_dir"]) / "explorer.html")
