"""Command lines: typed dataclasses read by tyro, with flag prefixes as argparse has them, and one-line errors."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import io
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

from ..core.errors import IclearnError

ArgsT = TypeVar("ArgsT")


class UsageError(IclearnError):
    """A command line that cannot be understood."""


def expand_flags(argv: Sequence[str], fields: Sequence[str], aliases: Mapping[str, str]) -> list[str]:
    """Spell out every flag: aliases become fields, and unambiguous prefixes their flag.

    Prefixes of the public code's flags (the aliases) come first, so its command lines mean what they meant.

    Args:
        argv: the words of a command line.
        fields: names of the flags, with underscores.
        aliases: other names of flags → the field that each one is.

    >>> expand_flags(["--head", "8"], ["num_heads"], {"head_num": "num_heads"})
    ['--num-heads', '8']
    """
    public = {alias.lower(): field for alias, field in aliases.items()}
    known = {name.lower(): name for name in fields} | public
    expanded = []
    for position, word in enumerate(argv):
        if word == "--":
            return expanded + list(argv[position:])
        flag, equals, value = word.partition("=")
        name = flag.lstrip("-").replace("-", "_").lower()
        if not word.startswith("--") or name == "help":
            expanded.append(word)
            continue
        targets = {known[name]} if name in known else set()
        for table in (public, known):
            targets = targets or {field for other, field in table.items() if other.startswith(name)}
        options = sorted(f"--{target.replace('_', '-')}" for target in targets)
        if not options:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean --{close[0].replace('_', '-')}?" if close else ""
            raise UsageError(f"unknown flag {flag}{hint}")
        if len(options) > 1:
            raise UsageError(f"{flag} could mean {', '.join(options)}: write it out")
        expanded.append(f"{options[0]}{equals}{value}")
    return expanded


def parse(cls: type[ArgsT], argv: Sequence[str], prog: str, aliases: Mapping[str, str] | None = None) -> ArgsT:
    """Read a command line into a dataclass. Bad input raises `UsageError` with one line; --help prints and exits 0.

    Args:
        cls: its fields are the flags, its docstrings their help.
        argv: the words after the command.
        prog: the command, for the help text.
        aliases: other names of flags → the field that each one is.
    """
    fields = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    if "-h" in argv or "--help" in argv:
        tyro.cli(_for_help(cls), prog=prog, args=["--help"], config=config)
    words = expand_flags(argv, fields, aliases or {})
    _refuse_empty(cls, words)
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured), contextlib.redirect_stdout(captured):
            return tyro.cli(cls, prog=prog, args=words, config=config)
    except SystemExit as stop:
        raise UsageError(_one_line(captured.getvalue()) or f"could not read the command line ({stop.code})") from None


def _for_help(cls: type) -> type:
    """The flags of a class as --help shows them.

    The dataclasses it inherits its flags from are groups, under the names of those classes. Examples in docstrings are
    left out, and so are defaults that are nothing: what is done without such a flag is said in its text.
    """
    groups = [base for base in reversed(cls.__bases__) if dataclasses.is_dataclass(base)]
    needed = [f for group in groups for f in dataclasses.fields(group) if f.init and _has_no_default(f)]
    made, bases = [], ()
    for group in map(_for_help, groups if not needed else ()):  # a group is shown with its defaults
        made.append((re.sub("(Flags|Options)$", "", group.__name__).lower(), group, group()))
    if not made:
        hints, bases = get_type_hints(cls, include_extras=True), (cls,)
        for f in dataclasses.fields(cls):
            again: Any = dataclasses.field(default=f.default, default_factory=f.default_factory)  # type: ignore[call-overload]
            made.append((f.name, _shown(f, hints[f.name]), again))
    shown = dataclasses.make_dataclass(cls.__name__, made, bases=bases, frozen=True)
    text = cls.__doc__ or ""
    text = re.sub("(?m)^    ", "", text) if "\n    Args:" in text else text  # made of two docstrings, before 3.13
    shown.__doc__ = re.sub(r"(?m)^ *>>> .*\n(.*\S.*\n?)*", "", text).replace("``", "`")
    return shown


def _shown(field: dataclasses.Field[Any], hint: Any) -> Any:
    """The type of a flag with the word that stands for its value in the help, where tyro's own would not be plain."""
    kind, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    options = [option for option in get_args(kind) if option is not type(None)]
    choices = next((option for option in (kind, *options) if get_origin(option) is Literal), None)
    listed, positional = get_origin(kind) is tuple, get_args(tyro.conf.Positional[Any])[-1] in marks
    if not (listed or positional or type(None) in get_args(kind)) or any(hasattr(mark, "metavar") for mark in marks):
        return hint
    single = options[0] if options else kind
    word = field.name.upper() if positional else getattr(single, "__name__", "").upper()
    word = "{" + ",".join(get_args(choices)) + "}" if choices is not None else word
    word = f"{word} ..." if listed else word
    nothing = (None, (), dataclasses.MISSING) if listed else (None,)
    quiet = field.default in nothing
    named = f"[{word}]" if positional and quiet else word
    return Annotated[hint, tyro.conf.arg(metavar=named, help_behavior_hint="" if quiet else None)]


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _refuse_empty(cls: type, words: Sequence[str]) -> None:
    """Refuse a flag for a list after which nothing comes, such as an empty variable: it would mean the default."""
    hints = get_type_hints(cls)
    for word, after in zip(words, [*words[1:], "--"], strict=False):
        listed = word.startswith("--") and get_origin(hints.get(word[2:].replace("-", "_"))) is tuple
        if listed and after.startswith("-") and not re.fullmatch(r"-[\d.].*|-inf|-nan", after):
            raise UsageError(f"{word} takes at least one value: none was given")


