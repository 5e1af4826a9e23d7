"""What is released: one version, the same bytes twice, everything packed, and a wheel that works by itself."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import iclearn

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout of the repository")
HATCHLING = pytest.mark.skipif(
    importlib.util.find_spec("hatchling") is None, reason="hatchling is not installed (pip install hatchling)"
)


@pytest.fixture(scope="module")
def distributions():
    spec = importlib.util.spec_from_file_location("distributions", ROOT / "dev" / "distributions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_written_once_and_cited_as_such():
    assert "version" in PROJECT["dynamic"]
    assert "version" not in PROJECT
    assert version("iclearn") == iclearn.__version__
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == iclearn.__version__
    assert f"## {iclearn.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_extras_that_the_pages_name_exist():
    extras = set(PROJECT["optional-dependencies"])
    assert {"llm", "dask", "explore", "docs", "test", "fast", "bench"} <= extras
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "Containerfile", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for named in re.findall(r"(?:iclearn|\.)\[([a-z,]+)\]|EXTRAS=([a-z,]+)", page.read_text()):
            assert set("".join(named).split(",")) <= extras, page.name


@REPOSITORY
@HATCHLING
def test_two_builds_of_a_commit_are_the_same_bytes_and_hold_every_file(distributions, tmp_path):
    first, second = distributions.twice("HEAD", tmp_path)
    assert len(first) == 2
    assert first == second
    assert distributions.missing("HEAD", tmp_path / "first") == []
    (wheel,) = distributions.build(tmp_path / "a", tmp_path / "later", "1700000000", "wheel").items()
    assert first[wheel[0]] != wheel[1], "the time of the commit is in it"


@pytest.mark.slow
@REPOSITORY
@HATCHLING
def test_the_wheel_works_in_a_clean_environment(distributions, tmp_path, capsys):
    source = distributions.export("HEAD", tmp_path / "source")
    distributions.build(source, tmp_path / "out", distributions.commit_time("HEAD"), "wheel")
    distributions.check(next((tmp_path / "out").glob("*.whl")), tmp_path / "clean")
    assert "self-check: loss 0.269841269841" in capsys.readouterr().out


def container_lines() -> list[list[str]]:
    """The instructions of the container file, word by word of the first blank."""
    text = re.sub(r"\\\n", " ", (ROOT / "Containerfile").read_text())
    return [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]


def test_the_container_file_installs_the_wheel_and_runs_as_nobody_special():
    """No container engine is needed here: the file is read, and its shell commands are parsed by a shell."""
    lines = container_lines()
    words = dict(lines)
    base = re.fullmatch(r"python:3\.(\d+)-slim", words["FROM"])
    assert base is not None
    assert int(base[1]) >= int(PROJECT["requires-python"].removeprefix(">=3."))
    assert f"Programming Language :: Python :: 3.{base[1]}" in PROJECT["classifiers"]
    assert words["USER"] == "iclearn"
    assert words["ENTRYPOINT"] == '["iclearn"]'
    assert Path("dist/iclearn-0.1.0-py3-none-any.whl").match(words["COPY"].split()[0])
    names = [name for name, _ in lines]
    assert names.index("RUN") < names.index("USER") < names.index("ENTRYPOINT")
    assert subprocess.run(["sh", "-n", "-c", words["RUN"]], check=False).returncode == 0


def test_the_build_says_what_it_takes():
    done = subprocess.run([sys.executable, ROOT / "dev" / "distributions.py", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "--twice" in done.stdout
