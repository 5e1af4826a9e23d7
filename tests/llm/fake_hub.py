"""A small model hub on loopback: it serves files as the real one does, and can break off in the middle of one."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class FakeHub:
    """Serves ``files`` (path in the repository → bytes) at any repository and revision.

    Args:
        files: what it has.
        hold: after so many bytes of a file it waits for the event ``go_on``.
    """

    def __init__(self, files: dict[str, bytes], hold: int | None = None) -> None:
        self.files, self.hold = files, hold
        self.asked: list[tuple[str, str, str, str, int]] = []
        self.sent, self.go_on = threading.Event(), threading.Event()
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def _begin(self) -> tuple[bytes, int] | None:
                head, _, rest = self.path.partition("/resolve/")
                revision, _, name = rest.partition("/")
                content = hub.files.get(name)
                first = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
                hub.asked.append((self.command, head.strip("/"), revision, name, first))
                if content is None:
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return None
                self.send_response(206 if first else 200)
                self.send_header("X-Repo-Commit", "c" * 40)
                self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
                self.send_header("Content-Length", str(len(content) - first))
                self.send_header("Accept-Ranges", "bytes")
                if first:
                    self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
                self.end_headers()
                return content, first

            def do_HEAD(self) -> None:
                self._begin()

            def do_GET(self) -> None:
                begun = self._begin()
                if begun is None:
                    return
                content, first = begun
                with contextlib.suppress(ConnectionError):
                    if hub.hold is not None and not hub.go_on.is_set():
                        self.wfile.write(content[first : hub.hold])
                        self.wfile.flush()
                        hub.sent.set()
                        hub.go_on.wait()
                        first = hub.hold
                    self.wfile.write(content[first:])

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> FakeHub:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()
