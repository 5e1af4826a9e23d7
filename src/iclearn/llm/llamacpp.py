"""Language models on processors, through llama.cpp: a GGUF file, served by a process of our own on loopback.

The process is `python -m iclearn.llm.llamacpp FILE THREADS`: it prints its address, and ends when its standard input
does, so that it never outlives the one that started it.
"""

from __future__ import annotations

import importlib.metadata
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import IclearnError
from ..core.processes import usable_cores
from .extra import need
from .prompts import ANSWER, SCALE
from .replies import Read, Reply
from .server import ServerModel

CONTEXT = 4096  # tokens of prompt and answer


class LlamaCppModel(ServerModel):
    """A GGUF file run by llama.cpp: a `LanguageModel`, which `ask` takes; there is an example.

    Prompts are answered one after another, on all cores. Prompts that begin alike follow each other, and what they
    share is computed once.

    Args:
        path: the file.
        identity: what determines its replies.
        threads: None for one per core.
    """

    path = "v1/completions"
    scale_tokens = 1
    top = 1000

    def __init__(self, path: Path, identity: str, *, threads: int | None = None) -> None:
        need("xllamacpp")
        words = [sys.executable, "-m", __name__, str(path), str(threads or usable_cores())]
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
            assert self._process.stdout is not None
            address, _, version = self._process.stdout.readline().decode().strip().partition(" ")
            log.seek(0)
            reason = [] if address else log.read().decode(errors="replace").strip().splitlines()
        if not address:
            self.close()
            raise IclearnError(f"llama.cpp could not load {path} ({reason[-1][:160] if reason else 'it ended'})")
        super().__init__(address, path.name, timeout=3600.0, workers=1)
        self.identity, self.device = identity, f"{threads or usable_cores()} cores (xllamacpp {version})"
        self.joiner = self._joiner()

    def replies(self, prompts: Sequence[str], read: Read) -> Iterator[tuple[int, Reply]]:
        """Replies with the index of their prompt, in the order of the texts."""
        for i in sorted(range(len(prompts)), key=lambda i: prompts[i]):
            yield i, self.reply(prompts[i], read)

    def _scale(self, choice: dict[str, Any]) -> tuple[float, ...]:
        """No mass on any mark where the likeliest token is half a character, of which llama.cpp tells nothing."""
        return super()._scale(choice) if choice.get("logprobs") else (0.0,) * len(SCALE)

    def _joiner(self) -> str:
        """What to write after "Score:" so that one token completes the answer."""
        for joiner in (" ", ""):
            before = self._tokens(f"\n{ANSWER}{joiner}")
            after = [self._tokens(f"\n{ANSWER} {mark}") for mark in SCALE]
            if all(tokens[:-1] == before for tokens in after):
                return joiner
        raise IclearnError("this tokenizer does not write the marks 0 to 5 as one token each: use --read text")

    def _tokens(self, text: str) -> list[Any]:
        return self._call("tokenize", {"content": text})["tokens"]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def main(path: str, threads: str) -> None:
    """Serve a file until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both: the one that asks says what it means
    xllamacpp = need("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers, parameters.warmup = CONTEXT, 1, 0, False
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = int(threads)
    try:
        server = xllamacpp.Server(parameters)
    except Exception as error:  # whatever it raises for a file that it cannot read
        sys.exit(f"{type(error).__name__}: {error}")
    print(server.listening_address, importlib.metadata.version("xllamacpp"), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
