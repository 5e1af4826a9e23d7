"""Replies kept on disk by content: a call made once is never made again, whatever ended the run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import IO

from .answers import Reply


class ReplyCache:
    """An append-only file of replies, one line each, keyed by the hash of model, way of reading and prompt.

    A process killed in the middle of a line loses that line and nothing else. Prompts themselves are not stored.

    Args:
        folder: where the files are kept, one for each model.
        identity: what determines the model's replies: weights, precision, address.
    """

    def __init__(self, folder: str | Path, identity: str) -> None:
        self.identity = identity
        name = hashlib.sha256(identity.encode()).hexdigest()[:16]
        self.path = Path(folder) / f"replies-{name}.jsonl"
        self._known: dict[str, Reply] = {}
        self._file: IO[bytes] | None = None
        for line in self.path.read_bytes().split(b"\n") if self.path.is_file() else ():
            try:
                entry = json.loads(line)
                self._known[entry["key"]] = Reply.from_json(entry["reply"])
            except (ValueError, KeyError, TypeError):
                continue  # a line cut short

    def key(self, read: str, prompt: str) -> str:
        return hashlib.sha256(json.dumps([self.identity, read, prompt]).encode()).hexdigest()

    def get(self, read: str, prompt: str) -> Reply | None:
        return self._known.get(self.key(read, prompt))

    def put(self, read: str, prompt: str, reply: Reply) -> None:
        """Keep a reply; it is with the operating system when this returns."""
        key = self.key(read, prompt)
        line = json.dumps({"key": key, "reply": reply.to_json()}).encode() + b"\n"
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            torn = self.path.is_file() and not self.path.read_bytes().endswith(b"\n") and self.path.stat().st_size
            self._file = self.path.open("ab")
            if torn:
                self._file.write(b"\n")
        self._file.write(line)
        self._file.flush()
        self._known[key] = reply

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
