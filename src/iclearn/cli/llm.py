"""`iclearn llm fetch MODEL`: the files of a language model, in the user's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from .parsing import parse


@dataclass(frozen=True)
class LlmArgs:
    """Get the files of a model for `iclearn reproduce xie2025-llm`, checked against pinned hashes.

    They come from a file of yours (--file), or from the model hub. Models: qwen2.5-coder-1.5b, qwen2.5-coder-0.5b,
    smollm2-135m, and gte-small (sentence vectors for guesses). What came before a break is kept.
    """

    what: Annotated[Literal["fetch"], tyro.conf.Positional]
    """What to do."""
    model: Annotated[str, tyro.conf.Positional]
    """Which model."""
    file: Path | None = None
    """The file, or the folder of its files, where you have it already."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn llm``."""
    args = parse(LlmArgs, argv, "iclearn llm")
    from ..llm.catalog import fetch

    for path in fetch(args.model, args.file):
        print(path)
    return 0
