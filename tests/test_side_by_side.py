"""The page that compares the field: it says what the JSON says, and what was not measured is said to be so."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # benchmarks/ is run from the root and never installed

from benchmarks.side_page import page
from benchmarks.side_tables import FIELD, digits, microseconds

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"


@pytest.fixture
def results(tmp_path) -> Path:
    return Path(shutil.copytree(RESULTS, tmp_path / "results"))


def test_the_page_is_what_the_results_give():
    assert (ROOT / "docs" / "side-by-side.md").read_text(encoding="utf-8") == page(RESULTS)


def test_stored_results_are_whole():
    stored = json.loads((RESULTS / "side-by-side-cpu.json").read_text())
    assert not stored["quick"]
    assert not stored["failed"]
    assert {row["name"] for row in stored["systems"]} >= {name for _, _, name, *_ in FIELD}
    assert {row["size"] for row in stored["cost"]} == set("PNDHRL")
    agreement = json.loads((RESULTS / "agreement.json").read_text())["systems"]
    assert all(file.get("passed") for files in agreement.values() for file in files)


def test_another_number_is_another_page(results):
    stored = json.loads((results / "side-by-side-cpu.json").read_text())
    stored["systems"][0]["ours"] = [{"wall_us": 123.0, "processor_us": 123.0}]
    (results / "side-by-side-cpu.json").write_text(json.dumps(stored))
    assert "| 123 µs |" in page(results)
    assert "| 123 µs |" not in page(RESULTS)


def test_what_was_not_measured_is_said(results):
    for name in (
        "side-by-side-cpu.json",
        "side-by-side-h200.json",
        "depth-h200.json",
        "agreement.json",
        "papers-h200.json",
    ):
        (results / name).unlink()
    text = page(results)
    assert "Not measured here yet" in text
    assert text.count("| not measured |") >= len(FIELD)
    assert "On a GPU, in wall time:\n\nNot measured." in text
    assert "--agreement` needs the golden files" in text


def test_steps_on_a_gpu_come_from_its_own_file(results):
    stored = json.loads((results / "side-by-side-cpu.json").read_text())
    for row in stored["systems"]:
        row["ours"] = [{"wall_us": 50.0, "processor_us": 1.0}]
        row["naive_by_threads"] = {"1": [{"wall_us": 1000.0, "processor_us": 1.0}]}
    (results / "side-by-side-h200.json").write_text(json.dumps(stored))
    assert page(results).count("| 50 µs | 1 ms | 20 | `side-by-side-h200.json` |") == len(FIELD)


def test_units_and_digits():
    assert microseconds(999.0) == "999 µs"
    assert digits(9.9e-10) == "9"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: pip install 'iclearn[bench]'")
def test_everything_can_be_measured(tmp_path):
    from benchmarks.side_by_side import main

    assert main(["--measure", "--quick", "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found["systems"]) == len(FIELD)
    assert all(row["prediction_error"] < 2e-4 for row in found["systems"])
