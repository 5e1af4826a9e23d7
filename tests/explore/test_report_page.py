"""`iclearn report` in a browser: one file, whole, quiet, and usable without a mouse or a screen."""

import importlib.util
from pathlib import Path

import pytest
from frames import until

import iclearn as icl
from iclearn.cli import main

SIZES = {"wide": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="session")
def report_file(tmp_path_factory):
    """The report of one real figure, with stored runs, a preset of the explorer and a register of choices."""
    folder = tmp_path_factory.mktemp("report")
    icl.reproduce("zhang2025", ["fig1b"], seeds=1, out=folder / "zhang2025")
    assert main(["report", str(folder / "zhang2025"), "--out", str(folder / "report.html")]) == 0
    return folder / "report.html"


@pytest.fixture
def opened(browser, report_file):
    context = browser.new_context(viewport=SIZES["wide"])
    page, noise = context.new_page(), []
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("console", lambda m: noise.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda r: noise.append(r.url) if not r.url.startswith(("file:", "data:", "blob:")) else None)
    page.goto(report_file.as_uri())
    yield page
    context.close()
    assert not noise


def test_it_is_whole(opened, report_file):
    assert report_file.stat().st_size < 3_000_000
    rows = opened.locator("#table tbody tr")
    assert rows.count() == opened.locator("article .claims tr").count() - opened.locator("article .claims").count()
    assert "fig1b" in opened.inner_text("article h3")
    assert opened.evaluate("document.querySelector('article img').naturalWidth") > 300
    text = opened.evaluate("document.body.textContent")
    for words in ("Set-up and recipe", "Card", "content hash", "Expected:", "Tolerance:", "Measured"):
        assert words in text


def test_search_and_filter(opened):
    count = opened.locator("#table tbody tr").count()
    opened.keyboard.press("/")
    opened.keyboard.type("formula")
    shown = opened.locator("#table tbody tr:visible").count()
    assert shown < count
    assert opened.inner_text("#count") == f"{shown} of {count} claims"
    opened.fill("#search", "")
    source = opened.get_attribute("#table tbody tr", "data-source")
    opened.select_option("[data-filter=source]", source)
    assert opened.locator("#table tbody tr:visible").count() == opened.locator(f"tr[data-source={source}]").count()
    opened.click("th[data-sort='2'] button")
    first = opened.locator("#table tbody tr td:nth-child(3)").all_inner_texts()
    assert first == sorted(first, key=str.casefold) or len(first) < 2


def test_curves_and_explorer_open(opened):
    opened.locator("details.curves summary").click()
    opened.wait_for_selector("details.curves canvas")
    before = opened.evaluate("document.querySelector('details.curves canvas').toDataURL()")
    opened.locator("details.curves input").check()
    until(opened, "(before) => document.querySelector('details.curves canvas').toDataURL() !== before", before)
    opened.locator("[data-preset=fig1b]").click()
    frame = opened.frame_locator("iframe")
    frame.locator('body[data-shown][data-busy=""]').wait_for()
    assert frame.locator("#preset").input_value() == "fig1b"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", list(SIZES))
def test_no_serious_accessibility_fault(browser, report_file, page_file, sweep_file, scheme, size):
    """axe-core on the report, the explorer and a sweep."""
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None:
        pytest.skip("axe-core is not here (pip install axe-playwright-python)")
    axe = (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text()
    context = browser.new_context(viewport=SIZES[size], color_scheme=scheme)
    faults = []
    for file in (report_file, page_file, sweep_file):
        page = context.new_page()
        page.goto(file.as_uri())
        if file is page_file:
            page.wait_for_selector('body[data-shown][data-busy=""]')
        page.evaluate(axe)
        result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        for fault in result["violations"]:
            if fault["impact"] in ("serious", "critical"):
                faults.append((file.name, fault["id"], [node["html"][:120] for node in fault["nodes"][:3]]))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"), f"{file.name} is too wide"
    context.close()
    assert not faults, faults


def test_stored_runs_are_browsed(browser, report_file, tmp_path):
    """A store as a page: search, sort, choose runs to compare."""
    runs = report_file.parent / "zhang2025" / "runs"
    assert main(["report", str(runs), "--out", str(tmp_path / "runs.html")]) == 0
    context = browser.new_context(viewport=SIZES["wide"])
    page, noise = context.new_page(), []
    page.on("pageerror", lambda error: noise.append(str(error)))
    page.on("console", lambda m: noise.append(m.text) if m.type in ("error", "warning") else None)
    page.goto((tmp_path / "runs.html").as_uri())
    lines = page.locator(".runs tbody tr")
    assert lines.count() == len(list(runs.glob("*.zarr")))
    page.fill("[data-search]", "P=5000")
    found = page.locator(".runs tbody tr:visible").count()
    assert 0 < found < lines.count()
    assert page.inner_text("[data-count]") == f"{found} of {lines.count()} runs"
    before = page.evaluate("document.querySelector('.runs canvas').toDataURL()")
    page.click("[data-choose=all]")
    until(page, "(before) => document.querySelector('.runs canvas').toDataURL() !== before", before)
    page.fill("[data-search]", "")
    page.click(".runs th[data-sort='7'] button")
    losses = [float(text) for text in page.locator(".runs tbody td:nth-child(8)").all_inner_texts()]
    assert losses == sorted(losses)
    page.click("[data-choose=none]")
    assert page.locator(".runs canvas").count() == 0
    context.close()
    assert not noise


def test_a_folder_without_a_reproduction_is_refused(tmp_path, capsys):
    assert main(["report", str(tmp_path)]) == 2
    assert "holds no reproduction" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "x.pdf")]) == 2


NOTEBOOK = """<!doctype html><style>td { color: rgb(255, 0, 0) }</style><body><h1>a</h1><h2>b</h2><table><tr><th>c</th>
<td><p>d</p></td></tr></table><img alt=""><pre>e</pre><nav>f</nav><div id="cell"></div>"""
STYLES = """() => [...document.querySelectorAll("body, body > *:not(#cell), body > table *")].map(part => {
    const style = getComputedStyle(part);
    return ["fontFamily", "fontSize", "maxWidth", "margin", "padding", "color", "width", "borderTop", "borderCollapse",
        "columns", "textAlign", "background"].map(name => `${part.tagName} ${name}: ${style[name]}`);
})"""


def test_a_report_in_a_notebook_styles_nothing_else_and_is_styled_by_nothing(browser, tmp_path):
    """As a notebook shows it: put into a page that is there already."""
    report = icl.reproduce("zhang2025", ["fig2"], seeds=2, out=tmp_path)
    (tmp_path / "notebook.html").write_text(NOTEBOOK)
    page = browser.new_page(viewport=SIZES["wide"])
    page.goto((tmp_path / "notebook.html").as_uri())
    before = page.evaluate(STYLES)
    page.evaluate("html => { document.getElementById('cell').innerHTML = html; }", report._repr_html_())
    assert page.evaluate(STYLES) == before
    frame = page.frame_locator("#cell iframe")
    assert frame.locator("td").first.evaluate("cell => getComputedStyle(cell).color") == "rgb(0, 102, 74)"
    frame.locator("nav a").first.click()
    assert frame.locator("h2#fig2").is_visible(), "links within it lead within it"
    page.close()
