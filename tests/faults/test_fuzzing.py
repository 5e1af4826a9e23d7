"""A short version of `python tests/faults/fuzzing.py`: no traceback, no hang, no number that is silently another."""

import pytest
from fuzzing import fuzz


@pytest.mark.filterwarnings("ignore")
def test_random_recipes_lines_and_files_are_accepted_or_refused_in_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = fuzz(400, 7, tmp_path)
    assert found["failures"] == []
    for kind in ("recipe, refused", "recipe, accepted", "command line, exit 2", "damaged file, refused"):
        assert found["counts"][kind] > 0, "the cases are not of all kinds"
