"""What commands print: JSON that is JSON, and warnings of our own as one line."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..core.errors import IclearnWarning


def json_text(value: Any) -> str:
    """A value as JSON; numbers that JSON does not know are words (``"nan"``, ``"inf"``), and paths are their text.

    >>> from pathlib import Path
    >>> print(json_text({"loss": float("nan"), "out": Path("runs")}))
    {
      "loss": "nan",
      "out": "runs"
    }
    """
    from ..papers.base import plain

    return json.dumps(plain(value), indent=2, allow_nan=False, default=str)


def fields_text(values: Mapping[str, Any]) -> str:
    """Fields and their values in one line, values that are long by their beginning.

    >>> fields_text({"task.noise": 0.25, "seed": 3})
    'task.noise=0.25, seed=3'
    """
    words = {path: str(value) for path, value in values.items()}
    return ", ".join(f"{path}={text if len(text) <= 60 else text[:60] + '…'}" for path, text in words.items())


@contextmanager
def warnings_in_one_line(command: str) -> Iterator[None]:
    """Show the warnings of iclearn as ``COMMAND: message`` on stderr; those of others as Python does.

    Args:
        command: the command at work.
    """
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Any, category: Any, *rest: Any, **more: Any) -> None:
            if issubclass(category, IclearnWarning):
                print(f"{command}: {' '.join(str(message).split())}", file=sys.stderr, flush=True)
            else:
                usual(message, category, *rest, **more)

        warnings.showwarning = show
        warnings.simplefilter("always", IclearnWarning)
        yield
