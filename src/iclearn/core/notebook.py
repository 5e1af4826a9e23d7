"""Progress in a notebook: a bar under the cell, once something has taken longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 2.0  # seconds before a bar is shown


def in_notebook() -> bool:
    """Whether this code runs in a kernel of Jupyter.

    >>> in_notebook()
    False
    """
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return hasattr(shell, "kernel")


class Bar:
    """A bar that shows itself after `PATIENCE` seconds and is renewed at most five times a second.

    Args:
        words: what is counted, such as ``steps``.
    """

    def __init__(self, words: str) -> None:
        self.words, self.begin, self.last = words, time.monotonic(), 0.0
        self.shown: Any = None

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Say that `done` of `total` are done."""
        now = time.monotonic()
        if now - self.begin < PATIENCE or (done < total and now - self.last < 0.2):
            return
        from IPython.display import HTML, display

        self.last, left = now, (now - self.begin) * (total - done) / max(done, 1)
        text = f"{done:,} of {total:,} {self.words}{note}" + (f", about {left:.0f} s left" if done < total else "")
        picture = HTML(f'<progress value="{done}" max="{total}" style="width: 20em"></progress> {text}')
        if self.shown is None:
            self.shown = display(picture, display_id=True)
        else:
            self.shown.update(picture)


def steps_bar() -> Callable[[int, int, float], None] | None:
    """A bar for one run, called with (step, steps, loss); None outside of notebooks."""
    bar = Bar("steps")
    return (lambda step, steps, loss: bar(step, steps, f", loss {loss:.5g}")) if in_notebook() else None


def runs_bar(words: str = "runs") -> Callable[[int, int], None] | None:
    """A bar for many runs, called with (done, in all); None outside of notebooks.

    Args:
        words: what is counted.
    """
    return Bar(words) if in_notebook() else None
