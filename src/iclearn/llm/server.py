"""Language models behind an OpenAI-compatible server (vLLM, llama.cpp, Ollama, …), over plain HTTP."""

from __future__ import annotations

import http.client
import json
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any

from ..core.errors import IclearnError
from .prompts import SCALE
from .replies import Read, Reply

TOP = 20  # log-probabilities asked for: more than this is refused by many servers
NEW_TOKENS = 6


class ServerModel:
    """A model served at a URL: a `LanguageModel`, which `ask` takes; there is an example.

    Answers are read from the log-probabilities of the first token that is not blank, or from the text. A subclass that
    knows its tokenizer sets what to write after "Score:" so that one token completes the answer.

    Args:
        url: up to and with the version, e.g. ``http://localhost:8000/v1``.
        name: the model's name there; the first one listed when not given.
        timeout: seconds to wait for one answer.
        retries: how often an unanswered request is sent again.
        workers: requests under way at once.
    """

    path = "completions"
    joiner = ""
    top = TOP
    scale_tokens = NEW_TOKENS  # generated to read the probabilities of the marks

    def __init__(
        self, url: str, name: str | None = None, *, timeout: float = 60.0, retries: int = 2, workers: int = 8
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout, self.retries, self.workers = timeout, retries, workers
        self.name = name or self._first_name()
        self.identity = f"server {self.url} {self.name}"
        self.device = f"server {self.url}"

    def replies(self, prompts: Sequence[str], read: Read) -> Iterator[tuple[int, Reply]]:
        """Replies as they come. When a request fails, those already under way are still handed over."""
        failed: BaseException | None = None
        with ThreadPoolExecutor(self.workers) as pool:
            waiting: dict[Future[Reply], int] = {pool.submit(self.reply, p, read): i for i, p in enumerate(prompts)}
            for future in as_completed(waiting):
                if future.cancelled():
                    continue
                if (error := future.exception()) is None:
                    yield waiting[future], future.result()
                elif failed is None:
                    failed = error
                    for other in waiting:
                        other.cancel()
        if failed is not None:
            raise failed

    def reply(self, prompt: str, read: Read) -> Reply:
        """The reply to one prompt."""
        request: dict[str, Any] = {"model": self.name, "prompt": prompt, "max_tokens": NEW_TOKENS, "temperature": 0}
        if read == "scale":
            request |= {"prompt": prompt + self.joiner, "max_tokens": self.scale_tokens, "logprobs": self.top}
        answer = self._call(self.path, request)
        try:
            choice = answer["choices"][0]
            text = choice["text"]
            if not isinstance(text, str):
                raise TypeError
        except (KeyError, IndexError, TypeError):
            raise self._nonsense(answer) from None
        return Reply(text=text) if read == "text" else Reply(scale=self._scale(choice))

    def _scale(self, choice: dict[str, Any]) -> tuple[float, ...]:
        """Probabilities of the marks at the first token that is not blank, in either form servers send."""
        given = choice.get("logprobs")
        if not given:
            raise IclearnError(f"{self.url} gives no log-probabilities for {self.name}: use --read text")
        mass = {str(mark): 0.0 for mark in SCALE}
        try:
            if "content" in given:
                places = [(p["token"], {t["token"]: t["logprob"] for t in p["top_logprobs"]}) for p in given["content"]]
            else:
                places = list(zip(given["tokens"], given["top_logprobs"], strict=True))
            first = next((tops for token, tops in places if token.strip()), {})
            for text, logprob in first.items():
                if text.strip() in mass:
                    mass[text.strip()] += math.exp(float(logprob))
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise self._nonsense(given) from None
        return tuple(mass.values())

    def _first_name(self) -> str:
        answer = self._call("models", None)
        try:
            return str(answer["data"][0]["id"])
        except (KeyError, IndexError, TypeError):
            raise self._nonsense(answer) from None

    def _nonsense(self, answer: Any) -> IclearnError:
        shown = " ".join(json.dumps(answer).split())[:80]
        return IclearnError(f"{self.url} did not answer as an OpenAI-compatible server does: {shown}")

    def _call(self, path: str, body: dict[str, Any] | None) -> Any:
        """One request, sent again when it is not answered; answers known to be refusals are not repeated."""
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get("ICLEARN_API_KEY"):
            headers["Authorization"] = f"Bearer {key}"
        data = None if body is None else json.dumps(body).encode()
        late = f"did not answer within {self.timeout:g} s"
        reason = text = ""
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(min(0.5 * 2**attempt, 10.0))
            try:
                request = urllib.request.Request(f"{self.url}/{path}", data=data, headers=headers)
                with urllib.request.urlopen(request, timeout=self.timeout) as response:
                    text = response.read().decode("utf-8", "replace")
                return json.loads(text)
            except json.JSONDecodeError:
                raise self._nonsense(text[:80]) from None
            except urllib.error.HTTPError as error:
                content = " ".join(error.read(400).decode("utf-8", "replace").split())[:120]
                reason = f"answered {error.code} ({content})"
                if error.code < 500 and error.code != 429:
                    break
            except TimeoutError:
                reason = late
            except (urllib.error.URLError, http.client.HTTPException, ConnectionError) as error:
                cause = getattr(error, "reason", error)
                reason = late if isinstance(cause, TimeoutError) else f"cannot be reached ({cause})"
            except ValueError as error:
                raise IclearnError(f"{self.url} is no address of a server: {error}") from None
        kept = "what was answered before is kept, the same command goes on from there"
        raise IclearnError(f"{self.url} {reason}: {kept}")
