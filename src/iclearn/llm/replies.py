"""Replies of language models: how a score is read from one, how many prompts are asked, and how replies are kept.

An answer is the expected score over the scale's tokens, or a number read from text. A call made once is never made
again, whatever ended the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Protocol, runtime_checkable

import numpy as np

from ..core.errors import IclearnError
from .prompts import SCALE, whole

Read = Literal["scale", "text"]
_NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w])")


@dataclass(frozen=True)
class Reply:
    """What a model answered.

    Args:
        scale: probabilities p_k of the tokens of the marks k = 0, …, 5 (they sum to the mass on the scale), or
        text: what it wrote.

    >>> Reply(scale=(0.0, 0.0, 0.25, 0.5, 0.25, 0.0)).value, Reply(text="about 4.5").mark
    (3.0, 5.0)
    """

    scale: tuple[float, ...] | None = None
    text: str | None = None

    @property
    def value(self) -> float:
        """The score: Σ k p_k / Σ p_k, or the first number of the text on the scale; NaN when there is none."""
        if self.scale is None:
            return parse_score(self.text or "")
        mass = sum(self.scale)
        return sum(k * p for k, p in zip(SCALE, self.scale, strict=True)) / mass if mass > 0 else math.nan

    @property
    def mark(self) -> float:
        """The likeliest mark of the scale, or the mark nearest to the number in the text; NaN when there is none."""
        if not math.isfinite(self.value):
            return math.nan
        return float(SCALE[int(np.argmax(self.scale))] if self.scale is not None else whole(self.value))

    def to_json(self) -> dict[str, Any]:
        """Plain values, as the cache holds them."""
        return {"scale": list(self.scale)} if self.scale is not None else {"text": self.text}

    @classmethod
    def from_json(cls, value: Any) -> Reply:
        """The reply that `to_json` wrote. Raises ValueError for anything else."""
        fields = value if isinstance(value, dict) else {}
        if isinstance(fields.get("text"), str):
            return cls(text=fields["text"])
        scale = fields.get("scale")
        if not isinstance(scale, list) or len(scale) != len(SCALE):
            raise ValueError("no reply")
        return cls(scale=tuple(float(p) for p in scale))


def parse_score(text: str) -> float:
    """The first number of a text that lies on the scale; NaN when there is none.

    >>> parse_score(" 3.5 out of 5"), parse_score("Score: 4"), parse_score("seven")
    (3.5, 4.0, nan)
    """
    numbers = (float(match.group(1)) for match in _NUMBER.finditer(text))
    return next((number for number in numbers if SCALE[0] <= number <= SCALE[-1]), math.nan)


def check_readable(replies: list[Reply]) -> None:
    """Refuse replies of which more than half carry no score, showing one of them."""
    lost = [reply for reply in replies if not math.isfinite(reply.value)]
    if 2 * len(lost) > len(replies):
        shown = repr((lost[0].text or "")[:40]) if lost[0].scale is None else "no token of the scale"
        advice = "use another model, or read log-probabilities with --read scale"
        raise IclearnError(f"{len(lost)} of {len(replies)} answers hold no number from 0 to 5 (e.g. {shown}): {advice}")


class ReplyCache:
    """An append-only file of replies, one line each, keyed by the hash of model, way of reading and prompt.

    A process killed in the middle of a line loses that line and nothing else. Prompts themselves are not stored. `len`
    of it is the number of replies. For an example see `ask`.

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
        """The hash under which the reply to a prompt is kept."""
        return hashlib.sha256(json.dumps([self.identity, read, prompt]).encode()).hexdigest()

    def get(self, read: str, prompt: str) -> Reply | None:
        """The reply to a prompt, where it is known."""
        return self._known.get(self.key(read, prompt))

    def put(self, read: str, prompt: str, reply: Reply) -> None:
        """Keep a reply; it is with the operating system when this returns."""
        key = self.key(read, prompt)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab")
            if self.path.stat().st_size and not self.path.read_bytes().endswith(b"\n"):
                self._file.write(b"\n")  # after a line cut short
        self._file.write(json.dumps({"key": key, "reply": reply.to_json()}).encode() + b"\n")
        self._file.flush()
        self._known[key] = reply

    def __len__(self) -> int:
        return len(self._known)

    def close(self) -> None:
        """Close the file; the next `put` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that answers prompts: `local.LocalModel`, `ServerModel`, or your own (for an example see `ask`)."""

    @property
    def identity(self) -> str:
        """What determines its replies."""
        ...

    @property
    def device(self) -> str:
        """Where it runs, in words."""
        ...

    def replies(self, prompts: Sequence[str], read: Read) -> Iterator[tuple[int, Reply]]:
        """Replies with the index of their prompt, in any order, as soon as each is there."""
        ...


def ask(
    model: LanguageModel | Callable[[], LanguageModel], prompts: Sequence[str], cache: ReplyCache, *,
    read: Read = "scale", progress: Callable[[int, int], None] | None = None,
) -> list[Reply]:  # fmt: skip
    """The replies to `prompts`, in order. What is known is reused, what is new is kept as it comes.

    Args:
        model: the model, or a function that loads it, which is called only if a reply is missing.
        prompts: what to ask; prompts that occur twice are asked once.
        cache: where replies are kept.
        read: answers as probabilities of the ``scale``'s tokens, or as ``text``.
        progress: called with (prompts answered, prompts in all).

    >>> import tempfile
    >>> class Constant:
    ...     identity, device = "always 3", "here"
    ...     def replies(self, prompts, read):
    ...         yield from ((i, Reply(text="3")) for i in range(len(prompts)))
    >>> cache = ReplyCache(tempfile.mkdtemp(), Constant.identity)
    >>> [reply.value for reply in ask(Constant(), ["a", "b", "a"], cache, read="text")], len(cache)
    ([3.0, 3.0, 3.0], 2)
    """
    asked = list(dict.fromkeys(p for p in prompts if cache.get(read, p) is None))
    if asked:
        loaded: Any = model if hasattr(model, "replies") else model()  # type: ignore[operator]
        total = len(set(prompts))
        for done, (index, reply) in enumerate(loaded.replies(asked, read), start=total - len(asked) + 1):
            cache.put(read, asked[index], reply)
            if progress is not None:
                progress(done, total)
    replies = [cache.get(read, prompt) for prompt in prompts]
    assert all(reply is not None for reply in replies)
    return replies  # type: ignore[return-value]
