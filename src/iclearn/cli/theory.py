"""`iclearn theory PAPER`: what the theory predicts, for any sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..core.errors import IclearnError
from .parsing import complain, parse

PAPERS = ("zhang2025", "xie2025")


@dataclass(frozen=True)
class ZhangArgs:
    """Saddles, plateaus and time scales of linear attention (zhang2025) for any spectrum."""

    eigenvalues: tuple[float, ...] = ()
    """Eigenvalues of the input covariance. Default: 0.4 0.3 0.2 0.1, the paper's D = 4."""
    context: int = 31
    """Context pairs N."""
    heads: int | None = None
    """Number of heads H. Default: D + 1."""
    rank: int = 1
    """Rank R of the key-query weights."""
    init: float = 0.01
    """Scale of the initial weights."""
    normalize: Literal["none", "context", "tokens"] = "none"
    """Sum over tokens (public code), mean over context (paper), or mean over tokens: sets weights and time scales."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class XieArgs:
    """Linear self-attention and one gradient step (xie2025): exact optima for every number of heads."""

    dim: int = 10
    """Dimension d of the inputs."""
    context: int = 10
    """Context pairs C."""
    prior_norm: float = 1.0
    """Norm m of the prior mean of the task vector."""
    noise: float = 0.0
    """Variance of the noise on the context labels."""
    heads: tuple[int, ...] = ()
    """Numbers of heads to list. Default: 1 ... d + 1."""
    json: bool = False
    """Print JSON."""


def run(argv: Sequence[str]) -> int:
    if not argv or argv[0].startswith("-"):
        if argv and argv[0] in ("-h", "--help"):
            print(f"usage: iclearn theory {{{','.join(PAPERS)}}} [options]   (--help after the paper lists them)")
            return 0
        return complain("iclearn theory", f"name a paper first: {', '.join(PAPERS)}")
    if argv[0] not in PAPERS:
        raise IclearnError(f"unknown paper {argv[0]!r}; papers with a theory are {', '.join(PAPERS)}")
    return {"zhang2025": zhang2025, "xie2025": xie2025}[argv[0]](argv[1:])


def zhang2025(argv: Sequence[str]) -> int:
    args = parse(ZhangArgs, argv, "iclearn theory zhang2025")
    from ..theory.zhang2025 import gain_of, summary

    values = args.eigenvalues or (0.4, 0.3, 0.2, 0.1)
    heads = args.heads if args.heads is not None else len(values) + 1
    found = summary(values, args.context, heads, args.rank, args.init, gain=gain_of(args.normalize, args.context))
    show(found, as_json=args.json)
    return 0


def xie2025(argv: Sequence[str]) -> int:
    args = parse(XieArgs, argv, "iclearn theory xie2025")
    from ..theory.xie2025 import summary

    found = summary(args.dim, args.context, args.prior_norm, args.noise, args.heads or None)
    if not args.json:  # a line for every number of heads
        rows = {f"heads {row['num_heads']}": [row["loss"], f"({row['how']})"] for row in found.pop("heads")}
        found = {**found, **rows}
    show(found, as_json=args.json)
    return 0


def show(found: dict[str, Any], *, as_json: bool) -> None:
    """A summary as JSON, or a name and its numbers a line."""
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name:<24} {_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, list):
        return " ".join(_text(v) for v in value)
    if isinstance(value, dict):
        return ", ".join(f"{k} {_text(v)}" for k, v in value.items())
    return str(value)
