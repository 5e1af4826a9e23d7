"""The `iclearn` command. Each subcommand is a thin wrapper over one library function, imported when it is used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from .. import __version__
from ..core.errors import IclearnError

COMMANDS = {
    "train": "train attention on in-context regression (takes the command lines of linattn-icl)",
    "show": "print and plot a stored run",
    "list": "list stored runs",
    "theory": "print what a paper's theory predicts for any sizes",
    "reproduce": "reproduce a paper: figures, and a verdict for every claim",
    "explore": "see attention being trained: a page with everything to move, served here or as one file",
    "report": "one HTML file of everything that was reproduced: verdicts, figures, curves, explorer",
    "sweep": "train every point of a grid, on one machine or many; sweep status DIR says how far it is",
}
MODULES = {"list": "list_runs"}
_USAGE = """usage: iclearn COMMAND [options]

The theory of in-context learning in attention: exact training, closed forms, verdicts.

{commands}

`iclearn COMMAND --help` lists the options of one; `iclearn --version` prints the version."""


def usage() -> str:
    """What `iclearn --help` prints."""
    width = max(map(len, COMMANDS))
    return _USAGE.format(commands="\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line. Every error a user can cause is one line on stderr.

    Args:
        argv: the words after ``iclearn`` (None: those of this process).

    Returns:
        The exit code: 0, 1 where a claim that should hold does not, 2 for bad input, 130 after an interrupt.

    >>> main(["nonsense"])
    2
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] == "--version":
        print(f"iclearn {__version__}")
        return 0
    from .parsing import complain

    name = words[0]
    if name not in COMMANDS:
        return complain("iclearn", f"unknown command {name!r}; commands are {', '.join(COMMANDS)}")
    # a module called `list` would shadow the builtin in this package once imported
    command = importlib.import_module(f".{MODULES.get(name, name)}", __package__)
    try:
        return command.run(words[1:])
    except IclearnError as error:
        return complain(f"iclearn {name}", str(error))
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stdout = None  # type: ignore[assignment]
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"iclearn {name}", f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        print(f"iclearn {name}: interrupted", file=sys.stderr)
        return 130
