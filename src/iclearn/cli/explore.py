"""`iclearn explore`: the page on which attention is trained while one looks."""

from __future__ import annotations

import os
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..core.errors import IclearnError
from .parsing import parse


@dataclass(frozen=True)
class ExploreArgs:
    """Open the explorer in the browser, with Python behind it, on this machine only. Ctrl+C ends it.

    The page trains linear attention on infinitely many prompts by itself; Python checks its numbers and trains the
    rest: finitely many prompts, softmax, linear self-attention with a guess, other optimizers.
    """

    static: Path | None = None
    """Write the page as one HTML file that needs no server, and end."""
    port: int = 0
    """Port to listen on at 127.0.0.1; 0: any free one."""
    no_open: bool = False
    """Print the address and open no browser."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn explore``."""
    args = parse(ExploreArgs, argv, "iclearn explore")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")  # small runs, one at a time
    if args.static is not None:
        if args.static.suffix not in (".html", ".htm"):
            raise IclearnError(f"--static {args.static.name}: the name must end in .html")
        from ..explore.bundle import write_page

        path = write_page(args.static)
        print(f"page written to {path} ({path.stat().st_size // 1024} kB): open it in any browser")
        return 0
    if not 0 <= args.port < 65536:
        raise IclearnError(f"--port must be between 0 and 65535, not {args.port}")
    try:
        from ..explore.serve import serve
    except ImportError as error:
        raise IclearnError(f"the served explorer needs tornado ({error}): pip install 'iclearn[explore]'") from None

    def ready(url: str) -> None:
        print(f"explorer at {url}\nCtrl+C ends it.", flush=True)
        if not args.no_open:
            webbrowser.open(url)

    try:
        serve(args.port, ready)
    except KeyboardInterrupt:
        print()
    return 0
