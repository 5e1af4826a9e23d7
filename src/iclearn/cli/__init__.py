"""The `iclearn` command. Each subcommand is a thin wrapper over one library function, imported when it is used."""

from __future__ import annotations

import gc
import importlib
import logging
import os
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
    "evaluate": "errors of runs and predictors under shifts of the law of prompts, on the same prompts",
    "verify": "compute every quantity of golden files (.npz) again and compare",
    "explore": "see attention being trained: a page with everything to move, served here or as one file",
    "report": "one HTML file of everything that was reproduced: verdicts, figures, curves, explorer",
    "sweep": "train every point of a grid, on one machine or many; sweep status DIR says how far it is",
    "llm": "get the files of a language model: llm fetch MODEL",
    "doctor": "what this machine has (devices, caches, extras), and whether a known number comes out",
    "cite": "how to cite iclearn and the papers it implements",
    "completion": "print a script that completes commands and flags in bash, zsh or fish",
}
RESUMING = ("train", "reproduce", "sweep", "llm")  # go on from what they have stored
MODULES = {"list": "list_runs"}
_USAGE = """usage: iclearn COMMAND [options]

The theory of in-context learning in attention: exact training, closed forms, verdicts.

{commands}

`iclearn COMMAND --help` lists the options of one; `iclearn --version` prints the version.

  iclearn train --model attnS --heads 5 --init 1e-2 --steps 10001 --lr 0.02 --plot loss.png
  iclearn reproduce zhang2025 fig4 --seeds 8
  iclearn sweep examples/sweeps/learning-rate.yaml --out lr"""


def usage() -> str:
    """What `iclearn --help` prints."""
    width = max(map(len, COMMANDS))
    return _USAGE.format(commands="\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line. Every error a user can cause is one line on stderr.

    Args:
        argv: the words after ``iclearn`` (None: those of this process).

    Returns:
        The exit code: 0, 1 where a result is not the one expected (a claim that should hold does not, a stored verdict
        or golden file differs), 2 where the command is wrong, 130 after an interrupt.

    >>> main(["nonsense"])
    2
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"] and words[1:2] and words[1] in COMMANDS:
        words = [words[1], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"iclearn {__version__}")
        return 0
    from .output import warnings_in_one_line
    from .parsing import complain

    name = words[0]
    if name not in COMMANDS:
        return complain("iclearn", f"unknown command {name!r}; commands are {', '.join(COMMANDS)}")
    # a module called `list` would shadow the builtin in this package once imported
    command = importlib.import_module(f".{MODULES.get(name, name)}", __package__)
    try:
        with warnings_in_one_line(f"iclearn {name}"):
            return command.run(words[1:])
    except IclearnError as error:
        return complain(f"iclearn {name}", str(error))
    except BrokenPipeError:  # the reader of our output went away, as `| head` does
        sys.stdout = None  # type: ignore[assignment]
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"iclearn {name}", f"{where}{error.strerror or error}")
    except (ArithmeticError, MemoryError) as error:
        return complain(f"iclearn {name}", beyond(error))
    except Exception as error:
        kind = type(error).__name__
        if kind == "LinAlgError" or "RESOURCE_EXHAUSTED" in str(error):
            return complain(f"iclearn {name}", beyond(error))
        if os.environ.get("ICLEARN_TRACEBACK"):
            raise
        report = "please report it with the command; ICLEARN_TRACEBACK=1 shows where it is"
        return complain(f"iclearn {name}", f"this is a bug in iclearn ({kind}: {str(error)[:200]}): {report}")
    except KeyboardInterrupt as stop:
        onward = "; the same command goes on from here" if name in RESUMING else ""
        print(f"iclearn {name}: {stop or 'interrupted'}{onward}", file=sys.stderr)
        return 130


def beyond(error: BaseException) -> str:
    """What to say when numbers or arrays are larger than the machine holds.

    >>> beyond(OverflowError())
    'the numbers given are too large or too small for floating point'
    """
    memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
    if memory:
        return "there is not enough memory for this: choose smaller sizes"
    return "the numbers given are too large or too small for floating point"


def console() -> int:
    """The `iclearn` command of a shell: `main` in a process of its own, which takes care of Ctrl-C.

    Returns:
        The exit code.
    """
    from ..core import interrupts

    gc.set_threshold(100_000, 50, 100)  # importing makes a million objects that stay: looking for garbage took a fifth
    os.environ.setdefault("ICLEARN_KEEP_PROGRAMS", "on")  # `core.kept_programs`
    command = sys.argv[1] if sys.argv[1:] and sys.argv[1] in COMMANDS else ""
    interrupts.install(f"iclearn {command}".strip(), resumes=command in RESUMING)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a λ on a terminal that has none
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # zarr's other writes after one has failed: it is said once
    code = main()
    if code == interrupts.CODE:
        interrupts.leave("")
    gc.freeze()  # or Python looks through all of it once more before it ends, for a third of a second
    return code
