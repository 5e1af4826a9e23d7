"""The small golden files: all are in their README, and those cut from large files hold the numbers of these."""

import re
from pathlib import Path

import numpy as np
import pytest

SMALL = Path(__file__).parent / "golden"
LARGE = Path(__file__).resolve().parents[2] / "shared" / "golden"
ROW = re.compile(r"^\| `([\w/]+)` \| .* \| (cut|run) \|", re.M)


def listed() -> dict[str, str]:
    return dict(ROW.findall((SMALL / "README.md").read_text(encoding="utf-8")))


def test_the_readme_lists_the_files():
    files = {str(path.relative_to(SMALL).with_suffix("")).replace("\\", "/") for path in SMALL.rglob("*.npz")}
    assert set(listed()) == files


@pytest.mark.skipif(not LARGE.is_dir(), reason="the large golden files are in no repository")
def test_small_files_are_corners_of_the_large_ones_or_runs_of_their_layout():
    for name, how in listed().items():
        with np.load(SMALL / f"{name}.npz") as small, np.load(LARGE / f"{name}.npz") as large:
            assert set(small.files) <= set(large.files), name
            for array in small.files if how == "cut" else ():
                values = small[array]
                corner = large[array][tuple(slice(0, size) for size in values.shape)]
                assert values.dtype == corner.dtype, (name, array)
                np.testing.assert_array_equal(values, corner, err_msg=f"{name}: {array}")
