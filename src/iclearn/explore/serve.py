"""The explorer served on this machine: one page, one websocket a tab, Python behind it.

Only a browser that was given the address with its token gets in, and only pages from this very address may talk to it:
Host and Origin are compared exactly, which also keeps out other names that resolve to this machine. The token becomes a
cookie (named by the port, because cookies do not know ports) and is taken out of the address at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import tornado.httpserver
import tornado.netutil
import tornado.web
import tornado.websocket

from ..core.errors import IclearnError
from .bundle import encoded, page_html, seed_normals
from .python_runs import Superseded, run_for_page
from .settings import Setting

HOST = "127.0.0.1"
_LARGEST = 65_536  # bytes of a message from the page
_MOST_OPEN = 4  # requests of one tab whose answers it has not taken; it is not read from meanwhile
_PATIENCE = 20.0  # seconds for the headers of a request, and for a tab to answer a ping


class Access:
    """Who may come in: the token, the cookie it becomes, and the only Host and Origin that are answered.

    Args:
        port: that is listened on.
    """

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.host, self.origin, self.cookie = f"{HOST}:{port}", f"http://{HOST}:{port}", f"iclearn-explore-{port}"

    def same(self, given: str | None) -> bool:
        """Whether this is the token; takes as long for a wrong one."""
        return given is not None and hmac.compare_digest(given.encode(), self.token.encode())


class _Quiet(tornado.web.RequestHandler):
    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Nothing of a request that is refused is logged: its address may hold the token."""
        if not isinstance(value, tornado.web.HTTPError):
            super().log_exception(typ, value, tb)


class _Guarded(_Quiet):
    def initialize(self, access: Access, page: str) -> None:
        self.access, self.page = access, page

    def prepare(self) -> None:
        if self.request.host != self.access.host:
            raise tornado.web.HTTPError(403, "this server answers to one address only")

    def allowed(self) -> bool:
        return self.access.same(self.get_cookie(self.access.cookie))


class PageHandler(_Guarded):
    """``/``: takes the token out of the address, then the page."""

    def get(self) -> None:
        self.set_header("Cache-Control", "no-store")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("X-Frame-Options", "DENY")
        if (given := self.get_query_argument("token", None)) is not None:
            if not self.access.same(given):
                raise tornado.web.HTTPError(403, "wrong token")
            self.set_cookie(self.access.cookie, self.access.token, httponly=True, samesite="Strict", path="/")
            self.redirect("/")
        elif self.allowed():
            self.finish(self.page)
        else:
            raise tornado.web.HTTPError(403, "open the address that `iclearn explore` printed")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None))[1]
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{status_code}: {getattr(error, 'log_message', None) or self._reason}\n")


