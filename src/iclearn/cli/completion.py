"""`iclearn completion SHELL`: a script that completes commands, papers and flags, written by tyro."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from .parsing import parse

# The dataclass of each command's flags; `theory` has one a paper instead.
FLAGS = {
    "train": "train_flags.TrainArgs", "show": "show.ShowArgs", "list": "list_runs.ListArgs",
    "reproduce": "reproduce.ReproduceArgs", "verify": "verify.VerifyArgs", "explore": "explore.ExploreArgs",
    "report": "report.ReportArgs", "sweep": "sweep.SweepArgs", "doctor": "doctor.DoctorArgs", "cite": "cite.CiteArgs",
    "completion": "completion.CompletionArgs", "evaluate": "evaluate.EvaluateArgs", "llm": "llm.LlmArgs",
}  # fmt: skip


@dataclass(frozen=True)
class CompletionArgs:
    """Print a completion script.

    bash: iclearn completion bash > ~/.local/share/bash-completion/completions/iclearn

    zsh: iclearn completion zsh > a file _iclearn in a folder of $fpath

    fish: iclearn completion fish > ~/.config/fish/completions/iclearn.fish
    """

    shell: Annotated[Literal["bash", "zsh", "fish"], tyro.conf.Positional]
    """Which shell."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn completion``."""
    args = parse(CompletionArgs, argv, "iclearn completion")
    config = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    printed = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(printed):
        tyro.cli(one_of(commands()), prog="iclearn", args=["--tyro-print-completion", args.shell], config=config)
    print(repaired(printed.getvalue(), args.shell), end="")
    return 0


FILES = """
_iclearn() {
  _tyro_iclearn
  [[ -z "${COMPREPLY[*]}" ]] && COMPREPLY=()
}
complete -o bashdefault -o default -F _iclearn iclearn"""


def repaired(script: str, shell: str) -> str:
    """A script of tyro, with what its shells stumble over put right.

    Line ends within help texts would be taken for completions; zsh counts words from 1 and tyro from 0; in bash file
    names are completed where no word fits.

    Args:
        script: what tyro printed.
        shell: which it is for.

    Returns:
        The script to print.
    """
    lines = script.splitlines()
    spec = next(i for i, line in enumerate(lines) if line.startswith("COMPLETION_SPEC = "))
    lines[spec] = re.sub(r"\\+n", " ", lines[spec])
    if shell == "zsh":
        lines = [line.replace('"${words[@]}" "$CURRENT"', '"${words[@]}" "$((CURRENT - 1))"') for line in lines]
    return "\n".join([*lines, *([FILES] if shell == "bash" else []), ""])


def commands() -> dict[str, Any]:
    """The flags of every command, those of single papers and shipped sweeps under their names.

    Returns:
        command → a dataclass whose fields are its flags.
    """
    from . import COMMANDS, sweep

    found: dict[str, Any] = {}
    for name in COMMANDS:
        if name == "theory":
            found[name] = with_words(Nothing, theory_flags(), name)
            continue
        module, _, flags = FLAGS[name].partition(".")
        found[name] = getattr(importlib.import_module(f".{module}", __package__), flags)
    found["reproduce"] = with_words(found["reproduce"], paper_flags(found["reproduce"]), "reproduce")
    found["cite"] = with_words(found["cite"], dict.fromkeys(paper_flags(Nothing), Nothing), "cite")
    shipped = {**dict.fromkeys(sweep.SHIPPED, found["sweep"]), "status": found["sweep"]}
    found["sweep"] = with_words(found["sweep"], shipped, "sweep")
    found["completion"] = with_words(Nothing, dict.fromkeys(("bash", "zsh", "fish"), Nothing), "completion")
    return found


@dataclass(frozen=True)
class Nothing:
    """No flags."""


def paper_flags(base: type) -> dict[str, Any]:
    """Paper → the flags of ``base`` and those that this paper alone takes."""
    from ..core.registry import PAPERS
    from ..papers.collect import load_paper

    found: dict[str, Any] = {}
    for name in PAPERS.names():
        own: Any = load_paper(name).options
        taken = {field.name for field in fields(base)}
        more = [field.name for field in fields(own) if field.name not in taken] if own is not None else []
        found[name] = make_dataclass("Flags", [(field, str, "") for field in more], bases=(base,), frozen=True)
    return found


def theory_flags() -> dict[str, Any]:
    """Theory → the flags of ``iclearn theory`` for it."""
    from ..core.registry import THEORIES
    from .theory import Output

    names: list[str] = list(THEORIES.names())
    return {
        name: make_dataclass("Flags", [], bases=(Output, THEORIES.get(name).Options), frozen=True) for name in names
    }


def with_words(base: type, words: Mapping[str, Any], name: str) -> type:
    """Flags, and words one of which may come in their place; after it the flags of that word are completed."""
    return make_dataclass(name, [("word", one_of(words))], bases=(base,), frozen=True, kw_only=True)


def one_of(classes: Mapping[str, Any]) -> Any:
    """The union of these dataclasses, each under the word of a command line that stands for it."""
    words = (Annotated[cls, tyro.conf.subcommand(word, prefix_name=False)] for word, cls in classes.items())
    return Union[tuple(words)]  # noqa: UP007
