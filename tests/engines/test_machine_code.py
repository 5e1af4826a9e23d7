"""Programs translated to LLVM do what their source does when Python runs it, and what Numba makes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.engines.compiled import machine_code
from iclearn.engines.compiled.loops import loop_numbers
from iclearn.engines.compiled.machine_code import load_entry
from iclearn.engines.compiled.modules import load_module
from iclearn.engines.compiled.programs import block_source, flow_source, is_straight, run_source
from iclearn.engines.compiled.straight import block_rows
from iclearn.engines.compiled.switch import numba_version
from iclearn.engines.compiled.update_rules import MEMORY
from iclearn.engines.contractions import Sizes

pytestmark = pytest.mark.skipif(
    numba_version() is None, reason="llvmlite comes with numba (pip install 'iclearn[fast]')"
)


def as_python(source: str, entry: str):
    """The entry as Python runs it: decorators do nothing."""
    plain = ModuleType("numba")
    plain.njit = lambda *_, **__: lambda function: function
    before = sys.modules.get("numba")
    sys.modules["numba"] = plain
    names = {"CACHE": False}
    try:
        exec(source, names)
    finally:
        if before is None:
            del sys.modules["numba"]
        else:
            sys.modules["numba"] = before
    return names[entry]


def numbers_of(sizes: Sizes, dtype: str, seed: int) -> np.ndarray:
    numbers = (0.02 * np.abs(np.random.default_rng(seed).normal(size=sizes.num_numbers))).astype(dtype)
    numbers[:2] = 0.04, 1.0
    return numbers if is_straight(sizes) else loop_numbers(numbers, sizes)


def trained(advance, sizes: Sizes, dtype: str, rule: str, seed: int = 0, steps: int = 4) -> list[np.ndarray]:
    weights = (0.3 * np.random.default_rng(seed).normal(size=sizes.num_weights)).astype(dtype)
    memory, hyper = np.zeros(MEMORY[rule] * len(weights), dtype), np.array([0.01, 0.9, 0.1], dtype)
    losses, records = np.zeros(steps, dtype), np.zeros((steps // 2, len(weights)), dtype)
    advance(weights, numbers_of(sizes, dtype, seed), memory, hyper, 3, steps, 2, losses, records)
    return [losses, records, weights, memory]


SIZES = st.builds(
    lambda dim, heads, rank, form, gram: Sizes(dim, heads, rank, form, gram and form == "moments"),
    st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.sampled_from(["diagonal", "kronecker", "moments"]),
    st.booleans(),
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(SIZES, st.sampled_from(sorted(MEMORY)), st.sampled_from(["float64", "float32"]), st.integers(0, 99))
def test_a_run_is_what_python_makes_of_its_source(sizes, rule, dtype, seed):
    source = run_source(sizes, dtype, rule)
    with np.errstate(all="ignore"):
        expected = trained(as_python(source, "advance"), sizes, dtype, rule, seed)
    found = trained(load_entry(source), sizes, dtype, rule, seed)
    tolerance = {"float64": 1e-12, "float32": 1e-4}[dtype]
    for mine, its in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, its, rtol=tolerance, atol=tolerance * (1 + np.abs(its).max(initial=0)))


def test_a_block_is_what_python_makes_of_its_source():
    sizes, lanes = Sizes(2, 2, 1, "moments"), 4
    source, rows = block_source(sizes, "float64", "adam", lanes), block_rows(sizes, "adam")
    start = 0.02 * np.abs(np.random.default_rng(0).normal(size=(rows["end"], lanes)))
    start[rows["memory"] : rows["hyper"]] = 0
    lengths, found = np.array([2, 3], np.int64), []
    for train in (as_python(source, "train"), load_entry(source, apart=True), load_entry(source)):
        now, losses = start.ravel().copy(), np.zeros(2 * lanes)
        train(now, lengths, losses)
        found.append((now, losses))
    for now, losses in found[1:]:
        np.testing.assert_allclose(now, found[0][0], rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(losses, found[0][1], rtol=1e-13)


@pytest.mark.parametrize("start", [0.3, np.nan])
def test_a_flow_is_what_python_makes_of_its_source(start):
    """Steps of all kinds: accepted, refused, the last one before a point, and one that cannot be made."""
    sizes = Sizes(2, 1, 1, "diagonal")
    source, found = flow_source(sizes, "float64"), []
    for flow in (as_python(source, "flow"), load_entry(source)):
        weights = start * np.random.default_rng(1).normal(size=sizes.num_weights)
        losses, records = np.zeros(3), np.zeros((3, len(weights)))
        with np.errstate(all="ignore"):
            flow(weights, numbers_of(sizes, "float64", 0), 5.0, 1e-9, losses, records)
        found.append([losses, records, weights])
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-12)
    assert np.isnan(found[1][2]).any() == np.isnan(start)


def test_a_run_is_that_of_numba():
    sizes = Sizes(2, 2, 1, "diagonal")
    source = run_source(sizes, "float64", "gd")
    found = [
        trained(advance, sizes, "float64", "gd", steps=200)
        for advance in (load_entry(source), load_module(source).advance)
    ]
    for mine, its in zip(*found, strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-13, atol=1e-15)


TOY = """
import math

