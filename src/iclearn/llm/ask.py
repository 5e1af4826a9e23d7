"""Ask a language model many prompts: what is known is reused, what is new is kept as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

from .answers import Reply
from .cache import ReplyCache

Read = Literal["scale", "text"]


@runtime_checkable
class LanguageModel(Protocol):
    """Anything that answers prompts."""

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
    model: LanguageModel | Callable[[], LanguageModel],
    prompts: Sequence[str],
    cache: ReplyCache,
    *,
    read: Read = "scale",
    progress: Callable[[int, int], None] | None = None,
) -> list[Reply]:
    """The replies to `prompts`, in order. A model given as a function is loaded only if something is missing."""
    missing: dict[str, None] = dict.fromkeys(p for p in prompts if cache.get(read, p) is None)
    asked = list(missing)
    if asked:
        loaded = model if hasattr(model, "replies") else model()  # type: ignore[operator]
        done = len(set(prompts)) - len(asked)
        for index, reply in loaded.replies(asked, read):  # type: ignore[union-attr]
            cache.put(read, asked[index], reply)
            done += 1
            if progress is not None:
                progress(done, len(set(prompts)))
    found = [cache.get(read, prompt) for prompt in prompts]
    assert all(reply is not None for reply in found)
    return found  # type: ignore[return-value]
