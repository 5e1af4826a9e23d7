"""A real HTTP server speaking the OpenAI completions protocol, and, on request, misbehaving."""

from __future__ import annotations

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SCALE = [0.05, 0.05, 0.1, 0.5, 0.2, 0.1]


def legacy(probabilities=SCALE) -> dict[str, Any]:
    """Log-probabilities as vLLM sends them; a blank token comes first, as many tokenizers write it."""
    tops = {f" {i}" if i % 2 else str(i): math.log(p) for i, p in enumerate(probabilities)}
    return {"tokens": [" ", "3"], "top_logprobs": [{" ": -0.01, "\n": -5.0}, {**tops, "x": -9.0}]}


def content(probabilities=SCALE) -> dict[str, Any]:
    """Log-probabilities as llama.cpp sends them."""
    tops = [{"token": str(i), "logprob": math.log(p)} for i, p in enumerate(probabilities)]
    return {"content": [{"token": "3", "logprob": math.log(0.5), "top_logprobs": tops}]}


class FakeServer:
    """Use as a context. `mode`: ok, content, none, odd, garbage, html, refuse, broken, flaky or drop."""

    def __init__(self, mode: str = "ok", answers: float = math.inf, fail_after: int | None = None) -> None:
        self.mode, self.answers, self.fail_after = mode, answers, fail_after
        self.go_on = threading.Event()  # until then, requests beyond the number of `answers` wait
        self.prompts: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.lock = threading.Lock()

    def __enter__(self) -> FakeServer:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def send(self, code: int, body: str) -> None:
                data = body.encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self):
                outer.keys.add(self.headers.get("Authorization"))
                self.send(200, json.dumps({"data": [{"id": "tiny"}]}))

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    outer.prompts.append(request["prompt"])
                    outer.requests.append(request)
                    number = len(outer.prompts)
                if number > outer.answers:
                    outer.go_on.wait()
                mode = outer.mode
                if outer.fail_after is not None and number <= outer.fail_after:
                    mode = "ok"
                if mode == "flaky":
                    mode = "broken" if number == 1 else "ok"
                try:
                    if mode == "drop":
                        self.connection.close()
                    elif mode == "broken":
                        self.send(500, "try later")
                    elif mode == "refuse":
                        self.send(400, '{"error": "no such model"}')
                    elif mode == "html":
                        self.send(200, "<html>hello</html>")
                    elif mode == "garbage":
                        self.send(200, '{"choices": "nothing"}')
                    else:
                        logprobs = {"ok": legacy(), "content": content(), "none": None, "odd": {"tokens": 3}}[mode]
                        self.send(200, json.dumps({"choices": [{"text": " 3", "logprobs": logprobs}]}))
                except OSError:
                    pass  # the client went away

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()
