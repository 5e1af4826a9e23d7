"""A real browser: Debian's chromium driven by playwright. Where either is missing, these tests skip with a reason."""

import shutil

import pytest

LIMIT = 600_000  # milliseconds; only so that nothing hangs for ever
ARGS = ["--no-sandbox", "--disable-dev-shm-usage"]


@pytest.fixture(scope="session")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium on this machine (apt-get install chromium)")
    with sync_api.sync_playwright() as player:
        opened = player.chromium.launch(executable_path=chromium, args=ARGS, timeout=LIMIT)
        make = opened.new_context

        def patient_context(**options):
            context = make(**options)
            context.set_default_timeout(LIMIT)
            return context

        opened.new_context = patient_context
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def page_file(tmp_path_factory):
    """The explorer as one file."""
    from iclearn.explore.bundle import write_page

    return write_page(tmp_path_factory.mktemp("explore") / "explore.html")


class Tab:
    """A tab that remembers what went wrong in it, and every address it asked for."""

    def __init__(self, context):
        self.page = context.new_page()
        self.errors, self.requests = [], []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, url):
        self.page.goto(url)
        self.settled()
        return self

    def settled(self):
        """Wait until what is drawn belongs to the controls."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        self.page.wait_for_selector('body[data-shown][data-busy=""]')

    def set_hash(self, text):
        """The page has heard of the new address when this returns, and drawn what it says."""
        self.page.evaluate(
            """(hash) => new Promise((done) => {
              const before = location.href;
              addEventListener("hashchange", () => done(), { once: true });
              location.hash = hash;
              if (location.href === before) done();
            })""",
            text,
        )
        self.settled()


@pytest.fixture
def tab(browser, page_file):
    """An open explorer, alone in its file; the test fails if the page complained."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = Tab(context).open(page_file.as_uri())
    yield opened
    context.close()
    assert not opened.errors, opened.errors


@pytest.fixture(scope="session")
def sweep_file(tmp_path_factory):
    """The page of a small real sweep, some of whose runs diverge, with curves; its folder `sweep` is beside it."""
    from iclearn.cli import main
    from iclearn.sweeps.api import carry_out, make_plan

    place = tmp_path_factory.mktemp("swept")
    base = {
        "task": {"dim": 2, "num_prompts": "inf"}, "model": {"family": "separate_reduced", "num_heads": 2}, "steps": 65,
    }  # fmt: skip
    axes = {
        "optimizer.lr": {"logspace": [0.01, 10, 4]}, "init.scale": [0.05, 0.1, 0.2],
        "model.family": ["separate_reduced", "merged_reduced"],
    }  # fmt: skip
    kept = {"curve": True, "samples": 32}
    carry_out(make_plan(base, axes, seeds=2, reduce=kept, path="serial"), place / "sweep")
    assert main(["report", str(place / "sweep"), "--out", str(place / "sweep.html")]) == 0
    return place / "sweep.html"
