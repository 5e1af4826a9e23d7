"""The explorer with Python behind it: who gets in, and what it answers."""

import asyncio
import base64
import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from frames import until

import iclearn as icl
from iclearn.cli import main
from iclearn.explore.python_runs import run_for_page
from iclearn.explore.settings import Setting

tornado = pytest.importorskip("tornado", reason="tornado is not installed (pip install 'iclearn[explore]')")


@contextlib.contextmanager
def served():
    """A real server in a thread of its own."""
    from iclearn.explore.serve import Explorer

    started, made = threading.Event(), {}

    async def main():
        made["server"] = Explorer()
        made["server"].start()
        made["loop"], made["end"] = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await made["end"].wait()
        made["server"].stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert started.wait(600)
    yield made["server"]
    made["loop"].call_soon_threadsafe(made["end"].set)
    thread.join(600)


@pytest.fixture(scope="module")
def explorer():
    with served() as server:
        yield server


def apart(coroutine):
    """Run it in a thread of its own: an open browser keeps an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def get(url, **headers):
    from tornado.httpclient import AsyncHTTPClient, HTTPRequest

    async def main():
        return await AsyncHTTPClient().fetch(
            HTTPRequest(url, headers=headers, follow_redirects=False), raise_error=False
        )

    return apart(main())


def cookie_of(explorer):
    return f"{explorer.access.cookie}={explorer.access.token}"


def talk(explorer, *messages, origin=None, cookie=None, host=None):
    """Send messages over a socket and return the answers."""
    from tornado.httpclient import HTTPRequest
    from tornado.websocket import websocket_connect

    async def main():
        headers = {"Origin": origin or explorer.access.origin, "Cookie": cookie or cookie_of(explorer)}
        if host:
            headers["Host"] = host
        url = f"ws://127.0.0.1:{explorer.port}/socket"
        line = await websocket_connect(HTTPRequest(url, headers=headers))
        answers = []
        for message in messages:
            await line.write_message(message if isinstance(message, str) else json.dumps(message))
        for _ in messages:
            answers.append(json.loads(await asyncio.wait_for(line.read_message(), 200)))
        line.close()
        assert await line.read_message() is None  # closed on both sides, before this event loop ends
        return answers

    return apart(main())


def test_the_token_becomes_a_cookie_and_leaves_the_address(explorer):
    answer = get(explorer.url)
    assert (answer.code, answer.headers["Location"]) == (302, "/")
    cookie = answer.headers["Set-Cookie"]
    assert str(explorer.port) in cookie.partition("=")[0]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    page = get(explorer.access.origin + "/", Cookie=cookie_of(explorer))
    assert page.code == 200
    assert explorer.access.token.encode() not in page.body


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/", {}), ("/?token=wrong", {}), ("/", {"Cookie": "iclearn-explore-1=abc"}), ("/socket", {})],
    ids=["no token", "wrong token", "another cookie", "socket"],
)
def test_without_the_token_nobody_gets_in(explorer, path, headers):
    answer = get(explorer.access.origin + path, **headers)
    assert answer.code == 403
    assert b"<script" not in (answer.body or b"")


@pytest.mark.parametrize("host", ["localhost", "evil.example", "127.0.0.1", "127.0.0.1:1"])
def test_other_hosts_are_refused(explorer, host):
    """Even with the cookie: a name that resolves to this machine is not this address."""
    assert get(explorer.access.origin + "/", Host=host, Cookie=cookie_of(explorer)).code == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1", "http://localhost:80", "null"])
def test_a_foreign_origin_gets_no_socket(explorer, origin):
    from tornado.httpclient import HTTPClientError

    with pytest.raises(HTTPClientError) as refused:
        talk(explorer, {"id": 1, "what": "normals", "seed": 0}, origin=origin)
    assert refused.value.code == 403
    with pytest.raises(HTTPClientError):
        talk(explorer, {"id": 1, "what": "normals", "seed": 0}, cookie="x=y")


def line_to(port, text=""):
    """A connection on which a text was sent, without a browser's or a library's manners."""
    line = socket.create_connection(("127.0.0.1", port), timeout=60)
    line.sendall(text.encode())
    return line


@pytest.mark.parametrize("body", ["Content-Length: 103000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n6000000\r\n"])
@pytest.mark.parametrize("path", ["/", "/socket", "/nothing"])
def test_a_body_is_refused_before_it_is_sent(explorer, path, body):
    with line_to(explorer.port, f"POST {path} HTTP/1.1\r\nHost: {explorer.access.host}\r\n{body}") as line:
        answer = b"".join(iter(lambda: line.recv(4096), b""))  # until the server closes
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_half_a_header_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("iclearn.explore.serve._PATIENCE", 0.1)

    def gone(line):
        with contextlib.suppress(ConnectionError):  # it may have been closed before it sent anything
            return line.recv(1) == b""
        return True

    with served() as server, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(line_to(server.port, "GET / HTTP/1.1\r\nHost: 127.")) for _ in range(200)]
        assert all(map(gone, lines))


def opened(port, access):
    """A tab by hand, whose answers nobody takes."""
    line = line_to(port)
    headers = {
        "Host": access.host, "Origin": access.origin, "Cookie": f"{access.cookie}={access.token}",
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
    }  # fmt: skip
    line.sendall("\r\n".join(["GET /socket HTTP/1.1", *map(": ".join, headers.items()), "", ""]).encode())
    assert line.recv(12) == b"HTTP/1.1 101"
    return line


def normals_asked(count):
    """Messages that ask for 15 kB each, as frames with a mask of zeros."""
    texts = [json.dumps({"id": i, "what": "normals", "seed": i}).encode() for i in range(count)]
    return b"".join(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text for text in texts)


def test_a_tab_that_does_not_read_is_not_read_either(explorer, monkeypatch):
    """The server holds four of its answers at most, and another tab does not wait for it."""
    from iclearn.explore import serve

    most, heard, on_message = serve._MOST_OPEN, [], serve.Socket.on_message

    def hear(self, message):
        heard.append(len(self.busy))
        return on_message(self, message)

    monkeypatch.setattr(serve.Socket, "on_message", hear)
    with opened(explorer.port, explorer.access) as line:
        line.settimeout(1)
        with contextlib.suppress(TimeoutError):  # what the server does not read
            line.sendall(normals_asked(4000))
        assert talk(explorer, {"id": 1, "what": "normals", "seed": 0})[0]["normals"]
    assert max(heard) < most


def resident(pid):
    """Memory of a process in MB, now and at most."""
    told = dict(row.split(":", 1) for row in Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(told[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc, which is not here")
def test_memory_comes_back():
    """200 half headers, eight uploads of 103 MB, and 20,000 answers that a tab does not read."""
    from types import SimpleNamespace

    words = [sys.executable, "-m", "iclearn", "explore", "--no-open"]
    with contextlib.ExitStack() as stack:
        running = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        stack.callback(running.terminate)
        origin, token = running.stdout.readline().split()[-1].split("/?token=")
        port = int(origin.rpartition(":")[2])
        access = SimpleNamespace(
            host=f"127.0.0.1:{port}", origin=origin, cookie=f"iclearn-explore-{port}", token=token
        )  # fmt: skip
        other = SimpleNamespace(access=access, port=port)
        asked = {"id": 1, "what": "run", "setting": {"steps": 50}}
        assert any("loss" in answer for answer in talk(other, asked, {"id": 2, "what": "normals", "seed": 0}))
        before, _ = resident(running.pid)
        for _ in range(200):
            stack.enter_context(line_to(port, "GET / HTTP/1.1\r\nHost: 127."))

        def upload(_):
            head = f"POST / HTTP/1.1\r\nHost: {access.host}\r\nContent-Length: 103000000\r\n\r\n"
            with line_to(port, head) as line, contextlib.suppress(OSError):
                line.sendall(bytes(103_000_000))
                line.recv(1)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(upload, range(8)))
        tab = stack.enter_context(opened(port, access))
        tab.settimeout(5)  # what the server does not read by then, it does not read
        with contextlib.suppress(OSError):
            tab.sendall(normals_asked(20_000))
        assert talk(other, {"id": 3, "what": "normals", "seed": 1})[0]["normals"]
        time.sleep(5)
        after, most = resident(running.pid)
    print(f"resident memory: {before:.0f} MB before, {most:.0f} MB at most, {after:.0f} MB five seconds after")
    assert most - before < 100
    assert after - before < 100


def test_bad_messages_get_a_sentence_and_the_socket_goes_on(explorer):
    bad = [
        "no json", {"id": 1}, {"id": 2, "what": "format the disk"}, {"id": 3, "what": "run", "setting": {"heads": 40}},
        {"id": 4, "what": "run", "setting": {"nonsense": 1}}, {"id": 5, "what": "run", "setting": {"heads": "5"}},
        {"id": 6, "what": "normals", "seed": -1}, {"id": 7, "what": "run", "setting": {"steps": 1e9}},
        {"id": 9, "what": "run", "setting": {"eigenvalues": [1e308, 1e308]}}, "[" * 50_000,
        f'{{"id": {"[" * 900}{"]" * 900}, "what": "normals", "seed": 0}}', {"id": "x", "what": "normals", "seed": 0},
    ]  # fmt: skip
    answers = talk(explorer, *bad, {"id": 8, "what": "normals", "seed": 12345})
    assert all(answer["error"] for answer in answers[:-1])
    assert set(answers[-1]["normals"]) == {"value", "key", "query", "rotation"}


def test_a_newer_run_ends_an_older_one(explorer):
    """A run of minutes is given up when the tab asks for another."""
    long = {"heads": 2, "steps": 200_000, "kind": "softmax", "prompts": 300}
    short = {"eigenvalues": [0.6, 0.4], "heads": 2, "steps": 50}
    asked = [{"id": i, "what": "run", "setting": s} for i, s in ((1, long), (2, short))]
    answers = {answer["id"]: answer for answer in talk(explorer, *asked)}
    assert answers[1] == {"stale": True, "id": 1}
    assert answers[2]["engine"] == "population"


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_that_overflow_end_in_the_sentence_alone(explorer):
    setting = {"eigenvalues": [1e100, 1.0], "heads": 2, "steps": 20, "prompts": 10, "lr": 1e308}
    assert "diverged" in talk(explorer, {"id": 1, "what": "run", "setting": setting})[0]["sentence"]


def test_nothing_is_logged(explorer, caplog):
    with caplog.at_level("DEBUG"):
        get(explorer.url)
        get(explorer.access.origin + "/?token=guess")
    assert explorer.access.token not in caplog.text
    assert "guess" not in caplog.text


def test_what_python_answers_is_simulates_run():
    setting = Setting(eigenvalues=(0.6, 0.4), heads=3, init=0.1, steps=300, seed=9)
    answer = run_for_page(setting)
    loss = np.frombuffer(base64.b64decode(answer["loss"]), "<f8")
    np.testing.assert_array_equal(loss, icl.simulate(setting.recipe()).loss.values)


@pytest.mark.parametrize(
    "changes",
    [
        {"prompts": 50}, {"kind": "softmax", "prompts": 50}, {"kind": "lsa", "prior": 1.0},
        {"kind": "yq-lsa", "prior": 1.0}, {"rule": "adam"}, {"rule": "momentum"}, {"rule": "flow"},
        {"prefixes": True, "normalize": "tokens", "family": "merged"},
    ],
    ids=str,
)  # fmt: skip
def test_python_trains_what_the_page_cannot(changes):
    setting = Setting(eigenvalues=(0.6, 0.4), heads=2, init=0.1, steps=40, scheme="per_head", **changes)
    assert not setting.in_page
    loss = np.frombuffer(base64.b64decode(run_for_page(setting)["loss"]), "<f8")
    assert loss.shape == (40,)
    assert np.isfinite(loss).all()
    assert loss[-1] < loss[0]


def test_a_layer_that_reads_documents():
    """Beside its loss, how far it is from one gradient step, over training."""
    setting = Setting(kind="documents", context=10, embedding=4, batch=16, rule="adam", lr=0.02, steps=60, init=0.02)
    answer = run_for_page(setting)
    assert np.frombuffer(base64.b64decode(answer["loss"]), "<f8").shape == (60,)
    found = answer["measures"]
    assert (found["steps"][0], found["steps"][-1]) == (0, 60)
    assert len(found["steps"]) == len(found["loss"]) == len(found["cosine"]) == len(found["apart"])
    assert found["loss"][-1] < found["loss"][0]
    assert found["cosine"][-1] > 0.5  # it turns towards the gradient step
    for bad in ({"batch": 0}, {"context": 1}, {"embedding": 1000}):
        with pytest.raises(icl.IclearnError):
            Setting(**{**vars(setting), **bad})


def test_a_model_of_its_own_is_shown_alone(browser, explorer):
    """A softmax layer and linear self-attention: no linear attention beside them; time, export and compare go on."""
    context = browser.new_context()
    page, errors = context.new_page(), []
    page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: errors.append(str(e)))
    page.goto(explorer.url)
    page.wait_for_selector('body[data-shown][data-busy=""]')
    documents = "kind=documents&context=10&embedding=4&batch=16&rule=adam&lr=0.02&steps=60&init=0.02"
    page.evaluate("hash => { location.hash = hash; }", documents)
    page.wait_for_selector("body[data-measures=yes]")
    assert page.is_hidden("#landscape")
    assert page.is_hidden("#n-heads")
    assert page.is_visible("#c-layer")
    assert "one gradient step" in page.inner_text("#explain")
    page.locator("body").click(position={"x": 5, "y": 5})
    early = page.inner_text("#explain")
    page.keyboard.press("End")
    until(page, "(early) => document.getElementById('explain').innerText !== early", early)
    page.click("#export")
    with page.expect_download() as saved:
        page.click("#save-csv")
    lines = saved.value.path().read_text().splitlines()
    assert (lines[0], len(lines)) == ("step,loss", 61)
    with page.expect_download() as saved:
        page.click("#save-svg")
    assert "one gradient step" in saved.value.path().read_text()
    page.keyboard.press("Escape")
    page.evaluate("hash => { location.hash = hash; }", "kind=lsa&eigenvalues=1,1&heads=2&prior=1&steps=40&init=0.1")
    page.wait_for_selector("#referee:has-text('population engine')")
    assert "gradient step from w*" in page.inner_text("#explain")
    assert page.is_hidden("#distances")
    page.evaluate("hash => { location.hash = hash; }", "steps=300&init=0.2")
    page.wait_for_selector("#referee.good:has-text('agrees')")
    assert page.is_visible("#landscape")
    context.close()
    assert not errors


def test_two_tabs_with_the_referee(browser, explorer):
    """Each tab gets the answer to its own setting; a seed that the page does not carry comes from Python."""
    context = browser.new_context()
    errors, requests, tabs = [], [], []
    for steps, seed in ((300, 0), (400, 1234)):
        page = context.new_page()
        page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("request", lambda r: requests.append(r.url))
        page.on("websocket", lambda s: requests.append(s.url))
        page.goto(explorer.url)
        assert "token" not in page.url
        page.wait_for_selector('body[data-shown][data-busy=""]')
        page.evaluate("hash => { location.hash = hash; }", f"steps={steps}&seed={seed}&init=0.2")
        tabs.append(page)
    for page, steps in zip(tabs, (300, 400), strict=True):
        page.wait_for_selector(f"#referee.good[data-key*='\"steps\":{steps},']")
        assert page.inner_text("#referee").startswith("agrees with iclearn to ")
        assert float(page.inner_text("#referee").split()[-1]) < 1e-10
    context.close()
    assert not errors
    ours = (explorer.access.origin, explorer.access.origin.replace("http", "ws"), "blob:", "data:")
    assert all(url.startswith(ours) for url in requests)


def test_a_disagreement_is_said(browser, explorer):
    """The page's own run spoiled by a part in 10⁶: the referee must not agree."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(explorer.url)
    page.wait_for_selector('body[data-shown][data-busy=""]')
    told = page.evaluate(
        """async () => {
          const { train } = await import("iclearn/engine");
          const { referee } = await import("iclearn/referee");
          const { ask } = await import("iclearn/link");
          const { normalsOf, defaults } = await import("iclearn/settings");
          const setting = { ...defaults, steps: 300, init: 0.2 };
          let answer = {};
          while (!answer.loss) answer = await ask("run", { setting }); // the page's own request may end ours
          const line = document.getElementById("referee");
          const words = [];
          for (const wrong of [1, 1 + 1e-6]) {
            referee(answer, train({ ...setting, lr: setting.lr * wrong }, normalsOf(0)));
            words.push([line.textContent, line.className]);
          }
          return words;
        }"""
    )
    context.close()
    assert told[0][1] == "good"
    assert told[1][0].startswith("DISAGREES")


def test_the_command_serves_until_it_is_interrupted(tmp_path):
    words = [sys.executable, "-m", "iclearn", "explore", "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        url = running.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")
        assert get(url).code == 302
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=600)
    assert running.returncode == 130
    assert said == "iclearn explore: interrupted\n", "it stores nothing from which it could go on"


def test_the_command_writes_the_page_alone(tmp_path, capsys):
    assert main(["explore", "--static", str(tmp_path / "page.html")]) == 0
    assert "<title>iclearn" in (tmp_path / "page.html").read_text()
    assert main(["explore", "--static", str(tmp_path / "page.pdf")]) == 2
    assert main(["explore", "--port", "99999"]) == 2
    assert "between 0 and 65535" in capsys.readouterr().err
