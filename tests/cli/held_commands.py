"""Commands that wait, at the first place where they can stop, until a test has seen what it waits for."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

LIMIT = 600.0  # of anything; only so that nothing hangs for ever
# Read by every Python that is started with this folder on its path, worker processes included.
SITE = """
import os, time
from pathlib import Path
from iclearn.core import interrupts

here = Path(__file__).parent

def hold(call):
    def held(*words):
        while not interrupts._State.requested and not (here / "go").exists() and any(Path().glob({after!r})):
            (here / "held").touch()
            time.sleep(0.01)
        return call(*words)
    return held

interrupts.requested, interrupts.check = hold(interrupts.requested), hold(interrupts.check)
"""


class HeldCommand(subprocess.Popen):
    """`iclearn` with these words in a folder; it waits once a file is there, until it is interrupted or told to go on.

    Args:
        words: of the command.
        folder: where it runs.
        after: the pattern of the file.
        changes: environment variables.
    """

    def __init__(self, words: list[str], folder: Path, after: str, **changes: str) -> None:
        self.signs = folder / "signs"
        self.signs.mkdir()
        (self.signs / "sitecustomize.py").write_text(SITE.format(after=after))
        paths = os.pathsep.join([str(self.signs), *filter(None, [os.environ.get("PYTHONPATH")])])
        super().__init__(
            [sys.executable, "-m", "iclearn", *words], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths, **changes},
        )  # fmt: skip

    def until_held(self) -> None:
        until((self.signs / "held").exists, self)

    def go_on(self) -> None:
        (self.signs / "go").touch()


def until(event: Callable[[], object], process: subprocess.Popen | None = None) -> None:
    """Wait for something that a process does before it ends."""
    end = time.monotonic() + LIMIT
    while not event():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.02)
