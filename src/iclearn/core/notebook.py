"""Progress: a bar under the cell of a notebook, once something has taken longer than a moment; elsewhere lines."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from .checks import require

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
    """A bar that shows itself after `PATIENCE` seconds and is renewed at most five times a second; where there is no
    notebook, a line on stderr: on a terminal one that changes, elsewhere a new one every ten seconds.

    Args:
        words: what is counted, such as ``steps``.
        patience: seconds before anything is shown.
    """

    def __init__(self, words: str, patience: float) -> None:
        self.words, self.patience, self.begin, self.last = words, patience, time.monotonic(), -math.inf
        self.shown: Any = None

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Say that `done` of `total` are done."""
        now, notebook = time.monotonic(), in_notebook()
        terminal = not notebook and sys.stderr.isatty()
        between = 0.2 if notebook or terminal else 10.0
        if now - self.begin < self.patience or (done < total and now - self.last < between):
            return
        self.last, left = now, (now - self.begin) * (total - done) / max(done, 1)
        rest = f", about {left:.0f} s left" if 0 < done < total else ""
        text = f"{done:,} of {total:,} {self.words}{note}{rest}"
        if not notebook:
            end = "" if terminal and done < total else "\n"
            print(f"\r\033[K{text}" if terminal else text, end=end, file=sys.stderr, flush=True)
            return
        from IPython.display import HTML, display

        picture = HTML(f'<progress value="{done}" max="{total}" style="width: 20em"></progress> {text}')
        if self.shown is None:
            self.shown = display(picture, display_id=True)
        else:
            self.shown.update(picture)


def steps_bar(progress: Any = None) -> Callable[[int, int, float], None] | None:
    """What is called with (step, steps, loss) of one run.

    Args:
        progress: a function of these; True: show them; None: in a notebook; False: never.

    Returns:
        The function, or None where nothing is to be shown.
    """
    bar = runs_bar(progress, "steps")
    return (lambda step, steps, loss: bar(step, steps, f", loss {loss:.5g}")) if isinstance(bar, Bar) else bar


def runs_bar(progress: Any = None, words: str = "runs") -> Any:
    """What is called with (done, in all) of many runs.

    Args:
        progress: as for `steps_bar`.
        words: what is counted.

    Returns:
        The function, or None where nothing is to be shown.
    """
    if progress is True or (progress is None and in_notebook()):
        return Bar(words, 0.0 if progress else PATIENCE)
    require(progress in (None, False) or callable(progress), f"progress is True or a function, not {progress!r}")
    return progress or None
