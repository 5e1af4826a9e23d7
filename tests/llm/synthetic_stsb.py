"""Files shaped like the STS-Benchmark: its columns, sizes and quirks, with sentences made of a few words."""

from pathlib import Path

import numpy as np

WORDS = ["cat", "dog", "house", "tree", "runs", "sleeps", "red", "blue", "old", "new", "sea", "hill", "sings", "reads"]


def write_stsb(folder: Path, rng: np.random.Generator, rows=(("train", 5749), ("dev", 1500), ("test", 1379))) -> Path:
    """The score is the share of words two sentences have in common, times five."""
    sentences = [sorted(rng.choice(WORDS, 4, replace=False)) for _ in range(80)]
    for name, count in rows:
        lines = []
        for i in range(count):
            a, b = (sentences[j] for j in rng.integers(0, len(sentences), 2))
            score = 5 * len(set(a) & set(b)) / 4
            extra = "\tsource one\tsource two" if i % 7 == 0 else ""
            lines.append(f'main-news\tMSRpar\t2012\t{i:04d}\t{score:.3f}\tThe {" ".join(a)}.\tA "{" ".join(b)}.{extra}')
        end = "\r\n" if name == "train" else "\n"
        (folder / f"sts-{name}.csv").write_bytes((end.join(lines) + end).encode())
    return folder
