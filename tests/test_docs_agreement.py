"""Pages for people who come from another code: the digits they promise are those that `iclearn verify` finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from iclearn.papers.verifying import Verification, verify_file

ROOT = Path(__file__).parents[1]
FOLDERS = {"from-icl-functions": "functions", "from-icl-task-diversity": "diversity"}  # the others: depth
SLOW = {  # seconds of compiling each
    "ahn_l1_gd", "oswald_l2_softmax_ln_mlp", "oswald_l2_interleaved", "oswald_l2_tied", "predictors_d5", "gpt2_d5",
    "gpt2",
}  # fmt: skip
ROW = re.compile(r"^\| `(\w+\.npz)` \| (`.*`) \| [^|]*\| (\S+) \|$", re.M)


def promises() -> Iterator[Any]:
    for page in sorted((ROOT / "docs").glob("from-*.md")):
        for file, names, bound in ROW.findall(page.read_text()):
            quantities = tuple(name.replace("\\|", "|") for name in re.findall(r"`([^`]+)`", names))
            stem = file.removesuffix(".npz")
            marks = (pytest.mark.slow,) if stem in SLOW else ()
            path = f"{FOLDERS.get(page.stem, 'depth')}/{stem}"
            yield pytest.param(page.stem, path, quantities, float(bound), marks=marks, id=f"{stem}-{quantities[0]}")


@cache
def verified(path: Path) -> Verification:
    return verify_file(path)


def test_every_page_promises_something():
    assert {promise.values[0] for promise in promises()} == {
        "from-icl-functions", "from-icl-task-diversity", "from-lineartransformer", "from-self-organising-systems",
    }  # fmt: skip


@pytest.mark.parametrize(("page", "path", "names", "bound"), list(promises()))
def test_digits_are_those_of_the_golden_files(golden, page, path, names, bound):
    found = {quantity.name: quantity for quantity in verified(golden.path(path)).quantities}
    for name in names:
        assert found[name].largest <= bound, (page, name, found[name].largest)
