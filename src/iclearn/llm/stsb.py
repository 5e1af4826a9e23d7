"""The STS-Benchmark: pairs of English sentences and how similar people found them, from 0 to 5.

Read from the original files (tab-separated, no header, quotes are literal) or from a hub. The texts have mixed
licenses and are never stored by iclearn: only scores, row numbers and hashes are.

Cer, Diab, Agirre, Lopez-Gazpio, Specia. SemEval-2017 Task 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import IclearnError
from .extra import need

ROWS = {"train": 5749, "dev": 1500, "test": 1379}
LOWEST, HIGHEST = 0.0, 5.0
_COLUMNS = 7  # genre, file, year, number, score, sentence 1, sentence 2; some rows name their sources after that


@dataclass(frozen=True)
class Pair:
    """Two sentences and their score.

    >>> Pair("A cat sleeps.", "A dog sleeps.", 1.4).score
    1.4
    """

    first: str
    second: str
    score: float


@dataclass(frozen=True)
class Split:
    """The rows of one split, in the order of the file. For an example see `load_split`.

    Args:
        name: ``train``, ``dev`` or ``test``.
        pairs: the rows.
        digest: SHA-256 of texts and scores.
    """

    name: str
    pairs: tuple[Pair, ...]
    digest: str

    @property
    def scores(self) -> np.ndarray:
        """The scores (pair,)."""
        return np.array([pair.score for pair in self.pairs])


def load_split(source: str | Path, name: str, *, rows: int | None = -1) -> Split:
    """Read one split.

    Args:
        source: the folder of the original files (sts-train.csv, …), or the id of a dataset on a hub.
        name: ``train``, ``dev`` or ``test``.
        rows: how many rows there must be; the benchmark's own number by default, None for any.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> cells = ("main-captions", "MSRvid", "2012test", "0001", "2.500", "A man plays.", "A man sings.")
    >>> _ = (folder / "sts-dev.csv").write_text("\\t".join(cells))
    >>> load_split(folder, "dev", rows=None).pairs
    (Pair(first='A man plays.', second='A man sings.', score=2.5),)
    """
    if name not in ROWS:
        raise IclearnError(f"unknown split {name!r} of the STS-Benchmark; splits are {', '.join(ROWS)}")
    folder = Path(source)
    if folder.is_dir():
        where = folder / f"sts-{name}.csv"
        if not where.is_file():
            raise IclearnError(f"{folder} holds no sts-{name}.csv: give the folder of the original STS-Benchmark files")
        pairs = read_rows(where)
    elif folder.exists() or str(source).count("/") != 1 or str(source).startswith((".", "/")):
        raise IclearnError(f"{source} is no folder: give the folder that holds sts-train.csv and sts-{name}.csv")
    else:
        where, pairs = str(source), from_hub(str(source), name)
    expected = ROWS[name] if rows == -1 else rows
    if expected is not None and len(pairs) != expected:
        raise IclearnError(f"{where} has {len(pairs)} rows; the {name} split has {expected}: get the whole file")
    return Split(name, tuple(pairs), digest_of(pairs))


def read_rows(path: Path) -> list[Pair]:
    """The rows of one original file. All malformed rows are named by their line."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise IclearnError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    # only \n ends a row: str.splitlines would also break at characters that occur inside sentences
    lines = text.removesuffix("\n").split("\n") if text else []
    pairs, wrong = [], []
    for number, line in enumerate(lines, start=1):
        try:
            pairs.append(_pair_of(line.removesuffix("\r").split("\t")))
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise IclearnError(f"{path} has {len(wrong)} malformed rows ({'; '.join(wrong[:3])}{more})")
    return pairs


def _pair_of(cells: list[str]) -> Pair:
    if len(cells) < _COLUMNS:
        raise ValueError(f"{len(cells)} columns instead of {_COLUMNS}")
    try:
        score = float(cells[4])
    except ValueError:
        raise ValueError(f"the score {cells[4]!r} is no number") from None
    return _checked(cells[5].strip(), cells[6].strip(), score)


def _checked(first: str, second: str, score: float) -> Pair:
    if not LOWEST <= score <= HIGHEST:
        raise ValueError(f"the score {score:g} is outside 0 to 5")
    if not first or not second:
        raise ValueError("a sentence is empty")
    return Pair(first, second, score)


def from_records(records: Iterable[Mapping[str, Any]], origin: str) -> list[Pair]:
    """Pairs from records with sentence1, sentence2 and score (or label, from 0 to 5 or from 0 to 1)."""
    rows = list(records)
    key = "score" if rows and "score" in rows[0] else "label"
    try:
        scores = np.array([float(row[key]) for row in rows])
        texts = [(str(row["sentence1"]).strip(), str(row["sentence2"]).strip()) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise IclearnError(f"{origin} has no sentence1, sentence2 and score or label in every row ({error})") from None
    if rows and scores.max() <= 1:
        scores = scores * HIGHEST
    pairs = []
    for number, (sentences, score) in enumerate(zip(texts, scores, strict=True), start=1):
        try:
            pairs.append(_checked(*sentences, float(score)))
        except ValueError as error:
            raise IclearnError(f"{origin}, row {number}: {error}") from None
    return pairs


def from_hub(name: str, split: str) -> list[Pair]:
    """A split of a dataset on a hub, e.g. ``mteb/stsbenchmark-sts``; needs the network and the package datasets."""
    try:
        datasets = need("datasets")
    except IclearnError:
        raise IclearnError(f"{name} is no folder here; to fetch it from a hub, pip install datasets") from None
    last: Exception | None = None
    for spelling in (split, "validation" if split == "dev" else split):
        try:
            return from_records(datasets.load_dataset(name, split=spelling), f"{name}/{spelling}")
        except IclearnError:
            raise
        except Exception as error:  # whatever a download can raise
            last = error
    raise IclearnError(f"could not fetch {name} ({type(last).__name__}): give --stsb the folder of the original files")


def digest_of(pairs: Iterable[Pair]) -> str:
    """SHA-256 of texts and scores."""
    sha = hashlib.sha256()
    for pair in pairs:
        sha.update(f"{pair.first}\t{pair.second}\t{pair.score!r}\n".encode())
    return sha.hexdigest()
