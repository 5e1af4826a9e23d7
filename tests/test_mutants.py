"""The driver of mutation tests: its list fits the source, and it tells a caught mutation from a survivor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DRIVER = ROOT / "dev" / "mutants.py"

LIST = """
[[file]]
path = "area.py"
tests = ["tests/test_area.py"]
[[file.mutation]]
id = "A1"
what = "a factor"
old = "width * height"
new = "2 * width * height"
[[file.mutation]]
id = "A2"
what = "a check that nobody tests"
old = "width >= 0"
new = "width > 0"
[[file.mutation]]
id = "A3"
what = "the same by other words"
old = "width >= 0"
new = "0 <= width"
equivalent = "the two comparisons are one"
[[file.mutation]]
id = "A4"
what = "takes a minute"
old = "return width * height"
new = "__import__('time').sleep(6000)"
"""


FEW_PLUGINS = " ".join(f"-p no:{name}" for name in ("jaxtyping", "zarr", "xdist", "anyio", "typeguard", "platformdirs"))


def mutants(*options: str | Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTEST_ADDOPTS": FEW_PLUGINS}  # the tests of three lines need none
    command = [sys.executable, DRIVER, *map(str, options)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def package(tmp_path):
    """A package of one function, a test of it, and a list of mutations."""
    root = tmp_path / "tree"
    for folder in ("src/shapes", "tests", "dev"):
        (root / folder).mkdir(parents=True)
    (root / "src/shapes/__init__.py").touch()
    (root / "src/shapes/area.py").write_text(
        "def area(width, height):\n    assert width >= 0\n    return width * height\n"
    )
    test = "from shapes.area import area\n\n\ndef test_area():\n    assert area(2, 3) == 6\n"
    (root / "tests/test_area.py").write_text(test)
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    (root / "dev/mutations-all.toml").write_text(LIST)
    return root


def test_every_mutation_of_the_list_applies_exactly_once():
    done = mutants("--check")
    assert done.returncode == 0, done.stdout
    assert int(done.stdout.split()[0]) >= 65


def test_survivors_are_told_from_those_that_are_caught(package, tmp_path):
    source = package / "src/shapes/area.py"
    before = source.read_text()
    options = ("--root", package, "--source", "src/shapes")
    done = mutants(*options, "A1", "A2", "A3", "--json", tmp_path / "out.json", "--markdown", tmp_path / "out.md")
    assert done.returncode == 1, done.stdout  # one of two is less than 95 %
    found = json.loads((tmp_path / "out.json").read_text())
    assert (found["caught"], found["total"]) == (1, 2)
    verdicts = [row["verdict"] for row in found["mutations"]]
    assert verdicts == ["tests/test_area.py::test_area", "SURVIVED", "equivalent"]
    assert "1 of 2 mutations are caught" in (tmp_path / "out.md").read_text()
    assert source.read_text() == before
    endless = mutants(*options, "A4", "--timeout", "10", "--keep", tmp_path / "out.json")
    assert endless.returncode == 1
    assert "timeout after 10 s" in endless.stdout
    assert "2 of 3 mutations caught" in endless.stdout


def test_a_source_that_moved_on_and_tests_that_fail_are_refused(package):
    options = ("--root", package, "--source", "src/shapes")
    source = package / "src/shapes/area.py"
    source.write_text(source.read_text().replace("width * height", "height * height"))
    moved = mutants(*options, "A1")
    assert moved.returncode == 2
    assert "A1: src/shapes/area.py has 0 times, and not once: width * height" in moved.stdout
    broken = mutants(*options, "A2")
    assert broken.returncode == 2
    assert "tests/test_area.py::test_area" in broken.stdout