import numba
import numpy as np

REAL = np.{real}
TABLE = np.array([[1.5, 2.5], [3.5, 4.5]])
COUNT = 2


@numba.njit()
def power(x, y):
    return x ** y


@numba.njit("void({real}[::1], {real}[:, ::1], int64, {real})")
def entry(out, square, whole, number):
    room = np.zeros((COUNT + 1, 2), REAL)
    room[1, 1] = REAL(7)
    out[0] = room[1, 1] + room[2, 0]
    out[1] = whole % 4 + whole // 4
    out[2] = -number if whole > 3 else number
    n, total = 0, REAL(0)
    while total < 10:
        total += number
        n += 1
        if n > 5 or not number > 0:
            break
        elif n == 3:
            total += REAL(1)
        else:
            total -= REAL(0.25)
    out[3] = total
    out[4] = n
    out[5] = max(number, REAL(2)) + min(number, REAL(2)) + abs(-number) + math.sqrt(number)
    out[6] = power(number, REAL(3))
    for i in range(1, square.size):
        for j in range(i, 2):
            square[i, j] = REAL(TABLE[i, j]) + out.size
    out[7:][0] = np.inf
    out[8] = REAL(np.nan)
    out[9] = 1 if number != number else 0
"""


@pytest.mark.parametrize("real", ["float64", "float32"])
@pytest.mark.parametrize(("whole", "number"), [(11, 1.5), (2, 3.0), (4, 0.125)])
def test_every_word_of_the_language(real, whole, number):
    source = TOY.format(real=real)
    found = []
    for call in (as_python(source, "entry"), load_entry(source)):
        out, square = np.zeros(10, real), np.zeros((2, 2), real)
        call(out, square, whole, getattr(np, real)(number))
        found.append((out, square))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6 if real == "float32" else 1e-15)
    assert np.array_equal(found[1][1][1], [0, 4.5 + 10])


def test_a_number_of_two_kinds_is_refused():
    source = TOY.format(real="float64").replace("n, total = 0, REAL(0)", "n, total = 0, 0")
    with pytest.raises(TypeError, match="total is a number of two kinds"):
        load_entry(source)


def test_arrays_of_another_kind_are_refused():
    sizes = Sizes(2, 1, 1, "diagonal")
    with pytest.raises(TypeError, match="an array of float64 with 1 axes is needed, not float32"):
        trained(load_entry(run_source(sizes, "float64", "gd")), sizes, "float32", "gd")


def test_code_is_kept_and_made_again_where_it_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "compile_cache_dir", lambda: tmp_path)
    made = []
    monkeypatch.setattr(machine_code, "_compiled", _counted(machine_code._compiled, made))
    sizes = Sizes(2, 1, 1, "diagonal")
    source = run_source(sizes, "float64", "momentum")
    expected = trained(load_entry(source), sizes, "float64", "momentum")
    (file,) = (tmp_path / "machine-code").iterdir()
    for content, times in ((file.read_bytes(), 1), (b"damaged" + file.read_bytes()[7:], 2), (b"", 3)):
        file.write_bytes(content)
        monkeypatch.setattr(machine_code, "_loaded", {})
        found = trained(load_entry(source), sizes, "float64", "momentum")
        assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))
        assert len(made) == times


def _counted(function, calls: list):
    def counted(*args):
        calls.append(args)
        return function(*args)

    return counted


def test_a_folder_that_cannot_be_written_to_is_no_reason_to_fail(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(machine_code, "compile_cache_dir", lambda: tmp_path / "file")
    monkeypatch.setattr(machine_code, "_loaded", {})
    sizes = Sizes(2, 1, 1, "diagonal")
    assert trained(load_entry(run_source(sizes, "float64", "gd")), sizes, "float64", "gd")[0][0] > 0


def test_a_process_that_finds_code_imports_neither_numba_nor_the_translator(tmp_path):
    words = (
        "import sys\n"
        "from iclearn.engines.compiled.machine_code import load_entry\n"
        "from iclearn.engines.compiled.programs import run_source\n"
        "from iclearn.engines.contractions import Sizes\n"
        "load_entry(run_source(Sizes(2, 1, 1, 'diagonal'), 'float64', 'gd'))\n"
        "print(sorted({'numba', 'iclearn.engines.compiled.translate'} & set(sys.modules)))\n"
    )
    told = [_run(words, ICLEARN_COMPILE_CACHE=str(tmp_path)) for _ in range(2)]
    assert told == ["['iclearn.engines.compiled.translate']", "[]"]


def _run(words: str, **changes: str) -> str:
    done = subprocess.run([sys.executable, "-c", words], env={**os.environ, **changes}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
