"""`iclearn theory PAPER`: what the theory predicts, for any sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, make_dataclass
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from ..core.registry import THEORIES
from .output import json_text
from .parsing import complain, parse


@dataclass(frozen=True)
class Output:
    """What every theory takes beside its own options."""

    json: bool = False
    """Print JSON."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn theory``."""
    names = ", ".join(THEORIES.names())
    if not argv or argv[0].startswith("-"):
        if argv and argv[0] in ("-h", "--help"):
            papers = names.replace(", ", ",")
            print(f"usage: iclearn theory {{{papers}}} [options]   (--help after the paper lists them)")
            return 0
        return complain("iclearn theory", f"name a paper first: {names}")
    theory = THEORIES.get(argv[0])
    options = make_dataclass(theory.Options.__name__, [], bases=(Output, theory.Options), frozen=True)
    options.__doc__ = theory.Options.__doc__
    args = parse(options, argv[1:], f"iclearn theory {theory.name}")
    try:
        with np.errstate(all="ignore"):
            found = theory.summary(args)
    except IclearnError:
        raise
    except (ArithmeticError, ValueError, np.linalg.LinAlgError):
        raise IclearnError("these numbers are too large or too small for the formulas in floating point") from None
    show(found, as_json=args.json)
    return 0


def show(summary: dict[str, Any], *, as_json: bool) -> None:
    """A summary as JSON, or a name and its numbers a line."""
    if as_json:
        print(json_text(summary))
        return
    for name, value in summary.items():
        table = isinstance(value, list) and value and isinstance(value[0], dict)  # a line a row
        for row in value if table else [value]:
            print(f"{name:<24} {_text(row)}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, list):
        return " ".join(_text(v) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items())
    return str(value)
