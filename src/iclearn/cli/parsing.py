"""Command lines: typed dataclasses read by tyro, with flag prefixes as argparse has them, and one-line errors."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import re
import sys
from collections.abc import Mapping, Sequence
from typing import TypeVar

import tyro

from ..core.errors import IclearnError

ArgsT = TypeVar("ArgsT")


class UsageError(IclearnError):
    """A command line that cannot be understood."""


def _plain(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_").lower()


def expand_flags(argv: Sequence[str], fields: Sequence[str], aliases: Mapping[str, str]) -> list[str]:
    """Spell out every flag: aliases become fields, and unambiguous prefixes their flag.

    Prefixes of the public code's flags (the aliases) come first, so its command lines mean what they meant.

    >>> expand_flags(["--head", "8"], ["num_heads"], {"head_num": "num_heads"})
    ['--num-heads', '8']
    """
    known = {name.lower(): name for name in fields} | {a.lower(): f for a, f in aliases.items()}
    expanded = []
    for position, word in enumerate(argv):
        if word == "--":
            return expanded + list(argv[position:])
        if not word.startswith("--"):
            expanded.append(word)
            continue
        flag, equals, value = word.partition("=")
        name = _plain(flag)
        if name == "help":
            expanded.append(word)
            continue
        if name in known:
            targets = {known[name]}
        else:
            public = {f for a, f in aliases.items() if a.lower().startswith(name)}
            targets = public or {f for n, f in known.items() if n.startswith(name)}
        if not targets:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean --{close[0].replace('_', '-')}?" if close else ""
            raise UsageError(f"unknown flag {flag}{hint}")
        if len(targets) > 1:
            options = ", ".join(sorted(f"--{t.replace('_', '-')}" for t in targets))
            raise UsageError(f"{flag} could mean {options}: write it out")
        expanded.append(f"--{targets.pop().replace('_', '-')}{equals}{value}")
    return expanded


def parse(cls: type[ArgsT], argv: Sequence[str], prog: str, aliases: Mapping[str, str] | None = None) -> ArgsT:
    """Read a command line into `cls`. Bad input raises `UsageError` with one line; --help prints and exits 0."""
    fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    if "-h" in argv or "--help" in argv:
        tyro.cli(cls, prog=prog, args=["--help"], config=config)
    words = expand_flags(argv, fields, aliases or {})
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured), contextlib.redirect_stdout(captured):
            return tyro.cli(cls, prog=prog, args=words, config=config)
    except SystemExit as stop:
        raise UsageError(_one_line(captured.getvalue()) or f"could not read the command line ({stop.code})") from None


def _one_line(text: str) -> str:
    """The sentence of tyro's framed message: not its title, its help text, its frame or its colors."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    text = re.sub(r"[│╭╮╰╯┃]", " ", text)
    parts = [" ".join(part.split()) for part in re.split(r"(?:-|─|━){3,}", text)]
    sentences = [p for p in parts if p and not p.startswith(("For full helptext", "Argument helptext"))]
    message = sentences[min(1, len(sentences) - 1)] if sentences else ""
    return message.removesuffix(".")


def complain(command: str, message: str) -> int:
    """One line on stderr, and the exit code for bad input."""
    print(f"{command}: {' '.join(message.split())}", file=sys.stderr)
    return 2
