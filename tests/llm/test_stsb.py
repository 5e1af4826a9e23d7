"""The STS-Benchmark is read whole, or the reader says which line is wrong."""

import sys
from pathlib import Path

import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.llm.stsb import ROWS, Pair, from_records, load_split, read_rows

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "stsb"


def row(score="3.5", first="A man eats.", second="Someone eats."):
    return f"main-captions\tMSRvid\t2012test\t0001\t{score}\t{first}\t{second}"


def write(folder, lines, name="dev", end="\n"):
    path = folder / f"sts-{name}.csv"
    path.write_bytes((end.join(lines) + end).encode())
    return path


def test_the_real_files():
    if not REAL.is_dir():
        pytest.skip("sts-train.csv, sts-dev.csv and sts-test.csv of the STS-Benchmark are not in ../shared/data/stsb")
    for name in ROWS:
        split = load_split(REAL, name)
        assert len(split.pairs) == ROWS[name]
        assert split.scores.min() == 0
        assert split.scores.max() == 5
        assert not any("\r" in text or "\t" in text for pair in split.pairs for text in (pair.first, pair.second))


def test_synthetic_files_of_full_size(stsb):
    train = load_split(stsb, "train")
    assert len(train.pairs) == 5749
    assert train.pairs[0].first.startswith("The ")
    assert train.pairs[0].second.startswith('A "')
    assert not train.pairs[0].second.endswith("\r")


def test_quirks(tmp_path):
    """Literal quotes, extra columns, Windows line ends, and characters that only look like line ends."""
    lines = [
        row(first='He said "no'),
        row() + "\tsource\tsource",
        row(second="One\u2028line, \x0b still."),
        row(score="0"),
    ]
    for end in ("\n", "\r\n"):
        pairs = read_rows(write(tmp_path, lines, end=end))
        assert [pair.score for pair in pairs] == [3.5, 3.5, 3.5, 0.0]
        assert pairs[0].first == 'He said "no'
        assert pairs[2].second == "One\u2028line, \x0b still."


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("only\tthree\tcolumns", "line 2: 3 columns instead of 7"),
        (row(score="high"), "line 2: the score 'high' is no number"),
        (row(score="5.5"), "line 2: the score 5.5 is outside 0 to 5"),
        (row(score="nan"), "line 2: the score nan is outside 0 to 5"),
        (row(second=" "), "line 2: a sentence is empty"),
        ("", "line 2: 1 columns instead of 7"),
    ],
)
def test_malformed_rows_are_named(tmp_path, bad, said):
    path = write(tmp_path, [row(), bad, row()])
    with pytest.raises(IclearnError, match="1 malformed rows") as caught:
        read_rows(path)
    assert said in str(caught.value)


def test_many_malformed_rows_make_one_line(tmp_path):
    with pytest.raises(IclearnError, match=r"9 malformed rows \(line 1: .*and 6 more\)"):
        read_rows(write(tmp_path, ["nothing"] * 9))


def test_wrong_counts_and_missing_files(tmp_path):
    write(tmp_path, [row()] * 10)
    with pytest.raises(IclearnError, match="has 10 rows; the dev split has 1500"):
        load_split(tmp_path, "dev")
    assert len(load_split(tmp_path, "dev", rows=10).pairs) == 10
    with pytest.raises(IclearnError, match=r"holds no sts-train\.csv"):
        load_split(tmp_path, "train")
    with pytest.raises(IclearnError, match="is no folder"):
        load_split(tmp_path / "nowhere", "dev")
    with pytest.raises(IclearnError, match="splits are train, dev, test"):
        load_split(tmp_path, "validation")
    (tmp_path / "sts-dev.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(IclearnError, match="is not UTF-8"):
        load_split(tmp_path, "dev")


def test_records_of_a_hub():
    """Labels from 0 to 1 are stretched to the scale; others are taken as they are."""
    rows = [{"sentence1": "a", "sentence2": "b", "score": x} for x in (0.0, 0.5, 1.0)]
    assert [pair.score for pair in from_records(rows, "hub")] == [0.0, 2.5, 5.0]
    glue = [{"sentence1": "a", "sentence2": "b", "label": x} for x in (1.0, 4.8)]
    assert from_records(glue, "hub")[1] == Pair("a", "b", 4.8)
    with pytest.raises(IclearnError, match="hub has no sentence1"):
        from_records([{"text": "a", "score": 1.0}], "hub")
    with pytest.raises(IclearnError, match="hub, row 2: a sentence is empty"):
        from_records([*glue[:1], {"sentence1": "", "sentence2": "b", "label": 2.0}], "hub")


def test_a_hub_needs_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        IclearnError, match="someone/stsb is no folder here; to fetch it from a hub, pip install datasets"
    ):
        load_split("someone/stsb", "dev")


def test_digest_tells_data_apart(tmp_path):
    first = load_split(write(tmp_path, [row()]).parent, "dev", rows=1)
    second = load_split(write(tmp_path, [row(score="3.6")]).parent, "dev", rows=1)
    assert first.digest != second.digest
    assert np.array_equal(first.scores, [3.5])