class Socket(_Quiet, tornado.websocket.WebSocketHandler):
    """``/socket``: one tab. A newer run ends an older one, which is stale."""

    def initialize(self, access: Access, pool: ThreadPoolExecutor) -> None:
        self.access, self.pool = access, pool
        self.newest: asyncio.Future[dict[str, Any]] | None = None
        self.busy: set[asyncio.Task[None]] = set()

    def on_close(self) -> None:
        for task in self.busy:  # nobody waits for the answers
            task.cancel()

    def prepare(self) -> None:
        if self.request.host != self.access.host or not self.access.same(self.get_cookie(self.access.cookie)):
            raise tornado.web.HTTPError(403)

    def check_origin(self, origin: str) -> bool:
        return origin == self.access.origin

    async def on_message(self, message: str | bytes) -> None:
        """Answer beside reading on: the next message must be heard while this one is worked on.

        While too many answers are open the connection is not read: a tab that does not take its answers fills its own
        buffers, not the server's, and is closed when it has not answered a ping.
        """
        task = asyncio.get_running_loop().create_task(self.reply(message))
        self.busy.add(task)
        task.add_done_callback(self.busy.discard)
        if len(self.busy) >= _MOST_OPEN:
            await asyncio.wait(self.busy, return_when=asyncio.FIRST_COMPLETED)

    async def reply(self, message: str | bytes) -> None:
        """Send the answer to a message, or a sentence that says why there is none."""
        identity = None
        try:
            asked = json.loads(message)
            if not isinstance(asked["id"], int):
                raise IclearnError("the id of a message must be a whole number")
            identity = asked["id"]
            answer = await self.answer(asked["what"], asked)
        except IclearnError as error:
            answer = {"error": str(error)}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            answer = {"error": f"a message that cannot be read: {type(error).__name__}: {error}"}
        except Exception as error:  # the tab goes on
            answer = {"error": f"this could not be trained: {type(error).__name__}: {error}".split("\n")[0]}
        with contextlib.suppress(tornado.websocket.WebSocketClosedError):  # the tab was closed meanwhile
            await self.write_message(json.dumps({**answer, "id": identity}))

    async def answer(self, what: str, asked: dict[str, Any]) -> dict[str, Any]:
        """What one message asks for, computed in another thread."""
        loop = asyncio.get_running_loop()
        if what == "normals":
            seed = asked["seed"]
            if not isinstance(seed, int) or not 0 <= seed < 2**63:
                raise IclearnError(f"the seed must be a whole number from 0 on, not {seed!r}")
            rows = await loop.run_in_executor(None, seed_normals, seed)  # takes a millisecond: waits for no run
            return {"normals": {name: encoded(row) for name, row in rows.items()}}
        if what == "run":
            setting, ended = Setting.read(asked["setting"]), threading.Event()
            if self.newest is not None:
                self.newest.cancel()
            self.newest = loop.run_in_executor(self.pool, _run, setting, ended)
            try:
                return await self.newest
            except asyncio.CancelledError:
                return {"stale": True}
            finally:
                ended.set()
        raise IclearnError(f"there is nothing called {what!r} to ask for")


def _run(setting: Setting, ended: threading.Event) -> dict[str, Any]:
    """A run for the page, given up once nobody waits for it; its sentence says where numbers overflow."""
    with np.errstate(all="ignore"):
        try:
            return run_for_page(setting, wanted=lambda: not ended.is_set())
        except Superseded:
            return {"stale": True}


def _log(handler: tornado.web.RequestHandler) -> None:
    """Nothing of a request is logged: an address may hold the token."""


class Explorer:
    """A served explorer.

    Args:
        port: to listen on (0: any free one).

    Use `start` inside a running event loop; `url` is the address to open.
    """

    def __init__(self, port: int = 0) -> None:
        self.sockets = tornado.netutil.bind_sockets(port, HOST)
        self.port = self.sockets[0].getsockname()[1]
        self.access = Access(self.port)
        self.pool = ThreadPoolExecutor(2)  # so that one tab's long run does not keep another waiting

    @property
    def url(self) -> str:
        return f"{self.access.origin}/?token={self.access.token}"

    def start(self) -> None:
        """Begin to answer."""
        page = page_html(server={"python": True})
        own = {"access": self.access}
        routes: list[Any] = [
            ("/", PageHandler, {**own, "page": page}), ("/socket", Socket, {**own, "pool": self.pool}),
        ]  # fmt: skip
        application = tornado.web.Application(
            routes, log_function=_log, websocket_max_message_size=_LARGEST, websocket_ping_interval=_PATIENCE,
            websocket_ping_timeout=_PATIENCE,
        )  # fmt: skip
        # no request has a body: one that announces any is refused before it is read (0 would be tornado's own limit)
        self.server = tornado.httpserver.HTTPServer(
            application, max_body_size=1, body_timeout=_PATIENCE, idle_connection_timeout=_PATIENCE
        )
        self.server.add_sockets(self.sockets)

    def stop(self) -> None:
        """Answer no more."""
        self.server.stop()
        self.pool.shutdown(wait=False, cancel_futures=True)


def serve(port: int, ready: Callable[[str], None]) -> None:
    """Serve the explorer until interrupted.

    Args:
        port: to listen on (0: any free one).
        ready: called with the address, token included, once it is answered.
    """

    async def main() -> None:
        explorer = Explorer(port)
        explorer.start()
        ready(explorer.url)
        try:
            await asyncio.Event().wait()
        finally:
            explorer.stop()

    asyncio.run(main())
