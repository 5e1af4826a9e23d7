"""The pages of docs/: their code prints what they say, names exist, and the site is built without a warning."""

from __future__ import annotations

import importlib
import importlib.util
import io
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in (ROOT / "README.md", *DOCS.rglob("*.md")) if "```python" in page.read_text())


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)


def promised(block: str) -> list[str]:
    """What a block says it prints: the comments behind its prints, and those that are lines of their own after one."""
    lines, after = [], False
    for line in block.splitlines():
        if "print(" in line:
            after = True
            if "  # " in line:
                lines.append(line.split("  # ", 1)[1])
        elif after and line.startswith("# "):
            lines.append(line[2:])
        elif line.strip():
            after = False
    return lines


def run(block: str, names: dict) -> list[str]:
    with redirect_stdout(io.StringIO()) as said:
        exec(compile(block, "page", "exec"), names)
    return said.getvalue().splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    for block in blocks(page):
        said, expected = run(block, names), promised(block)
        if expected:
            assert said == expected


def test_a_wrong_promise_is_found():
    block = "print(1 + 1)  # 3\n"
    assert promised(block) == ["3"]
    assert run(block, {}) == ["2"]


def test_links_to_files_lead_somewhere():
    """Of README too, which the site does not have, and those that leave docs/."""
    pages = [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.md")]
    broken = [
        (str(page.relative_to(ROOT)), target)
        for page in pages
        for target in re.findall(
            r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        )
        if not re.match(r"https?:|mailto:", target) and not (page.parent / target).exists()
    ]
    assert not broken


def test_the_readme_stays_short():
    """A stranger reads it in two minutes: a first page that grows again is a page that nobody reads."""
    markdown = pytest.importorskip("markdown", reason="needs the package markdown: pip install '.[docs]'")
    page = markdown.markdown((ROOT / "README.md").read_text(), extensions=["tables", "fenced_code"])
    words = re.sub(r"<!--.*?-->|<[^>]+>", " ", page).split()
    assert 450 <= len(words) <= 600
    assert len(re.findall("<a ", page)) <= 18
    before = page.partition("pip install")[0]
    assert len(re.sub("<[^>]+>", " ", before).split()) < 230, "installation is on the first screens"


def test_pages_of_verdicts_and_tables_of_papers_are_as_generated():
    """Labels, titles and counts of today's claims; a claim that was changed since it was judged is refused."""
    spec = importlib.util.spec_from_file_location("what_holds", ROOT / "dev" / "what_holds.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = module.pages()
    assert {path.name for path in pages} >= {"README.md", "what-holds.md", "what-holds-li2024.md"}
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not as python dev/what_holds.py writes it"


def test_every_name_of_the_table_of_formulas_exists():
    names = re.findall(r"`(iclearn\.[\w.]+)`", (DOCS / "formulas.md").read_text())
    assert len(names) > 30
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_the_site_is_built_without_a_warning(tmp_path):
    pytest.importorskip("mkdocs", reason="mkdocs is not installed (pip install 'iclearn[docs]')")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed (pip install 'iclearn[docs]')")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-2000:]
    page = (tmp_path / "site" / "reference" / "theory-zhang2025" / "index.html").read_text()
    assert "saddle_losses" in page
    assert (tmp_path / "site" / "explorer.html").stat().st_size > 1e5
    outside = [
        address
        for file in (tmp_path / "site").rglob("*.html")
        for address in re.findall(r'(?:src|href)="(https?://[^"]+)"', file.read_text())
        if "material" not in address and "arxiv.org" not in address
    ]
    assert not [address for address in outside if address.endswith((".js", ".css", ".woff2"))], outside[:5]
