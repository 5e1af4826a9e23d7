"""`iclearn completion SHELL`: a script that completes commands and flags, written by tyro."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from .parsing import parse


@dataclass(frozen=True)
class CompletionArgs:
    """Print a completion script.

    bash: iclearn completion bash > ~/.local/share/bash-completion/completions/iclearn
    zsh: iclearn completion zsh > a file _iclearn in a folder of $fpath
    """

    shell: Annotated[Literal["bash", "zsh", "tcsh"], tyro.conf.Positional]
    """Which shell."""


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn completion``."""
    args = parse(CompletionArgs, argv, "iclearn completion")
    from .list_runs import ListArgs
    from .reproduce import ReproduceArgs
    from .show import ShowArgs
    from .sweep import SweepArgs
    from .train_flags import TrainArgs

    commands = {
        "train": TrainArgs, "show": ShowArgs, "list": ListArgs, "reproduce": ReproduceArgs, "sweep": SweepArgs,
    }  # fmt: skip
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands, prog="iclearn", args=["--tyro-print-completion", args.shell],
            config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
        )  # fmt: skip
    except SystemExit as end:
        return int(end.code or 0)
    return 0