def _one_line(text: str) -> str:
    """The sentence of tyro's framed message: not its title, its help text, its frame or its colors."""
    text = re.sub(r"[│╭╮╰╯┃]", " ", re.sub(r"\x1b\[[0-9;]*m", "", text))
    parts = [" ".join(part.split()) for part in re.split(r"(?:-|─|━){3,}", text)]
    sentences = [p for p in parts if p and not p.startswith(("For full helptext", "Argument helptext"))]
    message = sentences[min(1, len(sentences) - 1)] if sentences else ""
    unfit = re.search(r"Error parsing (--[\w-]+).*?could be instantiated from.*?\['(.*?)'\]", message)
    if unfit:
        return f"{unfit[1]} cannot be {unfit[2]!r}; `--help` says what it takes"
    number = re.search(r"Error parsing (--[\w-]+): invalid literal for int\(\).*?: '(.*?)'", message)
    if number:
        return f"{number[1]} must be a whole number, not {number[2]!r}"
    return message.removesuffix(".")


def use_device(device: str) -> None:
    """Let JAX run where ``--device`` says: ``auto``, ``cpu`` or ``gpu``. It has to be called before JAX is imported.

    Args:
        device: ``gpu`` is refused where JAX finds none.
    """
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    if device == "gpu":
        before = os.environ.get("JAX_PLATFORMS")
        os.environ["JAX_PLATFORMS"] = "cuda,cpu"
        import jax

        try:
            found = jax.default_backend()
        except RuntimeError:
            found = "none"
        if found in ("cpu", "none"):
            del os.environ["JAX_PLATFORMS"]
            if before is not None:
                os.environ["JAX_PLATFORMS"] = before
            raise IclearnError("--device gpu, but JAX finds no GPU here: use --device auto, or install jax for it")


def complain(command: str, message: str) -> int:
    """One line on stderr, and the exit code for bad input."""
    line = " ".join(message.split())
    shown = line if len(line) <= 1000 else f"{line[:1000]} …"
    print(f"{command}: {shown}".encode(errors="replace").decode(), file=sys.stderr)
    return 2
