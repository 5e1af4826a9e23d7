"""The explorer's page as one self-contained HTML file, made from the readable sources in ``page/``.

The modules are put into the page as they are, each in a block that the browser does not run; a few lines at the end
make an import map of them, so that `import … from "iclearn/engine"` works from a server and from ``file://`` alike.
"""

from __future__ import annotations

import base64
import html
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import __version__
from ..core.atomic import write_text
from ..core.rng import standard_normals, stream
from .presets import PRESETS
from .settings import MOST_DIM, MOST_HEADS, MOST_RANK, page_facts

PAGE = Path(__file__).parent / "page"
MODULES = (
    "engine", "theory", "reading", "plateaus", "settings", "explain", "link", "panels", "pictures", "exports", "scenes",
    "controls", "referee", "others", "app",
)  # fmt: skip
SEEDS = 8  # of which a file carries the initial weights; a server gives any other


def seed_normals(seed: int) -> dict[str, np.ndarray]:
    """The standard normals of a seed of which weights of every size up to the largest take a prefix.

    Args:
        seed: of the recipe.

    Returns:
        ``value``, ``key`` and ``query`` of the ``init`` stream (`models.initialize` scales them), and ``rotation`` of
        the ``covariance`` stream, whose QR decomposition turns the eigenvectors.

    >>> {name: row.size for name, row in seed_normals(0).items()}
    {'value': 81, 'key': 648, 'query': 576, 'rotation': 64}
    """
    entry = MOST_DIM + 1
    shapes = ((MOST_HEADS * entry,), (MOST_HEADS * MOST_RANK * entry,), (MOST_HEADS * MOST_RANK * MOST_DIM,))
    rows = standard_normals(stream(seed, "init"), shapes)
    turned = jax.random.normal(stream(seed, "covariance"), (MOST_DIM**2,), jnp.float64)
    return dict(zip(("value", "key", "query", "rotation"), map(np.asarray, (*rows, turned)), strict=True))


def encoded(row: np.ndarray) -> str:
    """Little-endian float64 numbers in base64, as the page reads them."""
    return base64.b64encode(row.astype("<f8").tobytes()).decode()


def page_html(*, server: dict[str, Any] | None = None) -> str:
    """The whole page.

    Args:
        server: what a page with Python behind it is told (None: a page that stands alone).

    Returns:
        HTML that asks for nothing else.
    """
    normals = {str(seed): {name: encoded(row) for name, row in seed_normals(seed).items()} for seed in range(SEEDS)}
    facts = {
        **page_facts(), "version": __version__, "normals": normals, "presets": [p.to_dict() for p in PRESETS],
        "server": server,
    }  # fmt: skip
    blocks = [
        f'<script type="text/plain" data-module="{name}">\n{_inert(_read(f"{name}.js"))}</script>' for name in MODULES
    ]
    blocks.append(f'<script type="text/plain" id="worker">\n{_inert(_read("worker.js"))}</script>')
    parts = {
        "/*STYLE*/": f"{_read('vendor/uPlot.min.css')}\n{_read('style.css')}",
        "/*LICENSE*/": html.escape(_read("vendor/uPlot.LICENSE")),
        "/*UPLOT*/": _inert(_read("vendor/uPlot.iife.min.js")),
        "/*FACTS*/": json.dumps(facts).replace("<", "\\u003c"),
        "<!--MODULES-->": "\n".join(blocks),
        "/*BOOT*/": _read("boot.js"),
    }
    page = _read("index.html")
    for mark, text in parts.items():
        page = page.replace(mark, text)
    return page


def write_page(path: str | Path) -> Path:
    """Write the page that stands alone.

    Args:
        path: of the HTML file.

    Returns:
        The path written.
    """
    return write_text(Path(path), page_html())


def _read(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _inert(source: str) -> str:
    """Source text that does not end the script element it is put in."""
    return source.replace("</script", "<\\/script")
